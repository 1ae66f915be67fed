"""Counts of devices: those that claims request, and those that are allocated to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Input, plain_objects, typed_object
from cathedra.api.resource import ResourceClaim, ResourceClaimTemplate
from cathedra.kinds.resource.claims.defaults import default_claim
from cathedra.kinds.resource.claims.usage import classes_by_request, devices_by_class

__all__ = ["AllocatedDevice", "allocated", "allocated_devices", "requested"]


class AllocatedDevice(NamedTuple):
    """A device that is allocated to a claim."""

    driver: str
    pool: str
    device: str
    request: str
    """Name of the request that it satisfies, or ``request/alternative``."""
    device_class: str
    """Class of the request; "" if the claim no longer has the request."""
    admin_access: bool
    """True if the claim has the device beside those that use it."""


def requested(claims: Input) -> dict[str, int]:
    """Return the number of devices of each class that claims and templates request at most, as quota counts them.

    A request for all devices counts 32. Of alternatives, the largest number of each class counts.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    total: Counter[str] = Counter()
    for claim in _claims(claims):
        total.update(devices_by_class(default_claim(claim)))
    return dict(total)


def allocated(claims: Input) -> dict[str, int]:
    """Return the number of devices of each class that claims hold. Devices with admin access do not count.

    A device that several claims share counts for each of them.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    return dict(Counter(one.device_class for one in allocated_devices(claims) if not one.admin_access))


def allocated_devices(claims: Input) -> list[AllocatedDevice]:
    """Return the devices that are allocated to claims, in the order of their status; none for templates.

    Raises:
        InvalidInput: something is neither claim nor template.
    """
    return [device for claim in _claims(claims) for device in _devices(claim)]


def _claims(given: Input) -> Iterator[ResourceClaim]:
    for one in plain_objects(given):
        # A newer server may return fields that are not known. They do not change the counts.
        typed = typed_object(one, strict=False)
        if isinstance(typed, ResourceClaimTemplate):
            yield ResourceClaim(metadata=typed.metadata, spec=typed.spec.spec)
        elif isinstance(typed, ResourceClaim):
            yield typed
        else:
            raise InvalidInput("expected claims and templates only; a pod's claims are objects of their own")


def _devices(claim: ResourceClaim) -> Iterator[AllocatedDevice]:
    if claim.status.allocation is None:
        return
    classes = classes_by_request(claim)
    for one in claim.status.allocation.devices.results:
        device_class = classes.get(one.request, "")
        yield AllocatedDevice(one.driver, one.pool, one.device, one.request, device_class, bool(one.admin_access))
