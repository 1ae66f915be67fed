"""Strategies and definitions of claims and templates (docs/spec/api.md §1.6, §3.3, §3.5).

The status has permissions of its own parts: allocation and reservations (``resourceclaims/binding``), and each driver's
device status (``resourceclaims/driver``). No such sub-resources exist. A refusal is an error of the field, not of the
request, and is therefore found by validation (docs/spec/api.md §B.1; KEP-4817).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from operator import attrgetter, not_
from typing import Any, Final

from cathedra.api import resource
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.field import ErrorList, FieldError
from cathedra.api.resource import AllocatedDeviceStatus, ResourceClaim
from cathedra.api.struct import replace
from cathedra.kinds.columns import AGE, NAME, NAME_AND_AGE, age, name_and_age
from cathedra.kinds.definition import (
    Column,
    ExpressionChecker,
    FieldAccess,
    RequestContext,
    ResourceDefinition,
    Strategy,
)
from cathedra.kinds.resource.claims.conversion import CLAIM_SHAPES, TEMPLATE_SHAPES
from cathedra.kinds.resource.claims.defaults import default_claim, default_template
from cathedra.kinds.resource.claims.disabled_fields import enabled_claim_spec, enabled_claim_status
from cathedra.kinds.resource.claims.status import is_usual, only_node, validate_status_update
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
from cathedra.remembering import IDENTITY, TEMPLATES, everything_but, numbered, remembered

_NO_STATUS: Final = resource.ResourceClaimStatus()
"""The status of all new claims: one shared object, so that memos find it by identity."""


CLAIM_COLUMNS: Final = (NAME, Column("State", description="Whether the claim is allocated, reserved, deleted."), AGE)


def claim_state(claim: resource.ResourceClaim) -> str:
    """Return the claim's state in words, joined by commas: «allocated,reserved»."""
    states = ["deleted"] if claim.metadata.deletion_timestamp else []
    if claim.status.allocation is not None:
        states.append("allocated")
        if claim.status.reserved_for:
            states.append("reserved")
    elif not states:
        states.append("pending")
    return ",".join(states)


def claim_cells(claim: resource.ResourceClaim, now: float) -> list[Any]:
    """Return the cells of a ResourceClaim."""
    return [claim.metadata.name, claim_state(claim), age(claim.metadata.creation_timestamp, now)]


@remembered("new claims without errors", key=IDENTITY, size=TEMPLATES, keep=not_)
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


