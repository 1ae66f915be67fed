"""How claims and templates are written (spec: api.md, sections 1.6, 3.3, 3.5)."""

from __future__ import annotations

from cathedra.api import resource
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.defaulting.devices import default_claim, default_template
from cathedra.api.definition import RequestContext, Strategy
from cathedra.api.dropping import claims as dropping
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.api.validation.resource import claim_status, claims

__all__ = ["ClaimStatusStrategy", "ClaimStrategy", "TemplateStrategy"]


class ClaimStrategy(Strategy[resource.ResourceClaim]):
    """The claim itself: its spec never changes, its status comes through another door."""

    def default(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Say how many, where the author did not."""
        return default_claim(obj)

    def prepare_create(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Empty the status, drop what closed gates forbid."""
        spec = dropping.claim_spec(obj.spec, None, context.gates)
        return replace(obj, spec=spec, status=resource.ResourceClaimStatus())

    def validate_create(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """All rules of a new claim."""
        return claims.validate_claim(obj, context)

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep the status, drop what closed gates forbid and the stored claim does not use."""
        spec = dropping.claim_spec(new.spec, old.spec, context.gates)
        return replace(new, spec=spec, status=old.status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable."""
        return claims.validate_claim_update(new, old, context)


class ClaimStatusStrategy(Strategy[resource.ResourceClaim]):
    """The claim's status: allocation, reservations, what drivers report of devices."""

    def default(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Say how tolerations compare."""
        return default_claim(obj)

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep spec and metadata, drop what closed gates forbid, forget devices that were deallocated."""
        metadata = kept_metadata(new.metadata, old.metadata)
        status = dropping.claim_status(new.status, old, context.gates)
        return replace(new, metadata=metadata, spec=old.spec, status=status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """All rules of a status."""
        return claim_status.validate_status_update(new, old, context)


def kept_metadata(new: ObjectMeta, old: ObjectMeta) -> ObjectMeta:
    """The metadata of a status update: labels, annotations, finalizers and owners stay as they are stored."""
    return replace(
        new,
        labels=old.labels,
        annotations=old.annotations,
        finalizers=old.finalizers,
        owner_references=old.owner_references,
        generation=old.generation,
    )


class TemplateStrategy(Strategy[resource.ResourceClaimTemplate]):
    """A template: its spec never changes."""

    def default(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> resource.ResourceClaimTemplate:
        """Say how many, where the author did not."""
        return default_template(obj)

    def prepare_create(
        self, obj: resource.ResourceClaimTemplate, context: RequestContext
    ) -> resource.ResourceClaimTemplate:
        """Drop what closed gates forbid."""
        spec = dropping.claim_spec(obj.spec.spec, None, context.gates)
        return replace(obj, spec=replace(obj.spec, spec=spec))

    def validate_create(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """All rules of a new template."""
        return claims.validate_template(obj, context)

    def prepare_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> resource.ResourceClaimTemplate:
        """Drop what closed gates forbid and the stored template does not use."""
        spec = dropping.claim_spec(new.spec.spec, old.spec.spec, context.gates)
        return replace(new, spec=replace(new.spec, spec=spec))

    def validate_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable, and looked at all the same."""
        return claims.validate_template_update(new, old, context)
