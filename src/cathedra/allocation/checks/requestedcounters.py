"""Shared counters of which a device takes the amount that the request consumes of a capacity (KEP-5941).

A device names the capacity in ``valueFrom``; the policy and the whole amount stand in the counter set. Unlike a fixed
value, which a device takes once, each allocation of a shared device takes the amount of its own request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from cathedra.allocation.checks.capacity import Unusable, policy_amount
from cathedra.allocation.features import Features
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.allocation.supply.ledger import qualified
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Counter, CounterSetConsumption

Drawn: TypeAlias = dict[tuple[str, str], Quantity]
"""Counter set and counter → the amount that one allocation takes."""

_NOTHING: Final[Drawn] = {}
_LEAST: Final = Quantity("1n")


def mapped_capacities(record: DeviceRecord) -> frozenset[str]:
    """Return the full names of the capacities that the device's counters are taken by."""
    return frozenset(
        qualified(counter.value_from.capacity_name, record.id[0])
        for consumption in record.device.consumes_counters
        for counter in consumption.counters.values()
        if counter.value_from is not None
    )


def drawn(
    record: DeviceRecord,
    definitions: Mapping[tuple[str, str], Counter],
    requests: Mapping[str, Quantity] | None,
    features: Features,
) -> Drawn | Unusable:
    """Return what an allocation of the device for ``requests`` takes of the counters in ``definitions``."""
    if not features.shared_consumable_capacity:
        return _NOTHING
    amounts: Drawn = {}
    wanted: dict[str, Quantity] | None = None
    for consumption in record.device.consumes_counters:
        for name, counter in consumption.counters.items():
            if counter.value_from is None:
                continue
            if wanted is None:
                wanted = {qualified(key, record.id[0]): amount for key, amount in (requests or {}).items()}
            place = (consumption.counter_set, name)
            asked = wanted.get(qualified(counter.value_from.capacity_name, record.id[0]))
            amount = policy_amount(f"counter {name}", asked, definitions[place], features)
            if isinstance(amount, Unusable):
                return amount
            amounts[place] = amount
    return amounts


def consumptions(amounts: Drawn) -> tuple[CounterSetConsumption, ...]:
    """Return the amounts as an allocation result lists them."""
    sets: dict[str, dict[str, Quantity]] = {}
    for (counter_set, name), amount in sorted(amounts.items()):
        sets.setdefault(counter_set, {})[name] = amount
    return tuple(CounterSetConsumption(counter_set, counters) for counter_set, counters in sets.items())


def least_drawn(definition: Counter) -> Quantity:
    """Return the smallest amount that a request can take of a counter, by the policy of the counter.

    Without limits it is the smallest amount that there is: a device cannot be had of a counter with nothing left.
    """
    policy = definition.request_policy
    if policy is not None and policy.valid_values:
        return min(policy.valid_values)
    if policy is not None and policy.valid_range is not None and policy.valid_range.min is not None:
        return policy.valid_range.min
    return _LEAST
