"""Device entries of a driver in the status of a claim.

Each device (and share) has one entry, written by server-side apply, so that entries of other drivers and conditions of
other managers are kept (docs/spec/driver-sdk.md §14).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cathedra.api.resource import AllocatedDeviceStatus, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON, Time, replace, to_dict
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver.claim import DeviceStatus, Prepared, Ref
from cathedra.semantics.conditions import find_condition, keep_transition_time

INVALID: Final = 422
_ATTEMPTS: Final = 5


def device_entries(driver: str, prepared: Sequence[Prepared]) -> tuple[AllocatedDeviceStatus, ...]:
    """Return the entries of devices with a `DeviceStatus`."""
    return tuple(_entry(driver, device, device.status) for device in prepared if device.status is not None)


def _entry(driver: str, device: Prepared, status: DeviceStatus) -> AllocatedDeviceStatus:
    data: Mapping[str, object] | None = status.data
    return AllocatedDeviceStatus(
        driver=driver,
        pool=device.pool,
        device=device.device,
        share_id=device.share_id,
        conditions=tuple(status.conditions),
        data=None if data is None else RawJSON(json.dumps(dict(data), separators=(",", ":")).encode()),
        network_data=status.network_data,
    )


async def write_device_status(
    client: Client, ref: Ref, entries: Sequence[AllocatedDeviceStatus]
) -> ResourceClaim | None:
    """Apply ``entries`` to the claim's status in place of this manager's earlier ones. Return None if the claim is
    gone.

    Entries of other drivers are kept, and conditions of others on an entry too. A condition without a time gets the
    current time, or keeps its time if the claim has it already.

    Raises:
        StatusError: the API server refuses.
        ConnectionError: it cannot be reached.
    """
    claims = client.resource(RESOURCECLAIMS, ref.namespace)
    claim = await claims.get(ref.name)
    if claim.metadata.uid != ref.uid:
        return None
    entries = [_dated(entry, claim.status.devices, client.clock.now()) for entry in entries]
    if all(_is_there(entry, claim.status.devices) for entry in entries):
        return claim
    fields = {"metadata": {"uid": ref.uid}, "status": {"devices": [_applied(entry) for entry in entries]}}
    try:
        return await claims.apply(ref.name, fields, "status")
    except StatusError as error:
        # A conflict is about the UID: another claim of that name has come since.
        if error.is_conflict or error.is_not_found:
            return None
        if error.code != INVALID or any(cause.field.startswith("status.devices") for cause in error.causes):
            raise
    # An apply writes opaque parameters anew, with sorted keys. A claim that has them in another order has a changed
    # allocation then, which is refused; an update leaves them as they are. Where the entries themselves are refused, an
    # update would be too, and its error could hide the reason: a right that is missing for resourceclaims/driver.
    return await _update(client, ref, entries)


async def _update(client: Client, ref: Ref, entries: Sequence[AllocatedDeviceStatus]) -> ResourceClaim | None:
    claims = client.resource(RESOURCECLAIMS, ref.namespace)
    for _ in range(_ATTEMPTS - 1):
        claim = await claims.get(ref.name)
        try:
            return await claims.update_status(_with(claim, entries))
        except StatusError as error:
            if not error.is_conflict:
                raise
    return await claims.update_status(_with(await claims.get(ref.name), entries))


def _with(claim: ResourceClaim, entries: Sequence[AllocatedDeviceStatus]) -> ResourceClaim:
    merged = {_key(entry): entry for entry in claim.status.devices}
    for entry in entries:
        old = merged.get(_key(entry))
        mine = {condition.type for condition in entry.conditions or ()}
        others = (one for one in (old.conditions or () if old is not None else ()) if one.type not in mine)
        merged[_key(entry)] = replace(entry, conditions=(*others, *(entry.conditions or ())))
    return replace(claim, status=replace(claim.status, devices=tuple(merged.values())))


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id


def _dated(entry: AllocatedDeviceStatus, present: Sequence[AllocatedDeviceStatus], now: float) -> AllocatedDeviceStatus:
    old = next((other.conditions or () for other in present if _key(other) == _key(entry)), ())
    dated = (
        one
        if one.last_transition_time
        else keep_transition_time(replace(one, last_transition_time=Time(now)), find_condition(old, one.type))
        for one in entry.conditions or ()
    )
    return replace(entry, conditions=tuple(dated))


def _is_there(entry: AllocatedDeviceStatus, present: Sequence[AllocatedDeviceStatus]) -> bool:
    """Return True if nothing would change. Where others have set conditions, too, applying finds out."""
    return any(replace(other, conditions=other.conditions or ()) == entry for other in present)


def _applied(entry: AllocatedDeviceStatus) -> dict[str, Any]:
    """Return the applied fields of an entry. An empty list of conditions is left out, so that those of others stay."""
    fields: dict[str, Any] = to_dict(entry)
    if not fields.get("conditions"):
        fields.pop("conditions", None)
    return fields
