"""Rules of requests, limits and claims of pods and containers (docs/spec/api.md §6.1).

A claim that a pod names need not exist: it may be created after the pod.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence, Set
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import Constant, ErrorList, ErrorType, FieldError, FieldPath, Names
from cathedra.api.formats import check
from cathedra.api.quantity import Quantity
from cathedra.kinds.core.resourcenames import (
    HUGE_PAGES,
    check_amount,
    container_resource_problems,
    is_overcommittable,
)
from cathedra.remembering import remembered
from cathedra.semantics.pods import MIRROR_ANNOTATION

_POD_RESOURCES: Final = frozenset(("cpu", "memory"))
_ZERO: Final = Quantity("0")


def validate_container_resources(
    errors: ErrorList, path: FieldPath, resources: core_v1.ResourceRequirements, claims: Set[str]
) -> None:
    """Validate the requests and limits of a container."""
    _amounts(errors, path.child("limits"), resources.limits)
    _requests(errors, path, resources)
    _huge_pages(errors, path, resources)
    validate_container_claims(errors, path.child("claims"), resources.claims, claims)


def _amounts(errors: ErrorList, path: FieldPath, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in sorted(amounts.items()):
        _name(errors, path, name)
        check_amount(errors, path.key(name), name, amount)


def _name(errors: ErrorList, path: FieldPath, name: str) -> None:
    # Longer names are always invalid. They bypass the cache, so that one request cannot fill it with megabytes of keys.
    problems = _remembered_problems if len(name) <= _LONGEST else container_resource_problems
    for problem in problems(name):
        errors.invalid(path.key(name), Constant(name), problem)


_LONGEST: Final = 317
"""No name of a resource may be longer."""
# Every container of every pod names the same few resources, and each name is matched against several patterns.
_remembered_problems: Final = remembered("kinds.core.pods.validation.problems", size=1024)(container_resource_problems)


def _requests(errors: ErrorList, path: FieldPath, resources: core_v1.ResourceRequirements) -> None:
    where = path.child("requests")
    for name, amount in sorted(resources.requests.items()):
        _name(errors, where, name)
        check_amount(errors, where.key(name), name, amount)
        limit = resources.limits.get(name)
        if limit is None:
            if not is_overcommittable(name):
                errors.required(path.child("limits"), "Limit must be set for non overcommitable resources")
        elif amount != limit and not is_overcommittable(name):
            errors.invalid(where, str(amount), f"must be equal to {name} limit of {limit}")
        elif amount > limit:
            errors.invalid(where, str(amount), f"must be less than or equal to {name} limit of {limit}")


def _huge_pages(errors: ErrorList, path: FieldPath, resources: core_v1.ResourceRequirements) -> None:
    names = {*resources.limits, *resources.requests}
    # Huge pages alone would leave a pod without a QoS class above BestEffort, and it would be evicted first.
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        errors.forbidden(path, "HugePages require cpu or memory")


def validate_pod_resources(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec, claims: Set[str]) -> None:
    """Validate the requests and limits of a pod as a whole: no claims, and no less than its containers together."""
    resources = spec.resources
    if resources is None:
        return
    if _is_written(resources.claims):
        errors.forbidden(path.child("claims"), "claims may not be set for Resources at pod-level")
    for kind, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name, amount in sorted(amounts.items()):
            where = path.child(kind)
            # A malformed name is not reported as unsupported as well: one error for each name, as in Kubernetes.
            if problems := formats.qualified_name(name):
                for problem in problems:
                    errors.invalid(where.key(name), Constant(name), problem)
            elif name not in _POD_RESOURCES and not name.startswith(HUGE_PAGES):
                errors.not_supported(where.key(name), name, (*_POD_RESOURCES, HUGE_PAGES))
            check_amount(errors, where.key(name), name, amount)
    totals = _totals(spec.containers, resources.requests)
    for name, amount in sorted(resources.requests.items()):
        limit = resources.limits.get(name)
        if limit is not None and amount > limit:
            errors.invalid(
                path.child("requests"), str(amount), f"must be less than or equal to {name} limit of {limit}"
            )
        if limit is None and not is_overcommittable(name):
            errors.required(path.child("limits"), "Limit must be set for non overcommitable resources")
        # Only requests are compared with the sum. Limits of a pod may be lower than the sum of its containers' limits:
        # the pod's cgroup caps them together.
        total = totals.get(name, _ZERO)
        if amount < total:
            errors.invalid(
                path.child("requests").key(name),
                str(amount),
                f"must be greater than or equal to aggregate container requests of {total}",
            )
    validate_container_claims(errors, path.child("claims"), resources.claims, claims)


def _totals(containers: Iterable[core_v1.Container], wanted: Container[str]) -> dict[str, Quantity]:
    """Return the sum of what containers request of the wanted resources."""
    totals: dict[str, Quantity] = {}
    for container in containers:
        for name, amount in container.resources.requests.items():
            if name in wanted:
                totals[name] = totals.get(name, _ZERO) + amount
    return totals


def _is_written(items: tuple[object, ...]) -> bool:
    """Return True if the list was spelled out, be it empty."""
    return bool(items) or type(items) is not tuple


_NO_FIELD: Final = "[]"
"""Kubernetes' text for an empty path."""


