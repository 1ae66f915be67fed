"""The limits of a namespace: new pods get its defaults, and amounts stay within its bounds (plugin LimitRanger).

Pods are checked when they are created or resized, claims for volumes when they are created or changed. Of several
LimitRanges each adds the defaults that are still missing, and the bounds of all of them hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from cathedra.api.core.core_v1 import Container, LimitRange, LimitRangeItem, Pod, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import replace
from cathedra.apiserver.admission.attributes import AdmissionAttributes
from cathedra.apiserver.admission.plugin import AdmissionPlugin
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.routes import PODS
from cathedra.kinds.core.limitranges import CONTAINER, POD, VOLUME_CLAIM
from cathedra.kinds.definition import AnyDefinition
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.podresources import pod_limit_quantities, pod_request_quantities

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LIMIT_RANGES: Final = GroupResource("", "limitranges")
_VOLUME_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")

Amounts = Mapping[str, Quantity]
Rule = Callable[[str, str, Quantity, Amounts, Amounts], str]
"""Function of limit type, resource, bound, requests and limits that returns the violation, or ""."""


class StatedAmounts(Protocol):
    """The requests and limits of a container, a pod or a claim."""

    @property
    def requests(self) -> Amounts:
        """Amounts by resource that are reserved."""

    @property
    def limits(self) -> Amounts:
        """Amounts by resource that may not be exceeded."""


class LimitRanger(AdmissionPlugin):
    """Fills in and enforces the LimitRanges of a namespace."""

    kinds = frozenset({PODS, _VOLUME_CLAIMS})
    rules = frozenset({_LIMIT_RANGES})

    def __init__(self, registry: Registry, gates: FeatureGates) -> None:
        self._registry = registry
        self._skips_kept = gates.has(behaviours.KEPT_AMOUNTS_UNLIMITED)

    def handles(self, definition: AnyDefinition, subresource: str, operation: str) -> bool:
        """Handle everything while there is a LimitRange."""
        return bool(self._registry.count(_LIMIT_RANGES))

    def admit(self, request: AdmissionAttributes) -> Any:
        """Return the pod with default requests and limits."""
        if not _is_concerned(request) or request.definition.group_resource != PODS:
            return request.object
        pod: Pod = request.object
        for limits in self._limit_ranges(request.namespace):
            pod = _with_defaults(pod, limits)
        return pod

    def validate(self, request: AdmissionAttributes) -> None:
        """Refuse amounts that are out of bounds.

        Raises:
            StatusError: 403, with all violations of one LimitRange.
        """
        if not _is_concerned(request):
            return
        resource = request.definition.group_resource
        violations = _pod_violations if resource == PODS else _volume_claim_violations
        stored = request.old_object if self._skips_kept else None
        for limits in self._limit_ranges(request.namespace):
            found = list(dict.fromkeys(problem for problem in violations(limits, request.object, stored) if problem))
            if found:
                raise forbidden(resource, request.name, found[0] if len(found) == 1 else f"[{', '.join(found)}]")

    def _limit_ranges(self, namespace: str) -> list[LimitRange]:
        try:
            table = self._registry.table(_LIMIT_RANGES)
        except KeyError:
            return []
        return [entry.object for entry in table.select(Selection(namespace))] if len(table) else []


def _is_concerned(request: AdmissionAttributes) -> bool:
    # The resources of a pod change only through its sub-resource resize.
    is_update_of_pod = request.old_object is not None and request.definition.group_resource == PODS
    if request.object is None or request.subresource != ("resize" if is_update_of_pod else ""):
        return False
    return request.old_object is None or request.old_object.metadata.deletion_timestamp is None


# Defaults.


def _with_defaults(pod: Pod, limits: LimitRange) -> Pod:
    requests: dict[str, Quantity] = {}
    bounds: dict[str, Quantity] = {}
    for item in limits.spec.limits or ():
        if item.type == CONTAINER:
            requests |= item.default_request
            bounds |= item.default
    if not requests and not bounds:
        return pod
    notes: list[str] = []
    containers = tuple(_filled(c, requests, bounds, "container", notes) for c in pod.spec.containers)
    first = tuple(_filled(c, requests, bounds, "init container", notes) for c in pod.spec.init_containers)
    if not notes:
        return pod
    annotations = {**pod.metadata.annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}
    return replace(
        pod,
        metadata=replace(pod.metadata, annotations=annotations),
        spec=replace(pod.spec, containers=containers, init_containers=first),
    )


def _filled(container: Container, requests: Amounts, limits: Amounts, what: str, notes: list[str]) -> Container:
    stated = container.resources
    for names, kind in (
        (requests.keys() - stated.requests.keys(), "request"),
        (limits.keys() - stated.limits.keys(), "limit"),
    ):
        if names:
            notes.append(f"{', '.join(sorted(names))} {kind} for {what} {container.name}")
    filled = replace(stated, requests={**requests, **stated.requests}, limits={**limits, **stated.limits})
    return replace(container, resources=filled)


# Bounds.


def _pod_violations(limits: LimitRange, pod: Pod, stored: Pod | None) -> Iterator[str]:
    kept = {} if stored is None else {container.name: container.resources for container in _containers(stored)}
    for item in limits.spec.limits or ():
        if item.type == CONTAINER:
            for container in _containers(pod):
                yield from _violations(item, container.resources, kept.get(container.name))
        if item.type == POD:
            yield from _violations(item, _totals(pod), None if stored is None else _totals(stored))


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _totals(pod: Pod) -> StatedAmounts:
    # The overhead comes from the runtime class, and is not the user's choice.
    plain = replace(pod, spec=replace(pod.spec, overhead={}))
    return ResourceRequirements(requests=pod_request_quantities(plain), limits=pod_limit_quantities(plain))


def _volume_claim_violations(limits: LimitRange, claim: Any, stored: Any | None) -> Iterator[str]:
    asked = claim.spec.resources
    kept = {} if stored is None else stored.spec.resources.requests
    for item in limits.spec.limits or ():
        if item.type != VOLUME_CLAIM:
            continue
        for name, bound in sorted(item.min.items()):
            if name not in kept or kept[name] != asked.requests.get(name):
                yield _below(item.type, name, bound, asked.requests, asked.limits)
        for name, bound in sorted(item.max.items()):
            if name not in kept or kept[name] != asked.requests.get(name):
                yield _request_above(item.type, name, bound, asked.requests)


def _violations(item: LimitRangeItem, stated: StatedAmounts, stored: StatedAmounts | None) -> Iterator[str]:
    bounds: tuple[tuple[Amounts, Rule], ...] = (
        (item.min, _below),
        (item.max, _above),
        (item.max_limit_request_ratio, _out_of_ratio),
    )
    for amounts, rule in bounds:
        for name, bound in sorted(amounts.items()):
            if stored is None or not _is_kept(name, stated, stored):
                yield rule(item.type, name, bound, stated.requests, stated.limits)


def _is_kept(name: str, stated: StatedAmounts, stored: StatedAmounts) -> bool:
    """Return True if an update changes neither request nor limit, because each rule may read both."""
    return stated.requests.get(name) == stored.requests.get(name) and stated.limits.get(name) == stored.limits.get(name)


def _below(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    says = f"minimum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{says}.  No request is specified"
    if requests[name] < bound:
        return f"{says}, but request is {requests[name]}"
    return f"{says}, but limit is {limits[name]}" if name in limits and limits[name] < bound else ""


def _above(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    says = f"maximum {name} usage per {kind} is {bound}"
    if name not in limits:
        return f"{says}.  No limit is specified"
    if bound < limits[name]:
        return f"{says}, but limit is {limits[name]}"
    return f"{says}, but request is {requests[name]}" if name in requests and bound < requests[name] else ""


def _request_above(kind: str, name: str, bound: Quantity, requests: Amounts) -> str:
    says = f"maximum {name} usage per {kind} is {bound}"
    if name not in requests:
        return f"{says}.  No request is specified"
    return f"{says}, but request is {requests[name]}" if bound < requests[name] else ""


def _out_of_ratio(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> str:
    says = f"{name} max limit to request ratio per {kind} is {bound}"
    if not requests.get(name):
        return f"{says}, but no request is specified or request is 0"
    if not limits.get(name):
        return f"{says}, but no limit is specified or limit is 0"
    limit, request = limits[name].nanos, requests[name].nanos
    return f"{says}, but provided ratio is {limit / request:f}" if limit * 10**9 > bound.nanos * request else ""
