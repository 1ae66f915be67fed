"""Strategies of claims, templates, classes and scheduling contexts (docs/spec/api.md §7)."""

from __future__ import annotations

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.classic.kinds import validation
from cathedra.kinds.definition import RequestContext, Strategy
from cathedra.kinds.strategies import StatusStrategy, kept_metadata
from cathedra.releases import classic

WAIT: str = "WaitForFirstConsumer"


def _defaulted(spec: v1alpha2.ResourceClaimSpec) -> v1alpha2.ResourceClaimSpec:
    return spec if spec.allocation_mode else replace(spec, allocation_mode=WAIT)


class ClassicClaimStrategy(Strategy[v1alpha2.ResourceClaim]):
    """The claim itself: its spec never changes, its status comes through its sub-resource."""

    metadata_checks = 2

    def default(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> v1alpha2.ResourceClaim:
        """Wait for the first consumer, unless the author wants the claim allocated at once."""
        return replace(obj, spec=_defaulted(obj.spec))

    def prepare_create(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> v1alpha2.ResourceClaim:
        """Empty the status: its sub-resource alone writes it."""
        return replace(obj, status=v1alpha2.ResourceClaimStatus())

    def validate_create(self, obj: v1alpha2.ResourceClaim, context: RequestContext) -> ErrorList:
        """All rules of a new claim."""
        return validation.validate_claim(obj)

    def prepare_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> v1alpha2.ResourceClaim:
        """Keep the stored status: its sub-resource alone changes it."""
        return replace(new, status=old.status)

    def validate_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable."""
        return validation.validate_claim_update(new, old)


class ClassicClaimStatusStrategy(StatusStrategy[v1alpha2.ResourceClaim]):
    """The claim's status: the driver's allocation, its consumers, and the request to deallocate it."""

    def __init__(self) -> None:
        super().__init__(lambda claim: replace(claim, spec=_defaulted(claim.spec)))

    def prepare_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> v1alpha2.ResourceClaim:
        """Keep the spec; since 1.30 the metadata too."""
        kept = replace(new, spec=old.spec)
        if context.gates.has(classic.STATUS_KEEPS_METADATA):
            return replace(kept, metadata=kept_metadata(new.metadata, old.metadata))
        return kept

    def validate_update(
        self, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """All rules of a status."""
        return validation.validate_claim_status(new, old, context)


class ClassicTemplateStrategy(Strategy[v1alpha2.ResourceClaimTemplate]):
    """A template: its spec never changes."""

    metadata_checks = 2

    def default(self, obj: v1alpha2.ResourceClaimTemplate, context: RequestContext) -> v1alpha2.ResourceClaimTemplate:
        """Apply the defaults of claims."""
        return replace(obj, spec=replace(obj.spec, spec=_defaulted(obj.spec.spec)))

    def validate_create(self, obj: v1alpha2.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """All rules of a new template."""
        return validation.validate_template(obj)

    def validate_update(
        self, new: v1alpha2.ResourceClaimTemplate, old: v1alpha2.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable."""
        return validation.validate_template_update(new, old)


class ClassicClassStrategy(Strategy[v1alpha2.ResourceClass]):
    """A class, freely changeable."""

    def validate_create(self, obj: v1alpha2.ResourceClass, context: RequestContext) -> ErrorList:
        """All rules of a class."""
        return validation.validate_class(obj)

    def validate_update(
        self, new: v1alpha2.ResourceClass, old: v1alpha2.ResourceClass, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return validation.validate_class(new)


class ContextStrategy(Strategy[v1alpha2.PodSchedulingContext]):
    """The scheduler's side of the negotiation about one pod."""

    def prepare_create(
        self, obj: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Empty the status: its sub-resource alone writes it."""
        return replace(obj, status=v1alpha2.PodSchedulingContextStatus())

    def validate_create(self, obj: v1alpha2.PodSchedulingContext, context: RequestContext) -> ErrorList:
        """All rules of a new one."""
        return validation.validate_context(obj)

    def prepare_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Keep the stored status: its sub-resource alone changes it."""
        return replace(new, status=old.status)

    def validate_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> ErrorList:
        """Apply the rules of a new object."""
        return validation.validate_context(new)


class ContextStatusStrategy(StatusStrategy[v1alpha2.PodSchedulingContext]):
    """The drivers' side of the negotiation."""

    def prepare_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> v1alpha2.PodSchedulingContext:
        """Keep the spec; since 1.30 the metadata too."""
        kept = replace(new, spec=old.spec)
        if context.gates.has(classic.STATUS_KEEPS_METADATA):
            return replace(kept, metadata=kept_metadata(new.metadata, old.metadata))
        return kept

    def validate_update(
        self, new: v1alpha2.PodSchedulingContext, old: v1alpha2.PodSchedulingContext, context: RequestContext
    ) -> ErrorList:
        """All rules of the status."""
        return validation.validate_context_status(new)
