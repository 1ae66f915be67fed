"""Workload and PodGroup in the versions that a release has (docs/spec/api.md §6.4)."""

from __future__ import annotations

from typing import Final

from cathedra.api.core import scheduling_v1alpha2, scheduling_v1alpha3
from cathedra.kinds.columns import NAME_AND_AGE, name_and_age
from cathedra.kinds.definition import AnyDefinition, ResourceDefinition, VersionDefinition
from cathedra.kinds.scheduling.conversion import group_from_hub, group_to_hub, workload_from_hub, workload_to_hub
from cathedra.kinds.scheduling.podgroups import (
    POD_GROUP_COLUMNS,
    CompositePodGroupStatusStrategy,
    CompositePodGroupStrategy,
    PodGroupStatusStrategy,
    PodGroupStrategy,
    pod_group_cells,
)
from cathedra.kinds.scheduling.priorityclasses import priority_class_definition
from cathedra.kinds.scheduling.workloads import WorkloadStrategy
from cathedra.releases import FeatureGates
from cathedra.releases.served import versions

GROUP: Final = "scheduling.k8s.io"
Versions = tuple[VersionDefinition, ...]


def _in_hub_form(names: tuple[str, ...]) -> tuple[Versions, Versions]:
    return (
        tuple(VersionDefinition(name, scheduling_v1alpha3.Workload, served_by_default=False) for name in names),
        tuple(VersionDefinition(name, scheduling_v1alpha3.PodGroup, served_by_default=False) for name in names),
    )


def _in_v1alpha2() -> tuple[Versions, Versions]:
    return (
        (
            VersionDefinition(
                "v1alpha2",
                scheduling_v1alpha2.Workload,
                workload_to_hub,
                workload_from_hub,
                served_by_default=False,
            ),
        ),
        (
            VersionDefinition(
                "v1alpha2",
                scheduling_v1alpha2.PodGroup,
                group_to_hub,
                group_from_hub,
                served_by_default=False,
            ),
        ),
    )


def scheduling_definitions(gates: FeatureGates) -> tuple[AnyDefinition, ...]:
    """Return priority classes, and from 1.36 on Workload and PodGroup."""
    names = versions(gates.release, GROUP, "Workload")
    if not names:
        return (priority_class_definition(),)
    workloads, groups = _in_v1alpha2() if names == ("v1alpha2",) else _in_hub_form(names)
    composites = versions(gates.release, GROUP, "CompositePodGroup")
    return (
        *([_composite_pod_groups(composites)] if composites else []),
        priority_class_definition(),
        ResourceDefinition(
            group=GROUP,
            kind="Workload",
            plural="workloads",
            singular="workload",
            namespaced=True,
            type=scheduling_v1alpha3.Workload,
            versions=workloads,
            strategy=WorkloadStrategy(),
            columns=NAME_AND_AGE,
            cells=name_and_age,
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
            columns=POD_GROUP_COLUMNS,
            cells=pod_group_cells,
            gate="GenericWorkload",
        ),
    )


def _composite_pod_groups(names: tuple[str, ...]) -> AnyDefinition:
    kind = scheduling_v1alpha3.CompositePodGroup
    return ResourceDefinition(
        group=GROUP,
        kind="CompositePodGroup",
        plural="compositepodgroups",
        singular="compositepodgroup",
        namespaced=True,
        type=kind,
        versions=tuple(VersionDefinition(name, kind, served_by_default=False) for name in names),
        strategy=CompositePodGroupStrategy(),
        subresources={"status": CompositePodGroupStatusStrategy()},
        columns=NAME_AND_AGE,
        cells=name_and_age,
        gate="CompositePodGroup",
    )