class _DefaultedClaim(Strategy[resource.ResourceClaim]):
    """The defaults of claims, which both of their resources set."""

    def default(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Set the default counts, and the default operators of tolerations."""
        return default_claim(obj)

    def default_change(
        self, obj: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Return a claim with the stored spec and no other allocation as it is."""
        allocation = obj.status.allocation
        if obj.spec is old.spec and (allocation is None or allocation is old.status.allocation):
            return obj
        return default_claim(obj)


class ClaimStrategy(_DefaultedClaim):
    """The claim itself: its spec never changes, its status comes through its sub-resource."""

    metadata_checks = 2

    def prepare_create(self, obj: resource.ResourceClaim, context: RequestContext) -> resource.ResourceClaim:
        """Empty the status, drop what closed gates forbid."""
        # A created claim is never allocated, whatever the client sends: only the scheduler may allocate, through
        # ``status``.
        spec = enabled_claim_spec(obj.spec, None, context.gates)
        return replace(obj, spec=spec, status=_NO_STATUS)

    def validate_access(self, obj: resource.ResourceClaim, context: RequestContext) -> ErrorList:
        """Refuse admin access where its namespace does not allow it."""
        return paths_of_release(validate_admin_access(obj.spec, obj.metadata.namespace, context), context.gates)

    def selectors(self, obj: resource.ResourceClaim) -> Sequence[str]:
        """Return those of all requests, if they are many."""
        return many_selectors(obj.spec)

    def validate_create(self, obj: resource.ResourceClaim, context: RequestContext) -> Sequence[FieldError]:
        """Check all rules of a new claim."""
        return _new_claim_errors(obj.spec, obj.status, context.gates, context.expressions, context.api_version)

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep the status, drop what closed gates forbid and the stored claim does not use."""
        # The stored spec has only fields that it uses.
        if new.spec is old.spec and new.status is old.status:
            return new
        return replace(new, spec=enabled_claim_spec(new.spec, old.spec, context.gates), status=old.status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> Sequence[FieldError]:
        """Refuse a changed spec."""
        # Most updates of the main resource change metadata alone, as those of finalizers do. Rules of the spec then
        # find nothing: the spec was valid when it was stored, and is immutable.
        if new.spec is old.spec and new.status is old.status and context.gates.has(behaviours.STORED_SPEC_UNVALIDATED):
            return ()  # Until then the stored spec was validated, too; tags apply to changes.
        found = paths_of_release(validate_claim_update(new, old, context), context.gates)
        return with_declared(found, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


_BELOW: Final = "its own fields are in the key"


_EACH_TIME: Final = "it differs from claim to claim; is_usual checks it each time"


_PERMISSIONS: Final = "permissions are checked each time"


EXCLUDED: Final[Mapping[type[Any], Mapping[str, str]]] = {
    resource.ResourceClaim: {
        "metadata": "the rules get the time of deletion alone; a claim that is being deleted has no key",
        "spec": "it is numbered in the key",
        "status": _BELOW,
    },
    resource.ResourceClaimStatus: {"allocation": _BELOW, "reserved_for": _BELOW},
    resource.AllocationResult: {
        "devices": _BELOW,
        "node_selector": _EACH_TIME,
        "allocation_timestamp": "it differs from claim to claim; there is no rule for it",
    },
    resource.DeviceAllocationResult: {"results": _BELOW},
    resource.DeviceRequestAllocationResult: {"pool": _EACH_TIME, "device": _EACH_TIME},
    resource.ResourceClaimConsumerReference: {"name": _EACH_TIME, "uid": _EACH_TIME},
    RequestContext: {
        "gates": "they are numbered in the key",
        "now": "no rule of a status depends on the time",
        "namespace_labels": "they matter for admin access alone, which has no key",
        "interrupted": "it is a deadline and changes no verdict",
        "access": _PERMISSIONS,
        "user": _PERMISSIONS,
    },
}
"""The fields that are not in the key as they are, and why."""


_claim, _status, _allocation, _devices, _result, _consumer, _context = (
    everything_but(kind, reasons) for kind, reasons in EXCLUDED.items()
)


_spec_number: Final = numbered("specs of allocated claims", size=TEMPLATES)


_gates_number: Final = numbered("gates of allocated claims", size=64)


_has_admin_access: Final = attrgetter("admin_access")


_FRESH: Final = resource.ResourceClaimStatus()


_NO_METADATA: Final = ObjectMeta()
_NO_SPEC: Final = resource.ResourceClaimSpec()
_SOME_ALLOCATION: Final = resource.AllocationResult()
_SOME_CONSUMERS: Final = (resource.ResourceClaimConsumerReference(),)


_FEW: Final = 8
"""Results and configurations up to which there is a key: thousands of keys are kept, and none may be large."""
_SHORT: Final = 512
"""Bytes of a configuration's parameters up to which there is a key."""


def allocation_key(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> Hashable:
    """Return all that the rules of a status depend on that gives a new claim its allocation, or that takes everything
    away from a claim, without what differs from claim to claim. None if it is another change, if it may be large, or if
    what differs has an unusual form."""
    status, before = new.status, old.status
    if new.spec is not old.spec or new.metadata.deletion_timestamp is not None or before.devices:
        return None
    gates = _gates_number(context.gates)
    if status == _FRESH:
        # `_without_contents` is all that the rules get of such a change.
        return (
            gates,
            _context(context),
            _claim(new),
            _status(before),
            before.allocation is None,
            not before.reserved_for,
        )
    allocation = status.allocation
    if (
        allocation is None
        or len(allocation.devices.results) > _FEW
        or (allocation.devices.config and not _is_short(allocation.devices.config))
        or status.devices
        or len(status.reserved_for) > 1
        or before != _FRESH
    ):
        # A key for such a status would be wrong or large. The rules run in full then, which is always right.
        return None
    results = allocation.devices.results
    if any(map(_has_admin_access, results)) or not is_usual(allocation, status.reserved_for):
        return None
    return (
        gates,
        _context(context),
        _claim(new),
        _spec_number(new.spec),
        _status(status),
        _allocation(allocation),
        _devices(allocation.devices),
        tuple(map(_result, results)),
        tuple(map(_consumer, status.reserved_for)),
    )


def _is_short(configurations: Sequence[resource.DeviceAllocationConfiguration]) -> bool:
    """Return True if configurations fit into a key."""
    return len(configurations) <= _FEW and all(
        one.opaque is None or one.opaque.parameters is None or len(one.opaque.parameters.data) <= _SHORT
        for one in configurations
    )


def _without_contents(
    new: resource.ResourceClaim, old: resource.ResourceClaim
) -> tuple[resource.ResourceClaim, resource.ResourceClaim]:
    """Return a claim that is freed without its spec, and of its former status which parts it had."""
    before = old.status
    shown = replace(
        before,
        allocation=None if before.allocation is None else _SOME_ALLOCATION,
        reserved_for=_SOME_CONSUMERS if before.reserved_for else (),
    )
    return replace(new, spec=_NO_SPEC), replace(old, spec=_NO_SPEC, status=shown)


@remembered("sound allocations", key=allocation_key, size=4096, keep=bool)
def _is_sound(new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext) -> bool:
    """Return True if a status breaks no rule, apart from permissions."""
    # The rules get nothing that is not in the key. One that needs metadata then judges all claims alike, and a test of
    # it fails at once; with the metadata it would be skipped for the second claim alone.
    deleted = ObjectMeta(deletion_timestamp=new.metadata.deletion_timestamp)
    new, old = replace(new, metadata=deleted), replace(old, metadata=_NO_METADATA)
    if new.status == _FRESH and allocation_key(new, old, context) is not None:
        new, old = _without_contents(new, old)
    found = paths_of_release(validate_status_update(new, old, context), context.gates)
    return not with_declared(found, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


class ClaimStatusStrategy(_DefaultedClaim):
    """The claim's status: allocation, reservations, what drivers report of devices."""

    reset_fields = ("spec", "metadata")

    def prepare_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> resource.ResourceClaim:
        """Keep spec and metadata; drop disabled fields and the status of deallocated devices."""
        metadata = kept_metadata(new.metadata, old.metadata)
        status = enabled_claim_status(new.status, old, context.gates)
        if metadata is new.metadata and new.spec is old.spec and status is new.status:
            return new
        return replace(new, metadata=metadata, spec=old.spec, status=status)

    def validate_update(
        self, new: resource.ResourceClaim, old: resource.ResourceClaim, context: RequestContext
    ) -> Sequence[FieldError]:
        """Check all rules of a status, and the permissions on its parts."""
        # Permissions are checked each time: they are not in the key of the memo, because a role may change between two
        # writes.
        if _is_sound(new, old, context):
            return validate_status_access(new, old, context)
        errors = paths_of_release(validate_status_update(new, old, context), context.gates)
        errors.extend(validate_status_access(new, old, context))
        return with_declared(errors, CLAIM_TAGS, CLAIM_SHAPES, new, old, context)


class TemplateStrategy(Strategy[resource.ResourceClaimTemplate]):
    """A template: its spec never changes."""

    metadata_checks = 2

    def default(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> resource.ResourceClaimTemplate:
        """Set the default counts."""
        return default_template(obj)

    def prepare_create(
        self, obj: resource.ResourceClaimTemplate, context: RequestContext
    ) -> resource.ResourceClaimTemplate:
        """Drop what closed gates forbid."""
        spec = enabled_claim_spec(obj.spec.spec, None, context.gates)
        return replace(obj, spec=replace(obj.spec, spec=spec))

    def validate_access(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """Refuse admin access where its namespace does not allow it."""
        return paths_of_release(validate_admin_access(obj.spec.spec, obj.metadata.namespace, context), context.gates)

    def selectors(self, obj: resource.ResourceClaimTemplate) -> Sequence[str]:
        """Return those of all requests, if they are many."""
        return many_selectors(obj.spec.spec)

    def validate_create(self, obj: resource.ResourceClaimTemplate, context: RequestContext) -> ErrorList:
        """Check all rules of a new template."""
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
        """Require an unchanged spec, and validate it nevertheless."""
        return paths_of_release(validate_template_update(new, old, context), context.gates)


def claim_definition(gates: FeatureGates) -> ResourceDefinition[resource.ResourceClaim]:
    """Return the definition of resourceclaims."""
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
    """Return the definition of resourceclaimtemplates."""
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


_GATE: Final = "DRAResourceClaimGranularStatusAuthorization"


def validate_status_access(new: ResourceClaim, old: ResourceClaim, context: RequestContext) -> Sequence[FieldError]:
    """Require a permission for each change of the status; without an authorizer in the context, none."""
    access = context.access
    if access is None or not context.gates.get(_GATE, False):
        return ()
    errors = ErrorList()
    if new.status.allocation != old.status.allocation or new.status.reserved_for != old.status.reserved_for:
        _validate_binding(errors, access)
    if not (new.status.devices or old.status.devices):
        return errors
    # Entries that vanish together with the allocation are removed by the scheduler or a controller. They need no
    # driver's permission, or a claim could not be deallocated by them.
    if new.status.allocation is not None and context.gates.get("DRAResourceClaimDeviceStatus", False):
        for driver in _drivers_changed(new.status.devices, old.status.devices):
            _validate_driver(errors, access, driver, new)
    return errors


def _validate_binding(errors: ErrorList, access: FieldAccess) -> None:
    why = access.refusal("binding", access.verb)
    if why:
        errors.forbidden(
            "status.allocation",
            'changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", '
            f'verb="{access.verb}" permission: {why}',
        )


def _validate_driver(errors: ErrorList, access: FieldAccess, driver: str, claim: ResourceClaim) -> None:
    verbs = [f"arbitrary-node:{access.verb}"]
    allocation = claim.status.allocation
    selector = None if allocation is None else allocation.node_selector
    if access.node and selector is not None and access.node == only_node(selector):
        # The narrower permission is tried first, and its refusal is the one that is shown: node plugins usually have
        # it.
        verbs.insert(0, f"associated-node:{access.verb}")
    refusals = []
    for verb in verbs:
        why = access.refusal("driver", verb, namespace=claim.metadata.namespace, name=driver)
        if not why:
            return
        refusals.append(why)
    errors.forbidden(
        "status.devices",
        f'changing status.devices requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" '
        f"permission: {refusals[0]}",
    )


def _drivers_changed(new: Iterable[AllocatedDeviceStatus], old: Iterable[AllocatedDeviceStatus]) -> list[str]:
    """Return the drivers, sorted, of which an entry was added, changed or removed; the order of entries is ignored."""
    before, after = ({_key(entry): entry for entry in entries} for entries in (old, new))
    # Removed entries count as changes: without that, a driver could delete the report of another one.
    return sorted({key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id
