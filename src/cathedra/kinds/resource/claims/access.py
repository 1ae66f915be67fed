"""Permissions on parts of a claim's status: allocation and reservations, and each driver's device status
(docs/spec/api.md §B.1; KEP-4817).

They are permissions on sub-resources that do not exist, ``resourceclaims/binding`` and ``resourceclaims/driver``. A
refusal is an error of the field, not of the request: it is found when the new status is validated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.field import ErrorList
from cathedra.api.resource import AllocatedDeviceStatus, AllocationResult, ResourceClaim
from cathedra.kinds.definition import FieldAccess, RequestContext

__all__ = ["validate_status_access"]

_GATE: Final = "DRAResourceClaimGranularStatusAuthorization"


def validate_status_access(errors: ErrorList, new: ResourceClaim, old: ResourceClaim, context: RequestContext) -> None:
    """Each change of the status needs its own permission; without an authorizer in the context, none."""
    access = context.access
    if access is None or not context.gates.get(_GATE, False):
        return
    if new.status.allocation != old.status.allocation or new.status.reserved_for != old.status.reserved_for:
        _validate_binding(errors, access)
    if not (new.status.devices or old.status.devices):
        return
    if new.status.allocation is not None and context.gates.get("DRAResourceClaimDeviceStatus", False):
        for driver in _drivers_changed(new.status.devices, old.status.devices):
            _validate_driver(errors, access, driver, new)


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
    if access.node and allocation is not None and access.node == _only_node(allocation):
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
    """The drivers, sorted, of whose entries some were added, changed or removed; their order does not matter."""
    before, after = ({_key(entry): entry for entry in entries} for entries in (old, new))
    return sorted({key[0] for key in before.keys() | after.keys() if before.get(key) != after.get(key)})


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id


def _only_node(allocation: AllocationResult) -> str:
    """The node that an allocation is on, if its selector says exactly that; else ""."""
    selector = allocation.node_selector
    if selector is None or len(selector.node_selector_terms) != 1:
        return ""
    term = selector.node_selector_terms[0]
    if term.match_expressions or len(term.match_fields) != 1:
        return ""
    field = term.match_fields[0]
    if field.key != "metadata.name" or field.operator != "In" or len(field.values) != 1:
        return ""
    return field.values[0]
