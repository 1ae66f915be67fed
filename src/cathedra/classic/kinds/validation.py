"""Rules of the classic kinds (docs/spec/api.md §7.2). All counts are lengths here: «Too long», never «Too many»."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from cathedra.api import formats
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, longer_than
from cathedra.kinds.definition import RequestContext
from cathedra.kinds.nodeselectors import validate_node_selector
from cathedra.kinds.resource.names import validate_driver_name
from cathedra.releases import classic

MODES: Final = ("Immediate", "WaitForFirstConsumer")
IMMUTABLE: Final = "field is immutable"
MAX_NODES: Final = 128
MAX_RESERVED: Final = 32
MAX_HANDLES: Final = 32
MAX_DATA: Final = 16 * 1024
_SPEC: Final = FieldPath("spec")
_STATUS: Final = FieldPath("status")


def validate_class(resource_class: v1alpha2.ResourceClass) -> ErrorList:
    """Return the errors of a class."""
    errors = ErrorList()
    validate_driver_name(errors, FieldPath("driverName"), resource_class.driver_name)
    reference = resource_class.parameters_ref
    if reference is not None:
        path = FieldPath("parametersRef")
        _reference(errors, path, reference.kind, reference.name)
        if reference.namespace:
            check(errors, path.child("namespace"), reference.namespace, formats.dns_label)
    if resource_class.suitable_nodes is not None:
        validate_node_selector(errors, FieldPath("suitableNodes"), resource_class.suitable_nodes)
    return errors


def _reference(errors: ErrorList, path: FieldPath, kind: str, name: str) -> None:
    for field, value in (("kind", kind), ("name", name)):
        if not value:
            errors.required(path.child(field))


def validate_claim(claim: v1alpha2.ResourceClaim) -> ErrorList:
    """Return the errors of a new claim."""
    errors = ErrorList()
    _claim_spec(errors, _SPEC, claim.spec)
    return errors


def validate_claim_update(new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim) -> ErrorList:
    """Require an unchanged spec, and validate it nevertheless."""
    errors = ErrorList()
    if new.spec != old.spec:
        errors.invalid(_SPEC, new.spec, IMMUTABLE)
    _claim_spec(errors, _SPEC, new.spec)
    return errors


def validate_template(template: v1alpha2.ResourceClaimTemplate) -> ErrorList:
    """Return the errors of a new template."""
    errors = ErrorList()
    _claim_spec(errors, _SPEC.child("spec"), template.spec.spec)
    return errors


def validate_template_update(new: v1alpha2.ResourceClaimTemplate, old: v1alpha2.ResourceClaimTemplate) -> ErrorList:
    """Require an unchanged spec, and validate it nevertheless."""
    errors = ErrorList()
    if new.spec != old.spec:
        errors.invalid(_SPEC, new.spec, IMMUTABLE)
    _claim_spec(errors, _SPEC.child("spec"), new.spec.spec)
    return errors


def _claim_spec(errors: ErrorList, path: FieldPath, spec: v1alpha2.ResourceClaimSpec) -> None:
    check(errors, path.child("resourceClassName"), spec.resource_class_name, formats.dns_subdomain)
    if spec.parameters_ref is not None:
        _reference(errors, path.child("parametersRef"), spec.parameters_ref.kind, spec.parameters_ref.name)
    if spec.allocation_mode not in MODES:
        errors.not_supported(path.child("allocationMode"), spec.allocation_mode, MODES)


def validate_claim_status(
    new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim, context: RequestContext
) -> ErrorList:
    """Return the errors of a claim's new status."""
    errors = ErrorList()
    status, before = new.status, old.status
    if status.driver_name:
        validate_driver_name(errors, _STATUS.child("driverName"), status.driver_name)
    elif status.allocation is not None:
        errors.required(_STATUS.child("driverName"), "must be specified when `allocation` is set")
    path = _STATUS.child("allocation")
    if status.allocation is not None:
        _allocation(errors, path, status.allocation, one_handle=not context.gates.has(classic.SEVERAL_RESOURCE_HANDLES))
    _consumers(errors, _STATUS.child("reservedFor"), status.reserved_for)
    _reservations(errors, new, old)
    replaced = before.allocation is not None and status.allocation not in (None, before.allocation)
    if replaced and context.gates.has(classic.SEVERAL_RESOURCE_HANDLES):
        errors.invalid(path, status.allocation, IMMUTABLE)
    leaving = new.metadata.deletion_timestamp is not None
    validate_deallocation(errors, status, before, refuses_consumers=not leaving)
    return errors


def _allocation(errors: ErrorList, path: FieldPath, allocation: v1alpha2.AllocationResult, *, one_handle: bool) -> None:
    handles = allocation.resource_handles
    if one_handle:
        if handles and longer_than(handles[0].data, MAX_DATA):
            errors.too_long(path.child("resourceHandle"), MAX_DATA)
    elif len(handles) > MAX_HANDLES:
        errors.too_long(path.child("resourceHandles"), MAX_HANDLES)
    else:
        for position, handle in enumerate(handles):
            _handle(errors, path.child("resourceHandles").index(position), handle)
    if allocation.available_on_nodes is not None:
        validate_node_selector(errors, path.child("availableOnNodes"), allocation.available_on_nodes)


