"""Rules of the amounts of a capacity or a counter that requests may take (docs/spec/api.md §3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import NANO, Quantity
from cathedra.releases import FeatureGates, behaviours

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
    """An amount without suffix, as the keys of a set of quantities are shown."""
    whole, rest = divmod(abs(nanos), NANO)
    fraction = f".{rest:09d}".rstrip("0").rstrip(".")
    return f"{'-' if nanos < 0 else ''}{whole}{fraction}"
