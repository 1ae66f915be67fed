"""How slices, classes, taint rules and pool status requests are written (spec: api.md, sections 1.6, 3.6 to 3.10)."""

from __future__ import annotations

from collections.abc import Sequence

from cathedra.api import resource
from cathedra.api.core.resource_v1alpha3 import ResourcePoolStatusRequest
from cathedra.api.defaulting.devices import default_pool_status_request, default_slice, default_taint_rule
from cathedra.api.definition import RequestContext, Strategy
from cathedra.api.definitions.claims import kept_metadata
from cathedra.api.definitions.strategies import first_generation
from cathedra.api.dropping import slices as dropping
from cathedra.api.field import ErrorList
from cathedra.api.struct import Time, replace
from cathedra.api.validation.resource import classes, slices

__all__ = [
    "ClassStrategy",
    "PoolStatusRequestStatusStrategy",
    "PoolStatusRequestStrategy",
    "SliceStrategy",
    "TaintRuleStatusStrategy",
    "TaintRuleStrategy",
]


class ClassStrategy(Strategy[resource.DeviceClass]):
    """A device class, freely changeable."""

    def prepare_create(self, obj: resource.DeviceClass, context: RequestContext) -> resource.DeviceClass:
        """Drop what closed gates forbid, start counting."""
        return first_generation(replace(obj, spec=dropping.class_spec(obj.spec, None, context.gates)))

    def validate_create(self, obj: resource.DeviceClass, context: RequestContext) -> ErrorList:
        """All rules of a class."""
        return classes.validate_class(obj, None, context)

    def prepare_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> resource.DeviceClass:
        """Drop what closed gates forbid, count the change."""
        spec = dropping.class_spec(new.spec, old.spec, context.gates)
        generation = old.metadata.generation + (spec != old.spec)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec)

    def validate_update(
        self, new: resource.DeviceClass, old: resource.DeviceClass, context: RequestContext
    ) -> ErrorList:
        """All rules of a class; unchanged lists count as stored."""
        return classes.validate_class(new, old, context)


class SliceStrategy(Strategy[resource.ResourceSlice]):
    """A slice of a pool, written by its driver."""

    def default(self, obj: resource.ResourceSlice, context: RequestContext) -> resource.ResourceSlice:
        """Date the taints."""
        return default_slice(obj, context.now)

    def prepare_create(self, obj: resource.ResourceSlice, context: RequestContext) -> resource.ResourceSlice:
        """Drop what closed gates forbid, start counting."""
        return first_generation(replace(obj, spec=dropping.slice_spec(obj.spec, None, context.gates)))

    def validate_create(self, obj: resource.ResourceSlice, context: RequestContext) -> ErrorList:
        """All rules of a slice."""
        return slices.validate_slice(obj, None, context)

    def prepare_update(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice, context: RequestContext
    ) -> resource.ResourceSlice:
        """Count the change, then drop what closed gates forbid."""
        generation = old.metadata.generation + (new.spec != old.spec)
        spec = dropping.slice_spec(new.spec, old.spec, context.gates)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec)

    def validate_update(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice, context: RequestContext
    ) -> ErrorList:
        """All rules of a slice, and what it may not change."""
        return slices.validate_slice(new, old, context)

    def warnings(
        self, new: resource.ResourceSlice, old: resource.ResourceSlice | None, context: RequestContext
    ) -> Sequence[str]:
        """A driver's name is better written in lower case."""
        if new.spec.driver != new.spec.driver.lower():
            return (
                f'spec.driver: driver names should be lowercase; "{new.spec.driver}" contains uppercase characters',
            )
        return ()


class TaintRuleStrategy(Strategy[resource.DeviceTaintRule]):
    """A rule that taints devices, written by an administrator."""

    def default(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Date the taint."""
        return default_taint_rule(obj, context.now)

    def prepare_create(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Empty the status, start counting."""
        return first_generation(replace(obj, status=resource.DeviceTaintRuleStatus()))

    def validate_create(self, obj: resource.DeviceTaintRule, context: RequestContext) -> ErrorList:
        """All rules of a taint rule."""
        return classes.validate_taint_rule(obj, None, context)

    def prepare_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> resource.DeviceTaintRule:
        """Date a changed effect anew, keep the status, count the change."""
        taint, before = new.spec.taint, old.spec.taint
        spec = new.spec
        if taint.effect != before.effect and taint.time_added == before.time_added:
            spec = replace(spec, taint=replace(taint, time_added=Time(context.now)))
        generation = old.metadata.generation + (spec != old.spec)
        return replace(new, metadata=replace(new.metadata, generation=generation), spec=spec, status=old.status)

    def validate_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> ErrorList:
        """All rules of a taint rule; an unchanged effect is left alone."""
        return classes.validate_taint_rule(new, old, context)


class TaintRuleStatusStrategy(Strategy[resource.DeviceTaintRule]):
    """What the eviction controller reports of a rule."""

    def default(self, obj: resource.DeviceTaintRule, context: RequestContext) -> resource.DeviceTaintRule:
        """Date the taint."""
        return default_taint_rule(obj, context.now)

    def prepare_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> resource.DeviceTaintRule:
        """Keep spec and metadata."""
        return replace(new, metadata=kept_metadata(new.metadata, old.metadata), spec=old.spec)

    def validate_update(
        self, new: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: RequestContext
    ) -> ErrorList:
        """The rules of conditions."""
        return classes.validate_taint_rule_status(new)


class PoolStatusRequestStrategy(Strategy[ResourcePoolStatusRequest]):
    """A question about pools: asked once, never changed."""

    allow_unconditional_update = False

    def default(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Ask for a hundred pools."""
        return default_pool_status_request(obj)

    def prepare_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Empty the status, drop what closed gates forbid."""
        return replace(obj, spec=dropping.pool_status_spec(obj.spec, None, context.gates), status=None)

    def validate_create(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ErrorList:
        """All rules of a question."""
        return classes.validate_pool_status_request(obj)

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ResourcePoolStatusRequest:
        """Keep the status."""
        return replace(new, spec=dropping.pool_status_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ErrorList:
        """The question is immutable."""
        return classes.validate_pool_status_request_update(new, old)


class PoolStatusRequestStatusStrategy(Strategy[ResourcePoolStatusRequest]):
    """The answer: given once, never changed."""

    allow_unconditional_update = False

    def default(self, obj: ResourcePoolStatusRequest, context: RequestContext) -> ResourcePoolStatusRequest:
        """Ask for a hundred pools."""
        return default_pool_status_request(obj)

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ResourcePoolStatusRequest:
        """Keep spec and metadata."""
        return replace(new, metadata=kept_metadata(new.metadata, old.metadata), spec=old.spec)

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, context: RequestContext
    ) -> ErrorList:
        """All rules of an answer."""
        return classes.validate_pool_status(new, old)
