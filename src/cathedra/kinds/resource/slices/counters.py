"""Rules of counters: what sets hold, and what devices draw from them (docs/spec/api.md §1.7, §3.6, §D).

Until 1.34 a set lay in the same slice as its devices, so references could be checked and limits held for the slice as a
whole; since 1.35 sets have slices of their own and each set and each consumption has its limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from cathedra.api import formats, resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check, unique
from cathedra.api.quantity import NANO, Quantity
from cathedra.kinds.resource.names import validate_qualified_name
from cathedra.releases import FeatureGates, behaviours

MAX_SETS: Final = 8
MAX_CONSUMPTIONS: Final = 2
MAX_GROUPS: Final = 2
MAX_COUNTERS: Final = 32
MAX_COUNTERS_OF_SLICE: Final = 1024


def validate_counter_sets(
    errors: ErrorList, path: FieldPath, sets: Sequence[resource.CounterSet], gates: FeatureGates
) -> None:
    """Validate the sets of a slice."""
    newer = gates.has(behaviours.COUNTER_LISTS_LIMITED)
    if newer and len(sets) > MAX_SETS:
        # The limit ends validation of the list: each of the sets could otherwise add 32 errors to the Status.
        errors.too_many(path, len(sets), MAX_SETS)
        return
    # Until 1.34 the number of counters in all sets was limited instead of the number of sets.
    total = sum(len(counters.counters) for counters in sets)
    if not newer and total > MAX_COUNTERS:
        errors.invalid(path, total, f"the total number of counters must not exceed {MAX_COUNTERS}")
    for position, counters in enumerate(sets):
        where = path.index(position)
        _set_name(errors, where.child("name"), counters.name)
        _counters(errors, where.child("counters"), counters.counters, gates)
        # Sorted, because the order of Go's maps is random and the recorded answers compare errors in order.
        for name, counter in sorted(counters.counters.items()):
            _shared(errors, where.child("counters").key(name), counter, gates)
    unique(errors, path, [counters.name for counters in sets])


def validate_consumptions(
    errors: ErrorList, path: FieldPath, consumptions: Sequence[resource.DeviceCounterConsumption], gates: FeatureGates
) -> None:
    """Validate the counters that one device consumes."""
    if gates.has(behaviours.COUNTER_LISTS_LIMITED) and len(consumptions) > MAX_CONSUMPTIONS:
        errors.too_many(path, len(consumptions), MAX_CONSUMPTIONS)
        return
    for position, consumption in enumerate(consumptions):
        where = path.index(position)
        _set_name(errors, where.child("counterSet"), consumption.counter_set)
        _counters(errors, where.child("counters"), consumption.counters, gates)
        for name, counter in sorted(consumption.counters.items()):
            _taken(errors, where.child("counters").key(name), counter, gates)
        _groups(errors, where.child("compatibilityGroups"), consumption.compatibility_groups)
    unique(errors, path, [consumption.counter_set for consumption in consumptions])


def validate_consumed(errors: ErrorList, path: FieldPath, consumed: Sequence[resource.CounterSetConsumption]) -> None:
    """Validate the consumption of counters by an allocation, which is at most that of the device."""
    if len(consumed) > MAX_CONSUMPTIONS:
        errors.too_many(path, len(consumed), MAX_CONSUMPTIONS)
        return
    for position, one in enumerate(consumed):
        where = path.index(position)
        _set_name(errors, where.child("counterSet"), one.counter_set)
        _names(errors, where.child("counters"), one.counters, at_map=True)
    unique(errors, path, [one.counter_set for one in consumed])


def _shared(errors: ErrorList, path: FieldPath, counter: resource.Counter, gates: FeatureGates) -> None:
    """Validate a counter of a set: its amount, and how requests may take of it."""
    if counter.value is None:
        errors.required(path.child("value"))
    if counter.value_from is not None:
        errors.forbidden(path.child("valueFrom"), "may only be set in `consumesCounters`")
    if counter.request_policy is not None:
        validate_policy(errors, path.child("requestPolicy"), counter.request_policy, counter.amount, gates)


def _taken(errors: ErrorList, path: FieldPath, counter: resource.Counter, gates: FeatureGates) -> None:
    """Validate the consumption of a counter by a device: a fixed amount, or that of a requested capacity."""
    if counter.request_policy is not None:
        errors.forbidden(path.child("requestPolicy"), "may only be set in `sharedCounters`")
    given = [name for name, value in (("value", counter.value), ("valueFrom", counter.value_from)) if value is not None]
    if len(given) != 1:
        shown = ", ".join(f"`{name}`" for name in given)
        errors.invalid(path, f"{{{shown}}}" if given else "", "must specify exactly one of: `value`, `valueFrom`")
    if counter.value_from is not None:
        where = path.child("valueFrom", "capacityName")
        if not counter.value_from.capacity_name:
            errors.required(where)
        else:
            validate_qualified_name(errors, where, counter.value_from.capacity_name, gates)


def _set_name(errors: ErrorList, path: FieldPath, name: str) -> None:
    if not name:
        errors.required(path)
    else:
        check(errors, path, name, formats.dns_label)


def _counters(
    errors: ErrorList, path: FieldPath, counters: Mapping[str, resource.Counter], gates: FeatureGates
) -> None:
    _names(errors, path, counters, at_map=gates.has(behaviours.COUNTER_NAME_ERRORS_AT_MAP))


def _names(errors: ErrorList, path: FieldPath, counters: Mapping[str, object], *, at_map: bool) -> None:
    """Named counters: at least one, at most 32."""
    if not counters:
        errors.required(path)
        return
    if len(counters) > MAX_COUNTERS:
        errors.too_many(path, len(counters), MAX_COUNTERS)
        return
    for name in sorted(counters):
        check(errors, path if at_map else path.key(name), name, formats.dns_label)


def _groups(errors: ErrorList, path: FieldPath, groups: tuple[str, ...]) -> None:
    if len(groups) > MAX_GROUPS:
        errors.too_many(path, len(groups), MAX_GROUPS)
        return
    for position, group in enumerate(groups):
        check(errors, path.index(position), group, formats.dns_label)
    unique(errors, path, groups)


def validate_references(errors: ErrorList, path: FieldPath, spec: resource.ResourceSliceSpec) -> None:
    """Up to 1.34: devices draw from counters of their own slice, and not from too many."""
    known = {counters.name: counters.counters for counters in spec.shared_counters}
    total = 0
    for position, device in enumerate(spec.devices):
        drawn = sum(len(consumption.counters) for consumption in device.consumes_counters)
        total += drawn
        if drawn > MAX_COUNTERS:
            errors.invalid(path.index(position), drawn, f"the total number of counters must not exceed {MAX_COUNTERS}")
        for number, consumption in enumerate(device.consumes_counters):
            where = path.index(position).child("consumesCounters").index(number)
            counters = known.get(consumption.counter_set)
            # The counters of an unknown set are unknown, too. Kubernetes reports the set alone.
            if counters is None:
                text = "must reference a counterSet defined in the ResourceSlice sharedCounters"
                errors.invalid(where.child("counterSet"), consumption.counter_set, text)
                continue
            for name in sorted(consumption.counters):
                if name not in counters:
                    text = "must reference a counter defined in the ResourceSlice sharedCounters"
                    errors.invalid(where.child("counters"), name, text)
    if total > MAX_COUNTERS_OF_SLICE:
        errors.invalid(path, total, f"the total number of counters must not exceed {MAX_COUNTERS_OF_SLICE}")


MAX_VALID_VALUES: Final = 10
_MILLI: Final = 10**6
"""Nano-units of a thousandth."""
_MAX_INT64: Final = 2**63 - 1


def validate_policy(
    errors: ErrorList,
    path: FieldPath,
    policy: resource.CapacityRequestPolicy,
    value: Quantity,
    gates: FeatureGates,
) -> None:
    """Return the errors of a policy for a capacity of ``value``."""
    if policy.valid_values and policy.valid_range is not None:
        errors.forbidden(
            path,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time',
        )
        # Which of the two policies holds is open, so checks of either would report errors of a policy that is not
        # meant.
        return
    if policy.valid_values:
        if policy.default is None:
            errors.required(path.child("default"), "required when validValues is defined")
        else:
            _values(errors, path.child("validValues"), policy, policy.default, value, gates)
    elif policy.valid_range is not None:
        if policy.default is None:
            errors.required(path.child("default"), "required when validRange is defined")
        else:
            _range(errors, path.child("validRange"), policy.valid_range, policy.default, value, gates)


def _values(
    errors: ErrorList,
    path: FieldPath,
    policy: resource.CapacityRequestPolicy,
    default: Quantity,
    value: Quantity,
    gates: FeatureGates,
) -> None:
    values = policy.valid_values
    for position in range(1, len(values)):
        if values[position] < values[position - 1]:
            errors.invalid(path.index(position), values[position], "values must be sorted in ascending order")
    # Beyond the limit the values are not examined one by one: the answer would grow with the request.
    if len(values) > MAX_VALID_VALUES:
        errors.too_many(path, len(values), MAX_VALID_VALUES)
    else:
        for position, item in enumerate(values):
            if item > value:
                errors.invalid(path.index(position), item, f"option is larger than capacity value: {value}")
        seen: set[int] = set()
        for position, item in enumerate(values):
            # Without the gate Kubernetes compares whole numbers, rounded up: 0.1 and 0.9 are duplicates.
            amount = item.nanos if gates["DRAFractionalCapacityRange"] else item.value()
            if amount in seen:
                shown = _decimal(amount) if gates["DRAFractionalCapacityRange"] else str(amount)
                errors.duplicate(path.index(position), shown)
            seen.add(amount)
    # Compared by amount and not by text: "1" is among the values if "1000m" is.
    if default not in values:
        errors.invalid(path, default, "default value is not valid according to the requestPolicy")


def _range(
    errors: ErrorList,
    path: FieldPath,
    bounds: resource.CapacityRequestPolicyRange,
    default: Quantity,
    value: Quantity,
    gates: FeatureGates,
) -> None:
    least, most, step = bounds.min, bounds.max, bounds.step
    strict = gates.has(behaviours.CAPACITY_RANGE_STRICT)
    if least is None:
        errors.required(path.child("min"), "required when validRange is defined")
        return
    if least > value:
        errors.invalid(path.child("min"), least, f"min is larger than capacity value: {value}")
    if default < least:
        where = path.child("default" if strict else "min")
        errors.invalid(where, default, f"default is less than min: {least}")
    if most is not None:
        if least > most:
            # Kubernetes reports the least as the bad value, at the path of the greatest.
            errors.invalid(path.child("max"), least, f"min is larger than max: {most}")
        if most > value:
            errors.invalid(path.child("max"), most, f"max is larger than capacity value: {value}")
        if default > most:
            where = path.child("default" if strict else "max")
            errors.invalid(where, default, f"default is more than max: {most}")
    fractional = gates["DRAFractionalCapacityRange"] and any(
        amount is not None and amount.nanos % NANO for amount in (least, most, step, default)
    )
    # Kubernetes calculates in thousandths if any amount is a fraction. One that does not fit ends the checks of steps.
    if fractional and _unfit(errors, path, bounds, default, _in_thousandths):
        return
    if step is not None:
        _step(errors, path, _Steps(bounds, least, step, default, fractional=fractional), value, gates)


def _unfit(
    errors: ErrorList,
    path: FieldPath,
    bounds: resource.CapacityRequestPolicyRange,
    default: Quantity,
    problem: Callable[[Quantity], str],
) -> bool:
    """Enter an error for each amount that the arithmetic of steps cannot represent. Return True if there is one."""
    named = (("default", default), ("min", bounds.min), ("max", bounds.max), ("step", bounds.step))
    found = [(name, amount, text) for name, amount in named if amount is not None and (text := problem(amount))]
    for name, amount, text in found:
        errors.invalid(path.child(name), amount, text)
    return bool(found)


def _in_thousandths(amount: Quantity) -> str:
    if amount.nanos % _MILLI or not -(2**63) <= amount.nanos // _MILLI < 2**63:
        return "value cannot be represented as a milli value"
    return ""


def _in_int64(amount: Quantity) -> str:
    if amount.sign() < 0:
        return "must be greater than or equal to 0"
    return f"must not be larger than {_MAX_INT64}" if amount.nanos > _MAX_INT64 * NANO else ""


class _Steps(NamedTuple):
    """Amounts that a range of capacity permits: ``least``, and each ``step`` above it."""

    bounds: resource.CapacityRequestPolicyRange
    least: Quantity
    step: Quantity
    default: Quantity
    fractional: bool

    def contain(self, amount: Quantity) -> bool:
        """Return True if the amount is a whole number of steps above the least."""
        if self.fractional:
            return (amount.nanos - self.least.nanos) % self.step.nanos == 0
        # Whole numbers, rounded up, as Kubernetes' Value(): a step below 1 counts as 1.
        unit = self.step.value()
        # Whether both amounts are rounded first matters: rounding only the difference would accept other values than
        # Kubernetes.
        return unit != 0 and (amount.value() - self.least.value()) % unit == 0


def _step(errors: ErrorList, path: FieldPath, steps: _Steps, value: Quantity, gates: FeatureGates) -> None:
    least, step = steps.least, steps.step
    strict, where = gates.has(behaviours.CAPACITY_RANGE_STRICT), path.child("step")
    # Zero steps would divide by zero below, and in the allocator's rounding of requests as well.
    if step.sign() == 0 or (strict and step.sign() < 0):
        errors.invalid(where, step, "must be greater than zero")
        return
    if least + step > value:
        errors.invalid(where, step, f"one step {least + step} is larger than capacity value: {value}")
    # Later releases refuse amounts whose multiples Go cannot calculate; earlier ones overflow silently.
    if strict and not steps.fractional and _unfit(errors, path, steps.bounds, steps.default, _in_int64):
        return
    for amount in (steps.default, steps.bounds.max):
        if amount is not None and not steps.contain(amount):
            errors.invalid(where, amount, f"value is not a multiple of a given step ({step}) from ({least})")


def _decimal(nanos: int) -> str:
    """Return an amount without suffix, as the keys of a set of quantities are shown."""
    whole, rest = divmod(abs(nanos), NANO)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{'-' if nanos < 0 else ''}{whole}{fraction}"
