"""Requests for an allocation: the claims of a call, from claims, templates, pods and workloads.

A pod stands for its claims. Claims of its templates belong to the pod alone. Claims that it names are shared by all
pods that name them, and allocated once (docs/spec/controllers.md §2.1). Claims are defaulted and validated as by the
API server.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input, name_of, plain_objects, typed_object
from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.quantity import Quantity
from cathedra.api.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceClaimTemplate
from cathedra.api.selectors import node_selector_matches
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.semantics.podresources import container_totals

Key = tuple[str, str]
"""Namespace and name of a claim or workload."""
_WORKLOADS: Final = frozenset(
    ("DaemonSet", "Deployment", "Job", "PodTemplate", "ReplicaSet", "ReplicationController", "StatefulSet")
)
_TAKEN: Final = "claims, templates, pods, and workloads that make pods"


class ClaimSet(msgspec.Struct, frozen=True):
    """The claims that are to be allocated together."""

    claims: tuple[ResourceClaim, ...]
    shared: frozenset[Key] = frozenset()
    """Return those of ``claims`` that further copies would share."""
    places: tuple[core_v1.NodeSelector, ...] = ()
    """Node selections of claims that pods name and that are already allocated."""
    room: Mapping[str, Quantity] = msgspec.field(default_factory=dict)
    """Requests of the pods besides their devices: resource → amount."""

    def reaches(self, node: core_v1.Node, copies: int = 1) -> bool:
        """Return True if all claims that are already allocated can be used on ``node``, and it has room for
        ``copies`` of the pods."""
        return not self.shortage(node, copies) and all(node_selector_matches(place, node) for place in self.places)

    def shortage(self, node: core_v1.Node, copies: int = 1) -> str:
        """Return the resource of which the whole node has too little, whatever else runs on it; "" if there is none.

        A node without ``status.allocatable`` has enough of everything.
        """
        allocatable = node.status.allocatable
        if not allocatable:
            return ""
        for name, amount in self.room.items():
            if amount.nanos * copies > (allocatable[name].nanos if name in allocatable else 0):
                return name
        return ""

    def after(self, results: Sequence[AllocationResult]) -> ClaimSet:
        """Return the claim set of the next copy, after this one has got ``results``."""
        if not self.shared:
            return self
        mine = tuple(claim for claim in self.claims if _key(claim) not in self.shared)
        places = tuple(
            result.node_selector
            for claim, result in zip(self.claims, results, strict=True)
            if _key(claim) in self.shared and result.node_selector is not None
        )
        return ClaimSet(mine, places=(*self.places, *places), room=self.room)


def read_claim_set(
    given: Input,
    claims: Mapping[Key, ResourceClaim],
    templates: Mapping[Key, ResourceClaimTemplate],
    classes: Mapping[str, DeviceClass] = MappingProxyType({}),
) -> ClaimSet:
    """Return the request for ``given``; ``claims``, ``templates`` and ``classes`` are those of the cluster.

    Claims and templates that no pod of ``given`` uses are requested by themselves. Objects of kinds that have nothing
    to do with devices, such as namespaces, are left out.

    Raises:
        InvalidInput: something is neither claim nor template nor pod, names what is not there, or is invalid.
    """
    known = [_input_object(one) for one in plain_objects(given)]
    objects = [one for one in known if not isinstance(one, str)]
    if known and not objects:
        raise InvalidInput(f"{known[0]} requests no devices; pass {_TAKEN}")
    pods = [one for one in objects if isinstance(one, core_v1.Pod)]
    known_claims = {**claims, **{_key(one): one for one in objects if isinstance(one, ResourceClaim)}}
    known_templates = {**templates, **{_key(one): one for one in objects if isinstance(one, ResourceClaimTemplate)}}
    requested = list(_unused(objects, {_key(pod, name) for pod in pods for name in _named(pod)}))
    shared: dict[Key, ResourceClaim] = {}
    room: dict[str, Quantity] = {}
    for pod in pods:
        of_devices, requests = _extended(pod, classes)
        if of_devices is not None:
            requested.append(of_devices)
        for name, amount in requests.items():
            room[name] = room[name] + amount if name in room else amount
        if of_devices is not None and not pod.spec.resource_claims:
            continue
        for claim, is_shared in _claims_of(pod, known_claims, known_templates):
            if not is_shared:
                requested.append(claim)
            elif _key(claim) not in shared:
                shared[_key(claim)] = claim
    if not requested and not shared:
        raise InvalidInput(f"there is no claim in the input; pass {_TAKEN}")
    allocations = [(claim, claim.status.allocation) for claim in shared.values()]
    waiting = [claim for claim, allocation in allocations if allocation is None]
    selectors = [allocation.node_selector for _, allocation in allocations if allocation is not None]
    return ClaimSet(
        tuple(_completed(claim) for claim in (*requested, *waiting)),
        frozenset(map(_key, waiting)),
        tuple(selector for selector in selectors if selector is not None),
        room,
    )


def _unused(objects: Iterable[KubeObject], used: Container[Key]) -> Iterator[ResourceClaim]:
    """Yield the claims, and one of each template, that no pod uses."""
    for one in objects:
        if isinstance(one, ResourceClaim) and _key(one) not in used:
            yield one
        elif isinstance(one, ResourceClaimTemplate) and _key(one) not in used:
            yield _claim_of(one, one.metadata.namespace, one.metadata.name)


def _input_object(one: KubeObject | Mapping[str, Any]) -> ResourceClaim | ResourceClaimTemplate | core_v1.Pod | str:
    """Return the object, or kind and name of one of a kind that allocation does not read."""
    if isinstance(one, Mapping) and "kind" not in one:
        one = _with_kind(one)
    elif isinstance(one, KubeObject) and type(one).__name__ in _WORKLOADS:
        one = {"kind": type(one).__name__, **to_dict(one)}
    if isinstance(one, Mapping) and one.get("kind") in _WORKLOADS:
        one = _pod_of(one)
    typed = typed_object(one, strict=True)
    if isinstance(typed, (ResourceClaim, ResourceClaimTemplate, core_v1.Pod)):
        return typed
    kind = one.get("kind") if isinstance(one, Mapping) else type(one).__name__
    if typed is None:
        return f"{kind} {name_of(one)}"
    raise InvalidInput(f"{kind} {name_of(one)} requests no devices; pass {_TAKEN}")


def _with_kind(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a dict without a kind as a claim, if it has the form of one."""
    spec = one.get("spec")
    if isinstance(spec, Mapping) and "devices" in spec and "driver" not in spec:
        return {"kind": "ResourceClaim", **one}
    hint = "; a spec needs its claim around it: {kind: ResourceClaim, metadata: …, spec: …}" if "devices" in one else ""
    raise InvalidInput(f"an object without a kind, with the fields {', '.join(map(str, one)) or 'none'}{hint}")


