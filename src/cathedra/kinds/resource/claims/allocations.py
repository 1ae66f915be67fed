"""New allocations of which the rules are known to find nothing wrong, since they say what others said before.

The scheduler gives one claim of a template after the other a device of the same request. What the rules of a claim's
status read of that is its form. What differs from claim to claim is looked at each time: the node, the pool, the device
and the consumer.
"""

from __future__ import annotations

from collections.abc import Hashable
from operator import attrgetter
from typing import Final

from cathedra.api import formats, resource
from cathedra.api.core.core_v1 import NodeSelector
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import problems_of
from cathedra.api.gates import FeatureGates
from cathedra.kinds.identity import KnownValues, by_identity
from cathedra.kinds.nodeselectors import validate_node_selector

__all__ = ["allocation_form", "known_allocations"]

_said: Final = attrgetter(
    "request",
    "driver",
    "share_id",
    "tolerations",
    "binding_conditions",
    "binding_failure_conditions",
    "skip_node_operations",
)
"""What the rules read of a result beside its pool, its device and admin access."""
_SOUND_SELECTORS: Final = KnownValues()
"""Small selectors of nodes in which nothing was found wrong."""
_FEW: Final = 8
"""Results, and parts of a selector, up to which an allocation is remembered: thousands are, and none may be large."""


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
    if len(results) > _FEW:
        return None
    for result in results:
        # A pool may have several such names in it, with slashes between; few have.
        if (
            result.admin_access
            or problems_of(formats.dns_label, result.device)
            or problems_of(formats.dns_subdomain, result.pool)
        ):
            return None
    selector = allocation.node_selector
    if selector is not None and selector not in _SOUND_SELECTORS and not _is_sound(selector):
        return None
    return api_version, tuple(map(_said, results))


def _is_sound(selector: NodeSelector) -> bool:
    errors = ErrorList()
    validate_node_selector(errors, FieldPath(), selector)
    if not errors and _is_small(selector):
        _SOUND_SELECTORS.note(selector)
    return not errors


def _is_small(selector: NodeSelector) -> bool:
    terms = selector.node_selector_terms
    conditions = [one for term in terms for one in (*term.match_expressions, *term.match_fields)]
    return len(terms) + len(conditions) + sum(len(one.values) for one in conditions) <= _FEW


def _is_one_consumer(consumers: tuple[resource.ResourceClaimConsumerReference, ...]) -> bool:
    """Whether there is at most one consumer, of which nothing is left out."""
    if not consumers:
        return True
    first = consumers[0]
    return len(consumers) == 1 and bool(first.resource and first.name and first.uid)
