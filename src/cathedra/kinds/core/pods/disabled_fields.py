"""Removal of the fields of pods and their status whose gates are off (docs/spec/api.md §1.6).

A field that the stored pod has stays enabled for this pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from cathedra.api.core import batch_v1, core_v1
from cathedra.api.struct import replace
from cathedra.releases import FeatureGates
from cathedra.remembering import IDENTITY, remembered


def enabled_pod_spec(spec: core_v1.PodSpec, old: core_v1.PodSpec | None, gates: FeatureGates) -> core_v1.PodSpec:
    """Return the spec without disabled fields; also for templates."""
    changes: dict[str, Any] = {}
    grouped = spec.scheduling_group is not None
    if grouped and not gates["GenericWorkload"] and (old is None or old.scheduling_group is None):
        changes["scheduling_group"] = None
    referring = spec.workload_ref is not None
    if referring and not gates["GenericWorkload"] and (old is None or old.workload_ref is None):
        changes["workload_ref"] = None
    if not gates["DynamicResourceAllocation"] and (old is None or not old.resource_claims):
        changes["resource_claims"] = ()
        # The uses go with the claims. A container that refers to a dropped claim would fail validation with an error
        # about a field that its author did write.
        for name in ("containers", "init_containers"):
            containers: tuple[core_v1.Container, ...] = getattr(spec, name)
            changes[name] = tuple(replace(c, resources=replace(c.resources, claims=())) for c in containers)
    if not changes:
        return spec
    # An equal spec stays the same object, because the memos of validation and defaulting find it by identity.
    changed = {name: value for name, value in changes.items() if getattr(spec, name) != value}
    return replace(spec, **changed) if changed else spec


def enabled_template(obj: Any, old: Any, gates: FeatureGates) -> Any:
    """Return a workload without the disabled fields of its pod template."""
    spec = _enabled_in(obj.spec, None if old is None else old.spec, gates)
    return obj if spec is obj.spec else replace(obj, spec=spec)


def enabled_pod_template(
    obj: core_v1.PodTemplate, old: core_v1.PodTemplate | None, gates: FeatureGates
) -> core_v1.PodTemplate:
    """Return a PodTemplate without disabled fields."""
    kept: core_v1.PodTemplate = _enabled_in(obj, old, gates)
    return kept


def enabled_job_template(obj: batch_v1.CronJob, old: batch_v1.CronJob | None, gates: FeatureGates) -> batch_v1.CronJob:
    """Return a cron job without the disabled fields of the pod template of its jobs."""
    jobs = obj.spec.job_template
    spec = _enabled_in(jobs.spec, None if old is None else old.spec.job_template.spec, gates)
    if spec is jobs.spec:
        return obj
    return replace(obj, spec=replace(obj.spec, job_template=replace(jobs, spec=spec)))


def _enabled_in(owner: Any, old: Any, gates: FeatureGates) -> Any:
    """Return an object without the disabled fields of its pod template."""
    template: core_v1.PodTemplateSpec | None = owner.template
    if template is None:
        return owner
    before = old.template.spec if old is not None and old.template is not None else None
    spec = enabled_pod_spec(template.spec, before, gates)
    return owner if spec is template.spec else replace(owner, template=replace(template, spec=spec))


def enabled_pod_status(status: core_v1.PodStatus, old: core_v1.PodStatus, gates: FeatureGates) -> core_v1.PodStatus:
    """Return the status without disabled fields."""
    changes: dict[str, Any] = {}
    closed = _closed(gates)
    for name, empty in closed.fields:
        # "is not" instead of "!=": a list written as [] is emptied as well, and the kubelet's usual update compares no
        # lists.
        if getattr(status, name) is not empty and not getattr(old, name):
            changes[name] = empty
    if closed.health and not _any_health(old, lambda _: True):
        changes |= _containers(status, lambda _: ())
    elif closed.messages and not _any_health(old, lambda device: device.message is not None):
        changes |= _containers(status, _without_messages)
    return replace(status, **changes) if changes else status


class _Closed(msgspec.Struct, frozen=True):
    """Parts of a status that gates disable, unless the stored status has them: fields with their empty values, the
    health
    of devices, and its messages."""

    fields: tuple[tuple[str, Any], ...]
    health: bool
    messages: bool


# One object of gates serves all requests of a server, so the table is built once and not for each status update.
@remembered("fields of pod statuses that gates close", key=IDENTITY, size=8)
def _closed(gates: FeatureGates) -> _Closed:
    gated = {
        "DynamicResourceAllocation": ("resource_claim_statuses", ()),
        "DRAExtendedResource": ("extended_resource_claim_status", None),
        "DRANodeAllocatableResources": ("node_allocatable_resource_claim_statuses", ()),
    }
    fields = tuple(field for gate, field in gated.items() if not gates[gate])
    return _Closed(fields, not gates["ResourceHealthStatus"], not gates["ResourceHealthStatusMessage"])


_LISTS = ("container_statuses", "init_container_statuses", "ephemeral_container_statuses")


def _any_health(status: core_v1.PodStatus, holds: Callable[[core_v1.ResourceHealth], bool]) -> bool:
    return any(
        holds(device)
        for name in _LISTS
        for container in getattr(status, name)
        for resource in container.allocated_resources_status
        # A resource without devices counts as a use of the field, too: the empty stand-in lets `holds` decide.
        for device in resource.resources or (core_v1.ResourceHealth(),)
    )


def _containers(
    status: core_v1.PodStatus,
    change: Callable[[Iterable[core_v1.ResourceStatus]], tuple[core_v1.ResourceStatus, ...]],
) -> dict[str, Any]:
    return {
        name: tuple(
            replace(container, allocated_resources_status=change(container.allocated_resources_status))
            for container in getattr(status, name)
        )
        for name in _LISTS
    }


def _without_messages(resources: Iterable[core_v1.ResourceStatus]) -> tuple[core_v1.ResourceStatus, ...]:
    return tuple(
        replace(resource, resources=tuple(replace(device, message=None) for device in resource.resources))
        for resource in resources
    )