def _pod_of(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    outer = workload if workload["kind"] == "PodTemplate" else workload.get("spec")
    template = outer.get("template") if isinstance(outer, Mapping) else None
    if not isinstance(template, Mapping):
        raise InvalidInput(f"{workload['kind']} {name_of(workload)}: it has no pod template")
    metadata = workload.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {key: known[key] for key in ("name", "namespace") if key in known},
        "spec": template.get("spec"),
    }


_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"


def _extended(pod: core_v1.Pod, classes: Mapping[str, DeviceClass]) -> tuple[ResourceClaim | None, dict[str, Quantity]]:
    """Return the claim that stands for the pod's extended resources with a device class, and its other requests."""
    # A request that is not given is the limit, as the API server fills it in.
    total = container_totals(pod, lambda one: {**one.resources.limits, **one.resources.requests})
    room = dict(total)
    requests: list[dict[str, Any]] = []
    for name in total:
        found = _class_of(name, classes)
        if found is None:
            continue
        amount = room.pop(name).value()
        if amount > 0:
            body = {"deviceClassName": found, "allocationMode": "ExactCount", "count": amount}
            requests.append({"name": f"extended-{len(requests)}", "exactly": body})
    if not requests:
        return None, room
    metadata = {"name": f"{pod.metadata.name}-extended-resources", "namespace": pod.metadata.namespace}
    return from_dict(ResourceClaim, {"metadata": metadata, "spec": {"devices": {"requests": requests}}}), room


