"""Strategies of claims and templates of 1.31: today's, with the fields for controllers (docs/spec/api.md §7.4).

With the gate closed these fields are dropped, unless what is stored uses them already.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.classic.controlplane.kinds.types import (
    ControlledClaim,
    ControlledClaimStatus,
    allocated_by,
    controller_of,
    deallocation_requested,
)
from cathedra.classic.kinds.validation import validate_deallocation
from cathedra.kinds.columns import age
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.resource.claims.strategy import ClaimStatusStrategy, ClaimStrategy, TemplateStrategy, claim_state
from cathedra.kinds.resource.names import validate_driver_name

GATE: Final = "DRAControlPlaneController"
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


class ControlledClaimStrategy(ClaimStrategy):
    """The claim itself, which may name the controller that allocates it."""

    def prepare_create(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Empty the status, drop what closed gates forbid."""
        prepared = replace(super().prepare_create(obj, context), status=ControlledClaimStatus())
        return prepared if context.gates[GATE] else _without_controller(prepared)

    def validate_create(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """All rules of a new claim."""
        errors = super().validate_create(obj, context)
        _validate_controller(errors, _SPEC, controller_of(obj))
        return errors

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep the status, drop what closed gates forbid and the stored claim does not use."""
        prepared = super().prepare_update(new, old, context)
        return prepared if context.gates[GATE] or controller_of(old) else _without_controller(prepared)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Require an unchanged spec, and validate it nevertheless."""
        errors = super().validate_update(new, old, context)
        _validate_controller(errors, _SPEC, controller_of(new))
        return errors


class ControlledClaimStatusStrategy(ClaimStatusStrategy):
    """The claim's status: the allocation by scheduler or controller, its consumers, and the request to deallocate
    it."""

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep spec and metadata, drop what closed gates forbid and what the release does not know."""
        prepared = super().prepare_update(new, old, context)
        status: Any = _without_admin_access(prepared.status)
        if not context.gates[GATE]:
            if not controller_of(old) and old.status.allocation is None and allocated_by(status.allocation):
                status = replace(status, allocation=replace(status.allocation, controller=""))
            if not deallocation_requested(old) and not allocated_by(status.allocation):
                status = replace(status, deallocation_requested=False)
        return replace(prepared, status=status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> ErrorList:
        """Apply all rules of a status. The allocation is validated with every change."""
        errors = super().validate_update(new, old, context)
        _validate_controller(errors, _STATUS.child("allocation"), allocated_by(new.status.allocation))
        if isinstance(new, ControlledClaim) and isinstance(old, ControlledClaim):
            leaving = new.metadata.deletion_timestamp is not None
            validate_deallocation(errors, new.status, old.status, refuses_consumers=not leaving)
        return errors


class ControlledTemplateStrategy(TemplateStrategy):
    """A template; the controller that it names is never dropped."""

    def validate_create(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """All rules of a new template."""
        errors = super().validate_create(obj, context)
        _validate_controller(errors, _SPEC.child("spec"), getattr(obj.spec.spec, "controller", ""))
        return errors

    def validate_update(
        self, new: resource.ResourceClaimTemplate, old: resource.ResourceClaimTemplate, context: RequestContext
    ) -> ErrorList:
        """Require an unchanged spec, and validate it nevertheless."""
        errors = super().validate_update(new, old, context)
        _validate_controller(errors, _SPEC.child("spec"), getattr(new.spec.spec, "controller", ""))
        return errors


def _validate_controller(errors: ErrorList, path: FieldPath, name: str) -> None:
    if name:
        validate_driver_name(errors, path.child("controller"), name)


def _without_controller(claim: resource.ResourceClaim) -> resource.ResourceClaim:
    return replace(claim, spec=replace(claim.spec, controller="")) if controller_of(claim) else claim


def _without_admin_access(status: resource.ResourceClaimStatus) -> resource.ResourceClaimStatus:
    """Remove the admin access of results, a field that 1.31 does not have."""
    allocation = status.allocation
    if allocation is None or all(result.admin_access is None for result in allocation.devices.results):
        return status
    results = tuple(replace(result, admin_access=None) for result in allocation.devices.results)
    return replace(status, allocation=replace(allocation, devices=replace(allocation.devices, results=results)))


def controlled_claim_state(claim: resource.ResourceClaim) -> str:
    """The claim's state in words; one that its controller is to take back is «deallocating»."""
    state = claim_state(claim)
    leaving = claim.metadata.deletion_timestamp is not None or deallocation_requested(claim)
    if claim.status.allocation is None or claim.status.reserved_for or not leaving:
        return state
    return f"{state},deallocating"


def controlled_claim_cells(claim: resource.ResourceClaim, now: float) -> list[Any]:
    """Cells of a ResourceClaim."""
    return [claim.metadata.name, controlled_claim_state(claim), age(claim.metadata.creation_timestamp, now)]
