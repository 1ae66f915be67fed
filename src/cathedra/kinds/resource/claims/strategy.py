"""Strategies and definitions of claims and templates (docs/spec/api.md §1.6, §3.3, §3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from operator import not_
from typing import Final

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldError
from cathedra.api.struct import replace
from cathedra.kinds.columns import NAME_AND_AGE, name_and_age
from cathedra.kinds.definition import ExpressionChecker, RequestContext, ResourceDefinition, Strategy
from cathedra.kinds.resource.claims.access import validate_status_access
from cathedra.kinds.resource.claims.allocations import allocation_key
from cathedra.kinds.resource.claims.columns import CLAIM_COLUMNS, claim_cells
from cathedra.kinds.resource.claims.conversion import CLAIM_SHAPES, TEMPLATE_SHAPES
from cathedra.kinds.resource.claims.defaults import default_claim, default_template
from cathedra.kinds.resource.claims.disabled_fields import enabled_claim_spec, enabled_claim_status
from cathedra.kinds.resource.claims.status import validate_status_update
from cathedra.kinds.resource.claims.validation import (
    validate_admin_access,
    validate_claim,
    validate_claim_update,
    validate_template,
    validate_template_update,
)
from cathedra.kinds.resource.declared import CLAIM_TAGS, with_declared
from cathedra.kinds.resource.errorpaths import paths_of_release
from cathedra.kinds.resource.expressions import many_selectors
from cathedra.kinds.resource.versions import GROUP, served_versions
from cathedra.kinds.strategies import kept_metadata
from cathedra.releases import FeatureGates, behaviours
from cathedra.remembering import IDENTITY, remembered

__all__ = ["ClaimStatusStrategy", "ClaimStrategy", "TemplateStrategy", "claim_definition", "template_definition"]


_NO_STATUS: Final = resource.ResourceClaimStatus()
"""The very same in all new claims, so that nothing has to be looked for in it."""


@remembered("new claims without errors", key=IDENTITY, size=64, keep=not_)
def _new_claim_errors(
    spec: resource.ResourceClaimSpec,
    status: resource.ResourceClaimStatus,
    gates: FeatureGates,
    expressions: ExpressionChecker | None,
    api_version: str,
) -> tuple[FieldError, ...]:
    """Apply all rules of a new claim. They get what is in the key and nothing else: no metadata, user or time."""
    claim = resource.ResourceClaim(spec=spec, status=status)
    context = RequestContext(gates=gates, now=0.0, expressions=expressions, api_version=api_version)
    found = paths_of_release(validate_claim(claim, context), gates)
    return tuple(with_declared(found, CLAIM_TAGS, CLAIM_SHAPES, claim, None, context))


class ClaimStrategy(Strategy[resource.ResourceClaim]):
    """The claim itself: its spec never changes, its status comes through its sub-resource."""

    metadata_checks = 2

    def default(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Say how many, where the author did not."""
        return default_claim(obj)

    def prepare_create(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Empty the status, drop what closed gates forbid."""
        spec = enabled_claim_spec(obj.spec, None, context.gates)
        return replace(obj, spec=spec, status=_NO_STATUS)

    def validate_access(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """Admin access, where its namespace does not allow it."""
        return paths_of_release(validate_admin_access(obj.spec, context), context.gates)

    def selectors(self, obj: resource.ResourceClaim) -> Sequence[str]:
        """Those of all requests, if they are many."""
        return many_selectors(obj.spec)

    def validate_create(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """All rules of a new claim."""
        gates, expressions = context.gates, context.expressions
        return ErrorList(_new_claim_errors(obj.spec, obj.status, gates, expressions, context.api_version))

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep the status, drop what closed gates forbid and the stored claim does not use."""
        spec = enabled_claim_spec(new.spec, old.spec, context.gates)
        if spec is new.spec and new.status is old.status:
            return new
        return replace(new, spec=spec, status=old.status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable."""
        if new.spec is old.spec and new.status is old.status and context.gates.has(behaviours.STORED_SPEC_UNVALIDATED):
            return ErrorList()  # Until then the stored spec was looked at, too; tags have to do with what has changed.
        found = paths_of_release(validate_claim_update(new, old, context), context.gates)
        return with_declared(found, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


@remembered("sound allocations", key=allocation_key, size=4096, keep=bool)
def _is_sound(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> bool:
    """Return True if a status breaks no rule, apart from permissions."""
    found = paths_of_release(validate_status_update(new, old, context), context.gates)
    return not with_declared(found, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


class ClaimStatusStrategy(Strategy[resource.ResourceClaim]):
    """The claim's status: allocation, reservations, what drivers report of devices."""

    reset_fields = ("spec", "metadata")

    def default(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Say how tolerations compare."""
        return default_claim(obj)

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep spec and metadata, drop what closed gates forbid, forget devices that were deallocated."""
        metadata = kept_metadata(new.metadata, old.metadata)
        status = enabled_claim_status(new.status, old, context.gates)
        if metadata is new.metadata and new.spec is old.spec and status is new.status:
            return new
        return replace(new, metadata=metadata, spec=old.spec, status=status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """All rules of a status, and the permissions on its parts."""
        if _is_sound(new, old, context):
            errors = ErrorList()
            validate_status_access(errors, new, old, context)
            return errors
        errors = paths_of_release(validate_status_update(new, old, context), context.gates)
        validate_status_access(errors, new, old, context)
        return with_declared(errors, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


class TemplateStrategy(Strategy[resource.ResourceClaimTemplate]):
    """A template: its spec never changes."""

    metadata_checks = 2

    def default(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> resource.ResourceClaimTemplate:
        """Say how many, where the author did not."""
        return default_template(obj)

    def prepare_create(
        self, obj: resource.ResourceClaimTemplate, context: RequestContext
    ) -> resource.ResourceClaimTemplate:
        """Drop what closed gates forbid."""
        spec = enabled_claim_spec(obj.spec.spec, None, context.gates)
        return replace(obj, spec=replace(obj.spec, spec=spec))

    def validate_access(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """Admin access, where its namespace does not allow it."""
        return paths_of_release(validate_admin_access(obj.spec.spec, context), context.gates)

    def selectors(self, obj: resource.ResourceClaimTemplate) -> Sequence[str]:
        """Those of all requests, if they are many."""
        return many_selectors(obj.spec.spec)

    def validate_create(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """All rules of a new template."""
        return paths_of_release(validate_template(obj, context), context.gates)

    def prepare_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> resource.ResourceClaimTemplate:
        """Drop what closed gates forbid and the stored template does not use."""
        spec = enabled_claim_spec(new.spec.spec, old.spec.spec, context.gates)
        return replace(new, spec=replace(new.spec, spec=spec))

    def validate_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """The spec is immutable, and looked at all the same."""
        return paths_of_release(validate_template_update(new, old, context), context.gates)


def claim_definition(gates: FeatureGates) -> ResourceDefinition[resource.ResourceClaim]:
    """The definition of resourceclaims."""
    return ResourceDefinition(
        group=GROUP,
        kind="ResourceClaim",
        plural="resourceclaims",
        singular="resourceclaim",
        namespaced=True,
        type=resource.ResourceClaim,
        versions=served_versions(gates, CLAIM_SHAPES),
        strategy=ClaimStrategy(),
        subresources={"status": ClaimStatusStrategy()},
        columns=CLAIM_COLUMNS,
        cells=claim_cells,
    )


def template_definition(gates: FeatureGates) -> ResourceDefinition[resource.ResourceClaimTemplate]:
    """The definition of resourceclaimtemplates."""
    return ResourceDefinition(
        group=GROUP,
        kind="ResourceClaimTemplate",
        plural="resourceclaimtemplates",
        singular="resourceclaimtemplate",
        namespaced=True,
        type=resource.ResourceClaimTemplate,
        versions=served_versions(gates, TEMPLATE_SHAPES),
        strategy=TemplateStrategy(),
        columns=NAME_AND_AGE,
        cells=name_and_age,
    )
