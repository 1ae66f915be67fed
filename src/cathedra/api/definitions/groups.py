"""Definitions of scheduling.k8s.io's Workload and PodGroup (spec: api.md, section 6.4)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.conversion import scheduling_v1alpha2 as conversion
from cathedra.api.core import scheduling_v1alpha2, scheduling_v1alpha3
from cathedra.api.definition import RequestContext, ResourceDefinition, Strategy, VersionDefinition
from cathedra.api.field import ErrorList
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import replace
from cathedra.api.tables import devices as tables
from cathedra.api.validation import groups

__all__ = ["group_definitions"]

GROUP: Final = "scheduling.k8s.io"


class WorkloadStrategy(Strategy[scheduling_v1alpha3.Workload]):
    """A workload: templates of pod groups, never changed."""

    def prepare_create(
        self, obj: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> scheduling_v1alpha3.Workload:
        """Drop claims behind a closed gate."""
        if context.gates["DRAWorkloadResourceClaims"]:
            return obj
        templates = tuple(replace(template, resource_claims=()) for template in obj.spec.pod_group_templates)
        return replace(obj, spec=replace(obj.spec, pod_group_templates=templates))

    def validate_create(self, obj: scheduling_v1alpha3.Workload, context: RequestContext) -> ErrorList:
        """The rules of a workload."""
        return groups.validate_workload(obj)

    def validate_update(
        self, new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> ErrorList:
        """Templates are immutable."""
        return groups.validate_workload_update(new, old)


class PodGroupStrategy(Strategy[scheduling_v1alpha3.PodGroup]):
    """A pod group: its spec never changes, its status comes through another door."""

    def default(self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext) -> scheduling_v1alpha3.PodGroup:
        """Pods of a group are disrupted one by one, unless its author says otherwise."""
        if obj.spec.disruption_mode is not None:
            return obj
        single = scheduling_v1alpha3.DisruptionMode(single=scheduling_v1alpha3.SingleDisruptionMode())
        return replace(obj, spec=replace(obj.spec, disruption_mode=single))

    def prepare_create(
        self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.PodGroup:
        """Empty the status, drop claims behind a closed gate."""
        group = replace(obj, status=scheduling_v1alpha3.PodGroupStatus())
        if context.gates["DRAWorkloadResourceClaims"]:
            return group
        return replace(group, spec=replace(group.spec, resource_claims=()))

    def validate_create(self, obj: scheduling_v1alpha3.PodGroup, context: RequestContext) -> ErrorList:
        """The rules of a pod group."""
        return groups.validate_pod_group(obj)

    def prepare_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> scheduling_v1alpha3.PodGroup:
        """Keep the status, drop claims behind a closed gate unless there are some already."""
        group = replace(new, status=old.status)
        if context.gates["DRAWorkloadResourceClaims"] or old.spec.resource_claims:
            return group
        return replace(group, spec=replace(group.spec, resource_claims=()))

    def validate_update(
        self, new: scheduling_v1alpha3.PodGroup, old: scheduling_v1alpha3.PodGroup, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable."""
        return groups.validate_pod_group_update(new, old)


class PodGroupStatusStrategy(Strategy[scheduling_v1alpha3.PodGroup]):
    """The claims that were made for a group, and how scheduling goes."""

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
        return groups.validate_pod_group_status(new)


Versions = tuple[VersionDefinition, ...]


def _newest() -> tuple[Versions, Versions]:
    names = ("v1beta1", "v1alpha3")
    return (
        tuple(VersionDefinition(name, scheduling_v1alpha3.Workload, served_by_default=False) for name in names),
        tuple(VersionDefinition(name, scheduling_v1alpha3.PodGroup, served_by_default=False) for name in names),
    )


def _of_136() -> tuple[Versions, Versions]:
    return (
        (
            VersionDefinition(
                "v1alpha2",
                scheduling_v1alpha2.Workload,
                conversion.workload_to_hub,
                conversion.workload_from_hub,
                served_by_default=False,
            ),
        ),
        (
            VersionDefinition(
                "v1alpha2",
                scheduling_v1alpha2.PodGroup,
                conversion.group_to_hub,
                conversion.group_from_hub,
                served_by_default=False,
            ),
        ),
    )


def group_definitions(gates: FeatureGates) -> tuple[ResourceDefinition[Any], ...]:
    """Workload and PodGroup, from 1.36 on."""
    if not gates.at_least("1.36"):
        return ()
    workloads, groups = _newest() if gates.at_least("1.37") else _of_136()
    return (
        ResourceDefinition(
            group=GROUP,
            kind="Workload",
            plural="workloads",
            singular="workload",
            namespaced=True,
            type=scheduling_v1alpha3.Workload,
            versions=workloads,
            strategy=WorkloadStrategy(),
            columns=tables.NAME_AND_AGE,
            cells=tables.name_and_age,
            gate="GenericWorkload",
        ),
        ResourceDefinition(
            group=GROUP,
            kind="PodGroup",
            plural="podgroups",
            singular="podgroup",
            namespaced=True,
            type=scheduling_v1alpha3.PodGroup,
            versions=groups,
            strategy=PodGroupStrategy(),
            subresources={"status": PodGroupStatusStrategy()},
            columns=tables.POD_GROUP_COLUMNS,
            cells=tables.pod_group_cells,
            gate="GenericWorkload",
        ),
    )