def _handle(errors: ErrorList, path: FieldPath, handle: v1alpha2.ResourceHandle) -> None:
    validate_driver_name(errors, path.child("driverName"), handle.driver_name)
    if longer_than(handle.data, MAX_DATA):
        errors.too_long(path.child("data"), MAX_DATA)
    structured = handle.structured_data
    if structured is None:
        return
    if handle.data:
        errors.invalid(path, None, "data and structuredData are mutually exclusive")
    where = path.child("structuredData")
    if structured.node_name:
        check(errors, where.child("nodeName"), structured.node_name, formats.dns_subdomain)
    for position, result in enumerate(structured.results):
        if result.named_resources is None:
            errors.required(where.child("results").index(position), "exactly one structured model field must be set")
        else:
            name = where.child("results").index(position).child("namedResources", "name")
            check(errors, name, result.named_resources.name, formats.dns_subdomain)


def _consumers(
    errors: ErrorList, path: FieldPath, consumers: Sequence[v1alpha2.ResourceClaimConsumerReference]
) -> None:
    if len(consumers) > MAX_RESERVED:
        errors.too_long(path, MAX_RESERVED)
    seen: set[str] = set()
    for position, consumer in enumerate(consumers):
        where = path.index(position)
        if consumer.uid in seen:
            errors.duplicate(where.child("uid"), consumer.uid)
            continue
        seen.add(consumer.uid)
        for name, value in (("resource", consumer.resource), ("name", consumer.name), ("uid", consumer.uid)):
            if not value:
                errors.required(where.child(name))


def _reservations(errors: ErrorList, new: v1alpha2.ResourceClaim, old: v1alpha2.ResourceClaim) -> None:
    path = _STATUS.child("reservedFor")
    status = new.status
    if not status.reserved_for:
        return
    if status.allocation is None:
        errors.forbidden(path, "may not be specified when `allocated` is not set")
        return
    if not status.allocation.shareable and len(status.reserved_for) > 1:
        errors.forbidden(path, "may not be reserved more than once")
    if new.metadata.deletion_timestamp is not None:
        _refuse_consumers(errors, status, old.status)


class DeallocatableStatus(Protocol):
    """The status of a claim whose driver can be requested to deallocate it, in any release."""

    @property
    def allocation(self) -> object | None: ...

    @property
    def reserved_for(self) -> Sequence[Hashable]: ...

    @property
    def deallocation_requested(self) -> bool: ...


def _refuse_consumers(errors: ErrorList, status: DeallocatableStatus, before: DeallocatableStatus) -> None:
    if set(status.reserved_for) - set(before.reserved_for):
        errors.forbidden(
            _STATUS.child("reservedFor"),
            "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set",
        )


def validate_deallocation(
    errors: ErrorList, status: DeallocatableStatus, before: DeallocatableStatus, *, refuses_consumers: bool
) -> None:
    """Permit the request to deallocate only without consumers, and its end only without an allocation.

    ``refuses_consumers``: new consumers are an error that no other rule has entered.
    """
    if refuses_consumers and status.deallocation_requested and status.allocation is not None:
        _refuse_consumers(errors, status, before)
    path = _STATUS.child("deallocationRequested")
    if status.deallocation_requested and not before.deallocation_requested and status.reserved_for:
        errors.forbidden(path, "deallocation cannot be requested while `reservedFor` is set")
    if status.deallocation_requested and status.allocation is None:
        errors.forbidden(_STATUS, "`allocation` must be set when `deallocationRequested` is set")
    if before.deallocation_requested and not status.deallocation_requested and status.allocation is not None:
        errors.forbidden(path, "may not be cleared when `allocation` is set")


def validate_context(context: v1alpha2.PodSchedulingContext) -> ErrorList:
    """Return the errors of the scheduler's side of the negotiation."""
    errors = ErrorList()
    _nodes(errors, _SPEC.child("potentialNodes"), context.spec.potential_nodes)
    return errors


def validate_context_status(context: v1alpha2.PodSchedulingContext) -> ErrorList:
    """Return the errors of the drivers' side of the negotiation; its paths speak of ``claims``, as Kubernetes' do."""
    errors = ErrorList()
    path = _STATUS.child("claims")
    seen: set[str] = set()
    for position, claim in enumerate(context.status.resource_claims):
        if claim.name in seen:
            errors.duplicate(path.index(position), claim.name)
            continue
        seen.add(claim.name)
        _nodes(errors, path.index(position).child("unsuitableNodes"), claim.unsuitable_nodes)
    return errors


def _nodes(errors: ErrorList, path: FieldPath, nodes: Sequence[str]) -> None:
    if len(nodes) > MAX_NODES:
        errors.too_long(path, MAX_NODES)
    seen: set[str] = set()
    for position, node in enumerate(nodes):
        if node in seen:
            errors.duplicate(path.index(position), node)
            continue
        seen.add(node)
        check(errors, path.index(position), node, formats.dns_subdomain)
