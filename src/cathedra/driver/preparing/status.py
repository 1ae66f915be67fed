"""What a driver says about its devices in the status of a claim.

One entry for each device (and share). Entries of other drivers in the same claim are theirs, and a write that lost a
race is made again on the newer object (docs/spec/driver-sdk.md §14).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from cathedra.api.resource import AllocatedDeviceStatus, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import RawJSON, replace
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.driver.claim import DeviceStatus, Prepared, Ref

__all__ = ["device_entries", "write_device_status"]

_ATTEMPTS = 5


def device_entries(driver: str, prepared: Sequence[Prepared]) -> tuple[AllocatedDeviceStatus, ...]:
    """The entries for those devices about which the driver has something to say."""
    return tuple(_entry(driver, device, device.status) for device in prepared if device.status is not None)


def _entry(driver: str, device: Prepared, status: DeviceStatus) -> AllocatedDeviceStatus:
    data: Mapping[str, object] | None = status.data
    return AllocatedDeviceStatus(
        driver=driver,
        pool=device.pool,
        device=device.device,
        share_id=device.share_id,
        conditions=(),
        data=None if data is None else RawJSON(json.dumps(dict(data), separators=(",", ":")).encode()),
        network_data=status.network_data,
    )


async def write_device_status(
    client: Client, ref: Ref, entries: Sequence[AllocatedDeviceStatus]
) -> ResourceClaim | None:
    """Put ``entries`` into the claim's status, in place of older ones for the same devices; None if the claim is gone.

    Conditions that others set on an entry stay.

    Raises:
        StatusError: the API server refuses.
        ConnectionError: it cannot be reached.
    """
    claims = client.resource(RESOURCECLAIMS, ref.namespace)
    for attempt in range(1, _ATTEMPTS + 1):
        claim = await claims.get(ref.name)
        if claim.metadata.uid != ref.uid:
            return None
        devices = _merged(claim.status.devices, entries)
        if devices == claim.status.devices:
            return claim
        try:
            return await claims.update_status(replace(claim, status=replace(claim.status, devices=devices)))
        except StatusError as error:
            if not error.is_conflict or attempt == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _merged(
    present: Sequence[AllocatedDeviceStatus], entries: Sequence[AllocatedDeviceStatus]
) -> tuple[AllocatedDeviceStatus, ...]:
    merged = {_key(entry): entry for entry in present}
    for entry in entries:
        old = merged.get(_key(entry))
        merged[_key(entry)] = entry if old is None else replace(entry, conditions=old.conditions)
    return tuple(merged.values())


def _key(entry: AllocatedDeviceStatus) -> tuple[str, str, str, str | None]:
    return entry.driver, entry.pool, entry.device, entry.share_id
