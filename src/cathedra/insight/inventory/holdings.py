"""Holdings: the devices of one class that one claim holds, for totals of use and for a history of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from cathedra.api.resource import ResourceClaim
from cathedra.kinds.resource.claims.usage import classes_by_request


class ClaimHolding(msgspec.Struct, frozen=True):
    """The devices of one class that a claim holds."""

    uid: str
    """UID of the claim."""
    namespace: str
    claim: str
    device_class: str
    driver: str
    node: str
    """"" if the devices can be used on several nodes."""
    devices: int
    since: float
    """Wall-clock time of the allocation, or of the first sight of it. Seconds."""


def holdings_of(claim: ResourceClaim, seen: float) -> Iterator[ClaimHolding]:
    """Yield the holdings of a claim. ``seen`` is the wall-clock time for allocations without one."""
    allocation = claim.status.allocation
    if allocation is None:
        return
    classes = classes_by_request(claim)
    # Admin access takes nothing from others.
    counted = Counter(
        (classes.get(one.request, ""), one.driver) for one in allocation.devices.results if not one.admin_access
    )
    since = allocation.allocation_timestamp.timestamp if allocation.allocation_timestamp else seen
    for (device_class, driver), devices in counted.items():
        metadata = claim.metadata
        node = _node(claim)
        yield ClaimHolding(metadata.uid, metadata.namespace, metadata.name, device_class, driver, node, devices, since)


def _node(claim: ResourceClaim) -> str:
    """Return the only node on which the claim can be used; "" if there are several."""
    allocation = claim.status.allocation
    selector = allocation.node_selector if allocation is not None else None
    for term in selector.node_selector_terms if selector is not None else ():
        for one in term.match_fields:
            if one.key == "metadata.name" and len(one.values) == 1:
                return one.values[0]
    return ""
