"""Rules of a resize: changes of cpu and memory while a pod runs.

Containers and sidecars can be resized, from 1.36 on the pod as a whole too. Up to 1.36 a pod whose containers use
claims cannot: the claims were lost before the comparison; 1.37 keeps them, and lets pods through whose claims take from
the node
(docs/spec/api.md §6.1, docs/spec/node.md §13; KEP-1287, KEP-5419, KEP-5517).
"""

from __future__ import annotations

from typing import Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.validation._spec import SPEC, validate_any_pod
from cathedra.releases import FeatureGates, behaviours
from cathedra.semantics.pods import is_mirror, is_sidecar

_RESIZABLE: Final = ("cpu", "memory")


def validate_resize(new: core_v1.Pod, old: core_v1.Pod, qos: str, gates: FeatureGates) -> ErrorList:
    """Return the errors of new requests and limits; ``qos`` is the quality class they would make."""
    errors = validate_any_pod(new)
    if is_mirror(old):
        errors.forbidden(FieldPath("[]"), "static pods cannot be resized")
        return errors
    if not gates.has(behaviours.POD_LEVEL_RESIZE) and (_has_own(old.spec) or _has_own(new.spec)):
        errors.forbidden(FieldPath("[]"), "pods with pod-level resources cannot be resized")
        return errors
    keeps_claims = gates.has(behaviours.RESIZE_KEEPS_CLAIMS)
    if old.status.node_allocatable_resource_claim_statuses and not keeps_claims:
        errors.forbidden(SPEC, "pods with node allocatable resource claims cannot be resized")
    if not _same_containers(errors, new.spec, old.spec):
        return errors
    if qos != old.status.qos_class:
        errors.invalid(SPEC, old.status.qos_class, "Pod QOS Class may not change as a result of resizing")
    _nothing_removed(errors, new.spec, old.spec)
    if not _only_resized(errors, new.spec, old.spec, keeps_claims=keeps_claims):
        errors.forbidden(SPEC, "only cpu and memory resources are mutable")
    return errors


def _has_own(spec: core_v1.PodSpec) -> bool:
    return spec.resources is not None and bool(spec.resources.requests or spec.resources.limits)


def _same_containers(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> bool:
    for field, after, before in (
        ("initContainers", new.init_containers, old.init_containers),
        ("containers", new.containers, old.containers),
    ):
        path = SPEC.child(field)
        if len(after) != len(before):
            errors.forbidden(path, "containers may not be added or removed on resize")
            return False
        if [one.name for one in after] != [one.name for one in before]:
            errors.forbidden(path, "containers may not be renamed or reordered on resize")
            return False
    return True


def _nothing_removed(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> None:
    for field, afters, befores in (
        ("initContainers", new.init_containers, old.init_containers),
        ("containers", new.containers, old.containers),
    ):
        for position, (after, before) in enumerate(zip(afters, befores, strict=True)):
            if field == "containers" or is_sidecar(before):
                path = SPEC.child(field).index(position).child("resources")
                _kept_amounts(errors, path, after.resources, before.resources)
    if old.resources is not None:
        _kept_amounts(errors, SPEC.child("resources"), new.resources or core_v1.ResourceRequirements(), old.resources)


def _kept_amounts(
    errors: ErrorList, path: FieldPath, new: core_v1.ResourceRequirements, old: core_v1.ResourceRequirements
) -> None:
    for what, after, before in (("requests", new.requests, old.requests), ("limits", new.limits, old.limits)):
        if any(name in before and name not in after for name in _RESIZABLE):
            errors.forbidden(path.child(what), f"resource {what} cannot be removed")


def _only_resized(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec, *, keeps_claims: bool) -> bool:
    """Return True if nothing but cpu and memory differs; what is wrong with init containers has its own words."""
    init_containers: list[core_v1.Container] = []
    for after, before in zip(new.init_containers, old.init_containers, strict=True):
        kept = after
        if is_sidecar(before):
            kept = _unresized(after, before, keeps_claims=keeps_claims)
            text = "only cpu and memory resources for sidecar containers are mutable"
        else:
            text = "resources for non-sidecar init containers are immutable"
        if kept != before:
            errors.forbidden(SPEC, text)
            return True
        init_containers.append(kept)
    containers = tuple(
        _unresized(after, before, keeps_claims=keeps_claims)
        for after, before in zip(new.containers, old.containers, strict=True)
    )
    shared = new.resources
    if shared is not None and old.resources is not None:
        shared = _stored_amounts(shared, old.resources, claims=shared.claims)
    kept_spec = replace(new, init_containers=tuple(init_containers), containers=containers, resources=shared)
    return kept_spec == old


def _unresized(after: core_v1.Container, before: core_v1.Container, *, keeps_claims: bool) -> core_v1.Container:
    """Return the container as the rule compares it: with stored cpu and memory, and up to 1.36 without its claims."""
    claims = after.resources.claims if keeps_claims else ()
    return replace(after, resources=_stored_amounts(after.resources, before.resources, claims=claims))


def _stored_amounts(
    new: core_v1.ResourceRequirements,
    old: core_v1.ResourceRequirements,
    *,
    claims: tuple[core_v1.ResourceClaim, ...],
) -> core_v1.ResourceRequirements:
    return core_v1.ResourceRequirements(
        limits=_with_old(new.limits, old.limits), requests=_with_old(new.requests, old.requests), claims=claims
    )


def _with_old(new: dict[str, Quantity], old: dict[str, Quantity]) -> dict[str, Quantity]:
    if not old:
        return {}
    others = {name: amount for name, amount in new.items() if name not in _RESIZABLE}
    return {**others, **{name: old[name] for name in _RESIZABLE if name in old}}
