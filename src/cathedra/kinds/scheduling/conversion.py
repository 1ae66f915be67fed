"""scheduling.k8s.io/v1alpha2, the form of release 1.36: another reference to the workload, a word for disruptions."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import scheduling_v1alpha2 as old
from cathedra.api.core import scheduling_v1alpha3 as hub
from cathedra.api.struct import KubeStruct, reshape

POD: Final = "Pod"
POD_GROUP: Final = "PodGroup"


def _mode_to_hub(word: str | None) -> hub.DisruptionMode | None:
    if word is None:
        return None
    if word == POD_GROUP:
        return hub.DisruptionMode(all=hub.AllDisruptionMode())
    return hub.DisruptionMode(single=hub.SingleDisruptionMode())


def _mode_from_hub(mode: hub.DisruptionMode | None) -> str | None:
    if mode is None:
        return None
    return POD_GROUP if mode.all is not None else POD


def _optional(value: Any, kind: type[KubeStruct]) -> Any:
    return None if value is None else reshape(value, kind)


def group_to_hub(group: old.PodGroup) -> hub.PodGroup:
    """Return the pod group as it is kept."""
    spec = group.spec
    reference = spec.pod_group_template_ref.workload if spec.pod_group_template_ref is not None else None
    return hub.PodGroup(
        metadata=group.metadata,
        spec=hub.PodGroupSpec(
            workload_ref=None
            if reference is None
            else hub.WorkloadReference(
                workload_name=reference.workload_name, template_name=reference.pod_group_template_name
            ),
            scheduling_policy=reshape(spec.scheduling_policy, hub.PodGroupSchedulingPolicy),
            scheduling_constraints=_optional(spec.scheduling_constraints, hub.PodGroupSchedulingConstraints),
            resource_claims=tuple(reshape(claim, hub.PodGroupResourceClaim) for claim in spec.resource_claims),
            disruption_mode=_mode_to_hub(spec.disruption_mode),
            priority_class_name=spec.priority_class_name,
            priority=spec.priority,
        ),
        status=reshape(group.status, hub.PodGroupStatus),
    )


def group_from_hub(group: hub.PodGroup) -> old.PodGroup:
    """Return the pod group as release 1.36 shows it."""
    spec = group.spec
    reference = None
    if spec.workload_ref is not None:
        workload = old.WorkloadPodGroupTemplateReference(
            workload_name=spec.workload_ref.workload_name, pod_group_template_name=spec.workload_ref.template_name
        )
        reference = old.PodGroupTemplateReference(workload=workload)
    return old.PodGroup(
        metadata=group.metadata,
        spec=old.PodGroupSpec(
            pod_group_template_ref=reference,
            scheduling_policy=reshape(spec.scheduling_policy, old.PodGroupSchedulingPolicy),
            scheduling_constraints=_optional(spec.scheduling_constraints, old.PodGroupSchedulingConstraints),
            resource_claims=tuple(reshape(claim, old.PodGroupResourceClaim) for claim in spec.resource_claims),
            disruption_mode=_mode_from_hub(spec.disruption_mode),
            priority_class_name=spec.priority_class_name,
            priority=spec.priority,
        ),
        status=reshape(group.status, old.PodGroupStatus),
    )


def workload_to_hub(workload: old.Workload) -> hub.Workload:
    """Return the workload as it is kept."""
    spec = workload.spec
    return hub.Workload(
        metadata=workload.metadata,
        spec=hub.WorkloadSpec(
            controller_ref=_optional(spec.controller_ref, hub.TypedLocalObjectReference),
            pod_group_templates=tuple(_template_to_hub(template) for template in spec.pod_group_templates),
        ),
    )


def _template_to_hub(template: old.PodGroupTemplate) -> hub.PodGroupTemplate:
    return hub.PodGroupTemplate(
        name=template.name,
        scheduling_policy=reshape(template.scheduling_policy, hub.PodGroupSchedulingPolicy),
        scheduling_constraints=_optional(template.scheduling_constraints, hub.PodGroupSchedulingConstraints),
        resource_claims=tuple(reshape(claim, hub.PodGroupResourceClaim) for claim in template.resource_claims),
        disruption_mode=_mode_to_hub(template.disruption_mode),
        priority_class_name=template.priority_class_name,
        priority=template.priority,
    )


def workload_from_hub(workload: hub.Workload) -> old.Workload:
    """Return the workload as release 1.36 shows it."""
    spec = workload.spec
    return old.Workload(
        metadata=workload.metadata,
        spec=old.WorkloadSpec(
            controller_ref=_optional(spec.controller_ref, old.TypedLocalObjectReference),
            pod_group_templates=tuple(_template_from_hub(template) for template in spec.pod_group_templates),
        ),
    )


def _template_from_hub(template: hub.PodGroupTemplate) -> old.PodGroupTemplate:
    return old.PodGroupTemplate(
        name=template.name,
        scheduling_policy=reshape(template.scheduling_policy, old.PodGroupSchedulingPolicy),
        scheduling_constraints=_optional(template.scheduling_constraints, old.PodGroupSchedulingConstraints),
        resource_claims=tuple(reshape(claim, old.PodGroupResourceClaim) for claim in template.resource_claims),
        disruption_mode=_mode_from_hub(template.disruption_mode),
        priority_class_name=template.priority_class_name,
        priority=template.priority,
    )
