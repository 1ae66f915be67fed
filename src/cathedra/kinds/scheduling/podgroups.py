"""Pod groups: their strategies and table."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.core.scheduling_v1alpha3 import CompositePodGroup, PodGroup
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.declarative import declared_errors
from cathedra.kinds.definition import Column, RequestContext, Strategy
from cathedra.kinds.scheduling.conversion import group_from_hub
from cathedra.kinds.scheduling.disabled_fields import enabled_composite_spec, enabled_group_spec
from cathedra.kinds.scheduling.validation import (
    POD_GROUP_TAGS,
    composite_pod_group_tags,
    validate_composite_status,
    validate_pod_group_status,
)
from cathedra.kinds.strategies import SpecStrategy, StatusStrategy
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import find_condition

G = TypeVar("G", bound=PodGroup | CompositePodGroup)

POD_GROUP_COLUMNS: Final = (
    NAME,
    Column("Policy", description="How the group is scheduled."),
    Column("Workload", description="The workload the group belongs to."),
    Column("Status", description="How far scheduling has come."),
    AGE,
)


class _GroupStrategy(SpecStrategy[G]):
    """A group whose members are disrupted one by one by default. Its status comes through its sub-resource."""

    returns_deleted_object = False
    single: Any
    """The default of ``disruptionMode``."""

    def default(self, obj: G, context: RequestContext) -> G:
        """Set the default: members of a group are disrupted one by one."""
        if obj.spec.disruption_mode is not None:
            return obj
        return replace(obj, spec=replace(obj.spec, disruption_mode=self.single))

    def enabled(self, spec: Any, old: Any, gates: FeatureGates) -> Any:
        """Return the spec without fields behind closed gates, unless ``old`` uses them."""
        raise NotImplementedError

    def errors(self, new: G, old: G | None, context: RequestContext) -> ErrorList:
        """Return the errors of a new group, or of a changed one."""
        raise NotImplementedError

    def prepare_create(self, obj: G, context: RequestContext) -> G:
        """Empty the status, drop fields behind closed gates."""
        created = super().prepare_create(obj, context)
        return replace(created, spec=self.enabled(obj.spec, None, context.gates))

    def validate_create(self, obj: G, context: RequestContext) -> ErrorList:
        """Return the errors of a new group."""
        return self.errors(obj, None, context)

    def prepare_update(self, new: G, old: G, context: RequestContext) -> G:
        """Keep the status, drop fields behind closed gates unless they are in use already."""
        changed = super().prepare_update(new, old, context)
        return replace(changed, spec=self.enabled(new.spec, old.spec, context.gates))

    def validate_update(self, new: G, old: G, context: RequestContext) -> ErrorList:
        """Return the errors of a changed group."""
        return self.errors(new, old, context)


class PodGroupStrategy(_GroupStrategy[PodGroup]):
    """A pod group. Its claims never change."""

    single = scheduling_v1alpha3.DisruptionMode(single=scheduling_v1alpha3.SingleDisruptionMode())

    def enabled(self, spec: Any, old: Any, gates: FeatureGates) -> Any:
        """Return the spec without disabled fields."""
        return enabled_group_spec(spec, old, gates)

    def errors(self, new: PodGroup, old: PodGroup | None, context: RequestContext) -> ErrorList:
        """Return the errors by the tags of the request's version."""
        version = context.api_version.partition("/")[2] or "v1alpha3"
        if version == "v1alpha2":
            before = None if old is None else group_from_hub(old)
            return declared_errors(POD_GROUP_TAGS[version], group_from_hub(new), before, beta=True)
        return declared_errors(POD_GROUP_TAGS[version], new, old, beta=True)


class PodGroupStatusStrategy(Strategy[PodGroup]):
    """The claims that were made for a group, and how scheduling goes."""

    reset_fields = ("spec", "metadata")

    def prepare_update(self, new: PodGroup, old: PodGroup, context: RequestContext) -> PodGroup:
        """Keep the spec; drop claims behind a closed gate unless there are some already."""
        group = replace(new, spec=old.spec)
        if context.gates["DRAWorkloadResourceClaims"] or old.spec.resource_claims:
            return group
        return replace(group, status=replace(group.status, resource_claim_statuses=()))

    def validate_update(self, new: PodGroup, old: PodGroup, context: RequestContext) -> ErrorList:
        """Check the rules of a group's status."""
        return validate_pod_group_status(new, context.gates)


class CompositePodGroupStrategy(_GroupStrategy[CompositePodGroup]):
    """A group of pod groups, as controllers create it from the templates of a workload.

    All of its spec is immutable, from 1.38 on without ``minGroupCount``.
    """

    single = scheduling_v1alpha3.CompositeDisruptionMode(single=scheduling_v1alpha3.SingleCompositeDisruptionMode())

    def enabled(self, spec: Any, old: Any, gates: FeatureGates) -> Any:
        """Return the spec without disabled fields."""
        return enabled_composite_spec(spec, old, gates)

    def errors(self, new: CompositePodGroup, old: CompositePodGroup | None, context: RequestContext) -> ErrorList:
        """Return the errors by the tags of the release."""
        return declared_errors(composite_pod_group_tags(context.gates), new, old, beta=True)


class CompositePodGroupStatusStrategy(StatusStrategy[CompositePodGroup]):
    """The status of a group of groups: its conditions."""

    reset_fields = ("spec", "metadata")

    def validate_update(self, new: CompositePodGroup, old: CompositePodGroup, context: RequestContext) -> ErrorList:
        """Return the errors of the conditions."""
        return validate_composite_status(new, context.gates)


def pod_group_cells(group: PodGroup, now: float) -> list[Any]:
    """Return the cells of a PodGroup."""
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


def _group_status(group: PodGroup) -> str:
    disrupted = find_condition(group.status.conditions, "DisruptionTarget")
    if disrupted is not None and disrupted.status == "True":
        return disrupted.reason
    conditions = group.status.conditions
    scheduled = find_condition(conditions, "PodGroupInitiallyScheduled")
    # The name until 1.36.
    scheduled = scheduled or find_condition(conditions, "PodGroupScheduled")
    return {"True": "Scheduled", "False": "Unschedulable"}.get(scheduled.status if scheduled else "", "Pending")