def claim_names(spec: core_v1.PodSpec) -> frozenset[str]:
    """Return the names of claims that containers may refer to."""
    return frozenset(claim.name for claim in spec.resource_claims if claim.name)


def validate_pod_claims(errors: ErrorList, path: FieldPath, claims: Sequence[core_v1.PodResourceClaim]) -> None:
    """Require that every entry has a name of its own and names one claim or one template."""
    seen: set[str] = set()
    for position, claim in enumerate(claims):
        where = path.index(position)
        if not claim.name:
            errors.required(where.child("name"))
        elif claim.name in seen:
            errors.duplicate(where.child("name"), claim.name)
        else:
            check(errors, where.child("name"), claim.name, formats.dns_label)
            seen.add(claim.name)
        # ``source`` is the older form of the reference. Pods that were stored with it keep it, and errors name its
        # path.
        if claim.source is not None:
            _references(errors, where.child("source"), claim.source)
        else:
            _references(errors, where, claim)


def _references(errors: ErrorList, path: FieldPath, claim: core_v1.PodResourceClaim | core_v1.ClaimSource) -> None:
    given = (
        ("resourceClaimName", claim.resource_claim_name),
        ("resourceClaimTemplateName", claim.resource_claim_template_name),
    )
    count = sum(value is not None for _, value in given)
    if count > 1:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.invalid(path, claim, text)
    if count == 0:
        errors.invalid(path, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
    for name, value in given:
        if value is not None:
            check(errors, path.child(name), value, formats.dns_subdomain)


def validate_container_claims(
    errors: ErrorList, path: FieldPath, claims: Sequence[core_v1.ResourceClaim], known: Set[str]
) -> None:
    """Require that a container uses a claim as a whole or some of its requests, each once."""
    used = _Used()
    for position, claim in enumerate(claims):
        where = path.index(position)
        if not claim.name:
            errors.required(where)
            continue
        used.enter(errors, where, claim)
        if claim.name not in known:
            # The names are added to the detail later, by `Names`, because formatting them for errors that no one reads
            # is slow.
            detail = "" if known else f"{_CHOICE} which is empty"
            names = Names(_CHOICE, known, quoted=False, in_order=False)
            errors.append(FieldError(ErrorType.NOT_FOUND, where, claim.name, detail, names=names))


_CHOICE: Final = "must be one of the names in pod.spec.resourceClaims"


class _Used:
    """Claims, requests of claims, and claims with a used request that a container has named so far."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._in_part: set[str] = set()

    def enter(self, errors: ErrorList, path: FieldPath, claim: core_v1.ResourceClaim) -> None:
        """Add the next use, and report its errors."""
        if claim.name in self._seen:
            errors.duplicate(path, claim.name)
            return
        # A claim may be listed once as a whole, or once for each of its requests, never both: the whole contains each
        # of its requests.
        key = claim.name
        if claim.request:
            check(errors, path.child("request"), claim.request, formats.dns_label)
            key = f"{claim.name}/{claim.request}"
            self._in_part.add(claim.name)
        if key in self._seen:
            errors.duplicate(path, key)
        elif not claim.request and claim.name in self._in_part:
            errors.duplicate(path, claim.name)
        self._seen.add(key)


def validate_mirror(errors: ErrorList, pod: core_v1.Pod) -> None:
    """Require that pods that a node started from a file are on it, and have no claims: no scheduler could allocate
    them."""
    if not pod.spec.node_name:
        where = FieldPath("metadata").child("annotations").key(MIRROR_ANNOTATION)
        text = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(where, pod.metadata.annotations[MIRROR_ANNOTATION], text)
    for _ in pod.spec.resource_claims:
        # Kubernetes reports this error once per claim and with an empty path, which Go prints as "[]".
        errors.forbidden(_NO_FIELD, "static pods do not support resource claims")
