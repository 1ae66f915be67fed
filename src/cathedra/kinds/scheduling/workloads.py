"""Workloads: templates of pod groups, and of groups of them."""

from __future__ import annotations

from cathedra.api.core import scheduling_v1alpha3
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.declarative import declared_errors, merged
from cathedra.kinds.definition import RequestContext, Strategy
from cathedra.kinds.scheduling.conversion import workload_from_hub
from cathedra.kinds.scheduling.disabled_fields import enabled_workload_spec
from cathedra.kinds.scheduling.validation import WORKLOAD_TAGS, validate_templates


class WorkloadStrategy(Strategy[scheduling_v1alpha3.Workload]):
    """A workload: templates of pod groups, never changed."""

    returns_deleted_object = False

    def prepare_create(
        self, obj: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> scheduling_v1alpha3.Workload:
        """Drop fields behind closed gates."""
        return replace(obj, spec=enabled_workload_spec(obj.spec, None, context.gates))

    def validate_create(self, obj: scheduling_v1alpha3.Workload, context: RequestContext) -> ErrorList:
        """Return the errors of a new workload."""
        return _declared(obj, None, context)

    def prepare_update(
        self, new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> scheduling_v1alpha3.Workload:
        """Drop fields behind closed gates unless they are in use already."""
        return replace(new, spec=enabled_workload_spec(new.spec, old.spec, context.gates))

    def validate_update(
        self, new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload, context: RequestContext
    ) -> ErrorList:
        """Return the errors of a changed workload: what may change of a template depends on the version."""
        return _declared(new, old, context)


def _declared(
    new: scheduling_v1alpha3.Workload, old: scheduling_v1alpha3.Workload | None, context: RequestContext
) -> ErrorList:
    version = context.api_version.partition("/")[2] or "v1alpha3"
    if version == "v1alpha2":
        before = None if old is None else workload_from_hub(old)
        return declared_errors(WORKLOAD_TAGS[version], workload_from_hub(new), before, beta=True)
    return merged(validate_templates(new.spec), declared_errors(WORKLOAD_TAGS[version], new, old, beta=True))
