"""New allocations of which the rules are known to find nothing wrong, since they say what others said before.

The scheduler gives one claim of a template after the other a device of the same request, from a few drivers and pools.
All that the rules of a claim's status read of that is its form. What differs apart from that, the device and the
consumer, is looked at each time.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import Final

from cathedra.api import formats, resource
from cathedra.api.formats import problems_of
from cathedra.api.gates import FeatureGates
from cathedra.kinds.identity import KnownValues, by_identity

__all__ = ["allocation_form", "known_allocations"]

_said: Final = attrgetter(
    "request",
    "driver",
    "pool",
    "share_id",
    "tolerations",
    "binding_conditions",
    "binding_failure_conditions",
    "skip_node_operations",
)
"""What the rules read of a result beside its device and admin access."""


@by_identity
def known_allocations(_: resource.ResourceClaimSpec, __: FeatureGates) -> KnownValues:
    """The forms of allocations for a spec in which nothing was found wrong, with these gates."""
    return KnownValues()


def allocation_form(new: resource.ResourceClaim, old: resource.ResourceClaim, api_version: str) -> Hashable | None:
    """All that the rules read of a status, sent in a version, that gives a claim its allocation; None where they read
    more than that, or where something may be wrong with what differs from claim to claim."""
    status, before = new.status, old.status
    allocation = status.allocation
    if (
        allocation is None
        or allocation.devices.config
        or status.devices
        or before.allocation is not None
        or before.reserved_for
        or before.devices
        or new.spec is not old.spec
        or new.metadata.deletion_timestamp is not None
        or not _is_one_consumer(status.reserved_for)
    ):
        return None
    results = allocation.devices.results
    for result in results:
        if result.admin_access or problems_of(formats.dns_label, result.device):
            return None
    return api_version, tuple(map(_said, results)), allocation.node_selector


def _is_one_consumer(consumers: tuple[resource.ResourceClaimConsumerReference, ...]) -> bool:
    """Whether there is at most one consumer, of which nothing is left out."""
    if not consumers:
        return True
    first = consumers[0]
    return len(consumers) == 1 and bool(first.resource and first.name and first.uid)
