"""Capacity that a request consumes of a device (docs/spec/allocation.md §12).

The amounts depend on the request and the device alone, not on what else is in use. They are therefore computed once per
signature, and the search only adds and compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import Signature
from cathedra.allocation.supply.ledger import qualified
from cathedra.api.quantity import NANO, Format, Quantity
from cathedra.api.resource import CapacityRequestPolicy, CapacityRequestPolicyRange, Counter, DeviceCapacity

_INT64: Final = 2**63 - 1
_MILLI: Final = 10**6


class CapacityUsage(msgspec.Struct, frozen=True):
    """Capacity that one allocation consumes: for each capacity its name as written, its full name, amount and limit
    (nano-units)."""

    names: tuple[str, ...]
    full_names: tuple[str, ...]
    amounts: tuple[Quantity, ...]
    limits: tuple[int, ...]

    @property
    def fits_alone(self) -> bool:
        """Return True if the capacity of an unused device suffices."""
        return all(amount.nanos <= limit for amount, limit in zip(self.amounts, self.limits, strict=True))

    def fits(self, used: Mapping[str, int]) -> bool:
        """Return True if the capacity suffices beside what is ``used`` already (nano-units by full name)."""
        for name, amount, limit in zip(self.full_names, self.amounts, self.limits, strict=True):
            if used.get(name, 0) + amount.nanos > limit:
                return False
        return True


class Unusable(msgspec.Struct, frozen=True):
    """Result for a device that cannot serve the request: it lacks a capacity, or its policy forbids the amount.

    ``error`` is empty, or the reason why the pod cannot be scheduled at all.
    """

    reason: str
    error: str = ""


_USAGES: Final[CacheSlot[dict[tuple[object, bool, str], CapacityUsage | Unusable]]] = CacheSlot("capacity usage", dict)


def usage(
    signature: Signature, requests: Mapping[str, Quantity] | None, key: object, features: Features
) -> CapacityUsage | Unusable:
    """Return the consumption of a request for ``requests`` on devices of a signature; ``key`` stands for ``requests``
    in the cache."""
    cache = signature.caches.of(_USAGES)
    cache_key = (key, features.fractional_capacity_range, features.behaviour.name)
    # Kept with the signature, so the results vanish with the last device that has it.
    found = cache.get(cache_key)
    if found is None:
        found = cache[cache_key] = _usage(signature, requests or {}, features)
    return found


def _usage(signature: Signature, requests: Mapping[str, Quantity], features: Features) -> CapacityUsage | Unusable:
    capacities = _capacities(signature)
    wanted = _wanted(signature, requests, features)
    if isinstance(wanted, Unusable):
        return wanted
    amounts: dict[str, Quantity] = {}
    # Capacities that the request does not name are consumed, too: by their policy's default, or as a whole.
    for name, capacity in capacities.items():
        amount = _consumed(wanted.get(name), capacity, features)
        if isinstance(amount, str):
            return Unusable("cannot be computed", f'capacity "{name}": {amount}')
        amounts[name] = amount
    for name, capacity in capacities.items():
        if capacity.request_policy is not None and _violates(amounts[name], capacity.request_policy, features):
            return Unusable(f"request policy of {name}")
    return CapacityUsage(
        tuple(capacities),
        tuple(qualified(name, signature.driver) for name in capacities),
        tuple(amounts.values()),
        tuple(capacity.value.nanos for capacity in capacities.values()),
    )


def policy_amount(name: str, requested: Quantity | None, counter: Counter, features: Features) -> Quantity | Unusable:
    """Return the amount that a request takes of a counter, rounded by its policy as that of a capacity."""
    capacity = DeviceCapacity(value=counter.amount, request_policy=counter.request_policy)
    amount = _consumed(requested, capacity, features)
    if isinstance(amount, str):
        return Unusable("cannot be computed", f"{name}: {amount}")
    if counter.request_policy is not None and _violates(amount, counter.request_policy, features):
        return Unusable(f"request policy of {name}")
    return amount


def _capacities(signature: Signature) -> dict[str, DeviceCapacity]:
    """Return the capacities as written; if a slice has one twice, the qualified name wins."""
    given = signature.capacity
    return {name: given[name] for name in given if "/" in name or f"{signature.driver}/{name}" not in given}


def _wanted(
    signature: Signature, requests: Mapping[str, Quantity], features: Features
) -> dict[str, Quantity] | Unusable:
    """Requested amounts by the names that the slice uses."""
    capacities = _capacities(signature)
    if not features.behaviour.capacity_names_are_qualified:
        for name in requests:
            if name not in signature.capacity:
                return Unusable(f"no capacity {name}")
        return dict(requests)
    spelled = {qualified(name, signature.driver): name for name in capacities}
    wanted: dict[str, Quantity] = {}
    # Plain names first, so that a qualified name of the same capacity overrides it.
    for name, amount in sorted(requests.items(), key=lambda item: "/" in item[0]):
        full = qualified(name, signature.driver)
        if full not in spelled:
            return Unusable(f"no capacity {name}")
        wanted[spelled[full]] = amount
    return wanted


def _consumed(requested: Quantity | None, capacity: DeviceCapacity, features: Features) -> Quantity | str:
    """Return the amount consumed of one capacity, or the text of an error."""
    policy = capacity.request_policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if policy is None:
        return requested
    if policy.valid_range is not None and policy.valid_range.min is not None:
        return _in_range(requested, policy.valid_range, features)
    if policy.valid_values:
        # Rounded up to the next valid value. A request beyond the last one stays as it is, and violates the policy
        # later.
        return next((value for value in policy.valid_values if value >= requested), requested)
    return requested


def _in_range(requested: Quantity, limits: CapacityRequestPolicyRange, features: Features) -> Quantity | str:
    low, step = limits.min, limits.step
    assert low is not None
    if requested < low:
        return low
    if step is None:
        return requested
    unit = _unit(limits, features)
    if unit == _MILLI and requested.nanos % _MILLI:
        return f"capacity request cannot be represented in the device's range arithmetic: {requested}"
    first, wanted, size = (_units(amount, unit) for amount in (low, requested, step))
    if size == 0:
        return requested
    # Rounded up in exact integers. Kubernetes does this in int64, therefore the bound below.
    result = first + -(-(wanted - first) // size) * size
    # Go would overflow silently before this check existed. Allocating such an amount could consume less than was
    # requested.
    if any(abs(number) > _INT64 for number in (first, wanted, size, result)):
        return f"capacity request cannot be represented in the device's range arithmetic: {requested}"
    if result < 0 and features.behaviour.negative_capacity_is_fatal:
        return "capacity value is negative"
    form = step.format if unit == _MILLI else Format.BINARY_SI
    return Quantity.of_nanos(result * unit, form)


def _unit(limits: CapacityRequestPolicyRange, features: Features) -> int:
    """Nano-units of the arithmetic: thousandths where some limit is no whole number and all are exact in them, else
    whole numbers."""
    if not features.fractional_capacity_range or limits.step is None or limits.step.nanos < _MILLI:
        return NANO
    parts = [amount for amount in (limits.min, limits.max, limits.step) if amount is not None]
    if all(amount.nanos % NANO == 0 for amount in parts):
        return NANO
    exact = all(amount.nanos % _MILLI == 0 and abs(amount.nanos // _MILLI) <= _INT64 for amount in parts)
    return _MILLI if exact else NANO


def _units(amount: Quantity, unit: int) -> int:
    return amount.value() if unit == NANO else amount.nanos // unit


def _violates(amount: Quantity, policy: CapacityRequestPolicy, features: Features) -> bool:
    # The default is valid by itself, even between two steps. Kubernetes compares the format as well.
    if policy.default is not None and amount == policy.default and amount.format == policy.default.format:
        return False
    limits = policy.valid_range
    if limits is not None:
        if limits.max is not None and amount > limits.max:
            return True
        return limits.step is not None and _is_between_steps(amount, limits, limits.step, features)
    return bool(policy.valid_values) and amount not in policy.valid_values


def _is_between_steps(amount: Quantity, limits: CapacityRequestPolicyRange, step: Quantity, features: Features) -> bool:
    """Steps are counted as they are when amounts are rounded: in whole numbers, unless thousandths are enabled."""
    unit = _unit(limits, features)
    size = _units(step, unit)
    first = _units(limits.min, unit) if limits.min is not None else 0
    return size != 0 and (_units(amount, unit) - first) % size != 0
