"""Workloads: templates of pod groups, never changed."""

from __future__ import annotations

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.definition import RequestContext, Strategy
from cathedra.kinds.scheduling.validation import validate_workload, validate_workload_update

__all__ = ["WorkloadStrategy"]


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
        return validate_workload(obj)

    def validate_update(
        self, new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> ErrorList:
        """Templates are immutable."""
        return validate_workload_update(new, old)
