"""What may change about a pod once it is there (docs/spec/api.md §6.1; docs/spec/apimachinery.md §12 and §16.2).

The main resource lets images, deadlines, more tolerations and fewer gates through; ``ephemeralcontainers`` new
ephemeral containers. What ``resize`` lets through is in `resizing`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.validation.claims import MIRROR_ANNOTATION
from cathedra.kinds.core.pods.validation.differences import spec_difference
from cathedra.kinds.core.pods.validation.scheduling import validate_tolerations
from cathedra.kinds.core.pods.validation.spec import SPEC, validate_any_pod

__all__ = ["validate_ephemeral_containers_update", "validate_pod_update"]

_UPDATABLE: Final = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MAX_INT32: Final = 2**31 - 1


def validate_pod_update(new: core_v1.Pod, old: core_v1.Pod) -> ErrorList:
    """What is wrong with a change through the main resource."""
    errors = validate_any_pod(new)
    for name, after, before in (
        ("containers", new.spec.containers, old.spec.containers),
        ("initContainers", new.spec.init_containers, old.spec.init_containers),
    ):
        if len(after) != len(before):
            errors.forbidden(SPEC.child(name), "pod updates may not add or remove containers")
            return errors
    if not _deadline(errors, new.spec, old.spec):
        return errors
    _tolerations(errors, new.spec.tolerations, old.spec.tolerations)
    _gates(errors, new.spec.scheduling_gates, old.spec.scheduling_gates)
    kept = _with_stored(new.spec, old.spec)
    if old.spec.scheduling_gates:
        kept = _while_gated(errors, kept, old.spec)
    if kept != old.spec:
        difference = spec_difference(old.spec, kept)
        errors.forbidden(SPEC, f"pod updates may not change fields other than {_UPDATABLE}\n{difference}")
    return errors


def _deadline(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> bool:
    """Whether the rest is worth looking at: deadlines only come nearer."""
    path = SPEC.child("activeDeadlineSeconds")
    after, before = new.active_deadline_seconds, old.active_deadline_seconds
    if after is None:
        if before is not None:
            errors.invalid(path, None, "must not update from a positive integer to nil value")
        return True
    if not 0 <= after <= _MAX_INT32:
        errors.invalid(path, after, f"must be between 0 and {_MAX_INT32}, inclusive")
        return False
    if before is not None and before < after:
        errors.invalid(path, after, "must be less than or equal to previous value")
        return False
    return True


def _tolerations(errors: ErrorList, new: Sequence[core_v1.Toleration], old: Sequence[core_v1.Toleration]) -> None:
    path = SPEC.child("tolerations")
    kept = {replace(other, toleration_seconds=None) for other in new}
    for toleration in old:
        if replace(toleration, toleration_seconds=None) not in kept:
            errors.forbidden(path, "existing toleration can not be modified except its tolerationSeconds")
            return
    validate_tolerations(errors, path, new)


def _gates(
    errors: ErrorList, new: Sequence[core_v1.PodSchedulingGate], old: Sequence[core_v1.PodSchedulingGate]
) -> None:
    known = {gate.name for gate in old}
    for position, gate in enumerate(new):
        if gate.name not in known:
            where = SPEC.child("schedulingGates").index(position).child("name")
            errors.forbidden(where, f"only deletion is allowed, but found new scheduling gate '{gate.name}'")


def _with_stored(new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """The new spec with the stored values of what may change."""
    changes: dict[str, Any] = {
        "containers": _with_images(new.containers, old.containers),
        "init_containers": _with_images(new.init_containers, old.init_containers),
        "active_deadline_seconds": old.active_deadline_seconds,
        "scheduling_gates": old.scheduling_gates,
        "tolerations": old.tolerations,
    }
    before = old.termination_grace_period_seconds
    if before is not None and before < 0 and new.termination_grace_period_seconds == 1:
        changes["termination_grace_period_seconds"] = before
    return replace(new, **changes)


def _with_images(new: Sequence[core_v1.Container], old: Sequence[core_v1.Container]) -> tuple[core_v1.Container, ...]:
    return tuple(replace(one, image=other.image) for one, other in zip(new, old, strict=True))


def _while_gated(errors: ErrorList, new: core_v1.PodSpec, old: core_v1.PodSpec) -> core_v1.PodSpec:
    """A pod that is still gated may become pickier about its node."""
    selector = new.node_selector
    if selector != old.node_selector:
        if any(selector.get(key) != value for key, value in old.node_selector.items()):
            text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errors.invalid(SPEC.child("nodeSelector"), selector, text)
        new = replace(new, node_selector=old.node_selector)
    before = _required(old)
    if before is None or _narrows(_required(new), before):
        affinity = new.affinity
        stored = old.affinity.node_affinity if old.affinity is not None else None
        if affinity is not None:
            kept = replace(affinity, node_affinity=stored)
            new = replace(new, affinity=None if kept == core_v1.Affinity() and old.affinity is None else kept)
    return new


def _required(spec: core_v1.PodSpec) -> core_v1.NodeSelector | None:
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return None
    return spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution


def _narrows(new: core_v1.NodeSelector | None, old: core_v1.NodeSelector) -> bool:
    """Whether every term keeps its requirements, in place and order, and at most gains some."""
    if new is None or len(new.node_selector_terms) != len(old.node_selector_terms):
        return False
    return all(
        _begins_with(after.match_expressions, before.match_expressions)
        and _begins_with(after.match_fields, before.match_fields)
        for after, before in zip(new.node_selector_terms, old.node_selector_terms, strict=True)
    )


def _begins_with(items: Sequence[Any], beginning: Sequence[Any]) -> bool:
    return list(items[: len(beginning)]) == list(beginning)


def validate_ephemeral_containers_update(new: core_v1.Pod, old: core_v1.Pod) -> ErrorList:
    """What is wrong with the ephemeral containers of a change; those that are there stay as they are."""
    errors = validate_any_pod(new)
    if MIRROR_ANNOTATION in old.metadata.annotations:
        errors.forbidden(FieldPath("[]"), "static pods do not support ephemeral containers")
        return errors
    path = SPEC.child("ephemeralContainers")
    after = {container.name: container for container in new.spec.ephemeral_containers}
    for container in old.spec.ephemeral_containers:
        found = after.get(container.name)
        if found is None:
            errors.forbidden(path, f'existing ephemeral containers "{container.name}" may not be removed\n')
        elif found != container:
            errors.forbidden(path, f'existing ephemeral containers "{container.name}" may not be changed\n')
    return errors