def _class_of(resource: str, classes: Mapping[str, DeviceClass]) -> str | None:
    """Return the class of an extended resource: the newest with that name, else the one of the implicit name."""
    named = [one for one in classes.values() if one.spec.extended_resource_name == resource]
    if named:
        return min(named, key=_newest_first).metadata.name
    implicit = resource.removeprefix(_IMPLICIT)
    return implicit if implicit != resource and implicit in classes else None


def _newest_first(one: DeviceClass) -> tuple[int, str]:
    created = one.metadata.creation_timestamp
    return (-created.micros if created is not None else 0, one.metadata.name)


def _named(pod: core_v1.Pod) -> Iterator[str]:
    for entry in pod.spec.resource_claims:
        yield entry.resource_claim_name or entry.resource_claim_template_name or ""


def _claims_of(
    pod: core_v1.Pod, claims: Mapping[Key, ResourceClaim], templates: Mapping[Key, ResourceClaimTemplate]
) -> Iterator[tuple[ResourceClaim, bool]]:
    """Yield each claim of a pod, with True if other pods may name it too.

    Raises:
        InvalidInput: it has none, or one of them or its template is not there.
    """
    where = f"Pod {name_of(pod)}"
    if not pod.spec.resource_claims:
        raise InvalidInput(f"{where} has no spec.resourceClaims: there is nothing to allocate")
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            claim = claims.get(_key(pod, entry.resource_claim_name))
            if claim is None:
                raise InvalidInput(
                    f"{where}: claim {entry.resource_claim_name!r} is neither in the input nor in the cluster"
                )
            yield claim, True
            continue
        template = templates.get(_key(pod, entry.resource_claim_template_name or ""))
        if template is None:
            raise InvalidInput(
                f"{where}: template {entry.resource_claim_template_name!r} is neither in the input nor in the cluster"
            )
        yield _claim_of(template, pod.metadata.namespace, f"{pod.metadata.name}-{entry.name}"), False


def _claim_of(template: ResourceClaimTemplate, namespace: str, name: str) -> ResourceClaim:
    metadata = replace(template.metadata, namespace=namespace, name=name)
    return ResourceClaim(metadata=metadata, spec=template.spec.spec)


def _completed(claim: ResourceClaim) -> ResourceClaim:
    """Return the claim with its defaults, as the API server would accept it.

    Raises:
        InvalidInput: it would not; the text is the API server's.
    """
    # Only where questions are put: the rules of the kinds would double the import of the package.
    from cathedra.api.field import ErrorList, FieldPath
    from cathedra.kinds.definition import RequestContext
    from cathedra.kinds.resource.claims.defaults import default_claim
    from cathedra.kinds.resource.claims.validation import validate_claim_spec
    from cathedra.releases import FeatureGates

    claim = default_claim(claim)
    errors = ErrorList()
    context = RequestContext(gates=FeatureGates.for_release(), now=0.0)
    validate_claim_spec(errors, FieldPath("spec"), claim.spec, context, stored=False)
    if errors:
        raise InvalidInput(f"ResourceClaim {name_of(claim)} is invalid: {'; '.join(map(str, errors))}")
    return claim


def _key(one: Any, name: str | None = None) -> Key:
    """Namespace and name of an object, or of another one in its namespace."""
    return (one.metadata.namespace or "default", one.metadata.name if name is None else name)
