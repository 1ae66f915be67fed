"""Pod groups: their strategies and table."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative.walking import declared_errors
from cathedra.kinds.definition import Column, RequestContext, Strategy
from cathedra.kinds.scheduling.conversion import group_from_hub
from cathedra.kinds.scheduling.disabled_fields import enabled_composite_spec, enabled_group_spec
from cathedra.kinds.scheduling.validation import (
    POD_GROUP_TAGS,
    composite_pod_group_tags,
    validate_pod_group_status,
)
from cathedra.semantics.conditions import find_condition

POD_GROUP_COLUMNS: Final = (
    NAME,
    Column("Policy", description="How the group is scheduled."),
    Column("Workload", description="The workload the group belongs to."),
    Column("Status", description="How far scheduling has come."),
    AGE,
)


class PodGroupStrategy(Strategy[scheduling_v1alpha3.PodGroup]):
    """A pod group: its claims never change, its status comes through its sub-resource."""

    returns_deleted_object = False

    def default(self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext) -> scheduling_v1alpha3.PodGroup:
        """Set the default: pods of a group are disrupted one by one."""
        if obj.spec.disruption_mode is not None:
            return obj
        single = scheduling_v1alpha3.DisruptionMode(single=scheduling_v1alpha3.SingleDisruptionMode())
        return replace(obj, spec=replace(obj.spec, disruption_mode=single))

    def prepare_create(
        self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.PodGroup:
        """Empty the status, drop fields behind closed gates."""
        spec = enabled_group_spec(obj.spec, None, context.gates)
        return replace(obj, spec=spec, status=scheduling_v1alpha3.PodGroupStatus())

    def validate_create(self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext) -> ErrorList:
        """The rules of a pod group."""
        return _declared(obj, None, context)

    def prepare_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.PodGroup:
        """Keep the status, drop fields behind closed gates unless they are in use already."""
        return replace(new, spec=enabled_group_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> ErrorList:
        """The claims are immutable."""
        return _declared(new, old, context)


class PodGroupStatusStrategy(Strategy[scheduling_v1alpha3.PodGroup]):
    """The claims that were made for a group, and how scheduling goes."""

    reset_fields = ("spec", "metadata")

    def prepare_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.PodGroup:
        """Keep the spec; drop claims behind a closed gate unless there are some already."""
        group = replace(new, spec=old.spec)
        if context.gates["DRAWorkloadResourceClaims"] or old.spec.resource_claims:
            return group
        return replace(group, status=replace(group.status, resource_claim_statuses=()))

    def validate_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> ErrorList:
        """The rules of a group's status."""
        return validate_pod_group_status(new)


class CompositePodGroupStrategy(Strategy[scheduling_v1alpha3.CompositePodGroup]):
    """A group of pod groups, as controllers create it from the templates of a workload."""

    returns_deleted_object = False

    def default(
        self, obj: scheduling_v1alpha3.CompositePodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.CompositePodGroup:
        """Set the default: its groups are disrupted one by one."""
        if obj.spec.disruption_mode is not None:
            return obj
        single = scheduling_v1alpha3.SingleCompositeDisruptionMode()
        mode = scheduling_v1alpha3.CompositeDisruptionMode(single=single)
        return replace(obj, spec=replace(obj.spec, disruption_mode=mode))

    def prepare_create(
        self, obj: scheduling_v1alpha3.CompositePodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.CompositePodGroup:
        """Empty the status, drop fields behind closed gates."""
        spec = enabled_composite_spec(obj.spec, None, context.gates)
        return replace(obj, spec=spec, status=scheduling_v1alpha3.CompositePodGroupStatus())

    def validate_create(self, obj: scheduling_v1alpha3.CompositePodGroup, context: RequestContext) -> ErrorList:
        """Return the errors of a new group."""
        return declared_errors(composite_pod_group_tags(context.gates), obj, None, beta=True)

    def prepare_update(
        self,
        new: scheduling_v1alpha3.CompositePodGroup,
        old: scheduling_v1alpha3.CompositePodGroup,
        context: RequestContext,
    ) -> scheduling_v1alpha3.CompositePodGroup:
        """Keep the status, drop fields behind closed gates unless they are in use already."""
        return replace(new, spec=enabled_composite_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self,
        new: scheduling_v1alpha3.CompositePodGroup,
        old: scheduling_v1alpha3.CompositePodGroup,
        context: RequestContext,
    ) -> ErrorList:
        """Return the errors of a changed group: all of it is immutable, from 1.38 on without ``minGroupCount``."""
        return declared_errors(composite_pod_group_tags(context.gates), new, old, beta=True)


class CompositePodGroupStatusStrategy(Strategy[scheduling_v1alpha3.CompositePodGroup]):
    """The status of a group of groups: its conditions."""

    reset_fields = ("spec", "metadata")

    def prepare_update(
        self,
        new: scheduling_v1alpha3.CompositePodGroup,
        old: scheduling_v1alpha3.CompositePodGroup,
        context: RequestContext,
    ) -> scheduling_v1alpha3.CompositePodGroup:
        """Keep the stored spec: this sub-resource changes the status."""
        return replace(new, spec=old.spec)


def _declared(
    new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup | None, context: RequestContext
) -> ErrorList:
    version = context.api_version.partition("/")[2] or "v1alpha3"
    if version == "v1alpha2":
        before = None if old is None else group_from_hub(old)
        return declared_errors(POD_GROUP_TAGS[version], group_from_hub(new), before, beta=True)
    return declared_errors(POD_GROUP_TAGS[version], new, old, beta=True)


def pod_group_cells(group: scheduling_v1alpha3.PodGroup, now: float) -> list[Any]:
    """Cells of a PodGroup."""
    policy = "Gang" if group.spec.scheduling_policy.gang is not None else "Basic"
    reference = getattr(group.spec, "workload_ref", None) or getattr(group.spec, "pod_group_template_ref", None)
    return [
        group.metadata.name,
        policy,
        _workload_name(reference),
        _group_status(group),
        age(group.metadata.creation_timestamp, now),
    ]


def _workload_name(reference: Any) -> str:
    if reference is None:
        return "<none>"
    workload = getattr(reference, "workload", None) or reference
    return getattr(workload, "workload_name", "") or "<none>"


def _group_status(group: scheduling_v1alpha3.PodGroup) -> str:
    disrupted = find_condition(group.status.conditions, "DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return disrupted.reason
    conditions = group.status.conditions
    scheduled = find_condition(conditions, "PodGroupInitiallyScheduled")
    # The name until 1.36.
    scheduled = scheduled or find_condition(conditions, "PodGroupScheduled")
    return {"True": "Scheduled", "False": "Unschedulable"}.get(scheduled.status if scheduled else "", "Pending")
