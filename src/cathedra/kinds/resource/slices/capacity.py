"""Rules of how capacity may be asked for: request policies (docs/spec/api.md §3.7)."""

from __future__ import annotations

from typing import Final

from cathedra.api import resource
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.gates import FeatureGates
from cathedra.api.quantity import Quantity

__all__ = ["validate_policy"]

MAX_VALID_VALUES: Final = 10
_MILLI: Final = 10**6


def validate_policy(
    errors: ErrorList,
    path: FieldPath,
    policy: resource.CapacityRequestPolicy,
    value: Quantity,
    gates: FeatureGates,
) -> None:
    """What is wrong with a policy for a capacity of ``value``."""
    if policy.valid_values and policy.valid_range is not None:
        errors.forbidden(
            path,
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time',
        )
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
    if len(values) > MAX_VALID_VALUES:
        errors.too_many(path, len(values), MAX_VALID_VALUES)
    else:
        seen: set[int] = set()
        for position, item in enumerate(values):
            if item > value:
                errors.invalid(path.index(position), item, f"option is larger than capacity value: {value}")
            amount = item.nanos if gates["DRAFractionalCapacityRange"] else item.value()
            if amount in seen:
                errors.duplicate(path.index(position), str(item if gates["DRAFractionalCapacityRange"] else amount))
            seen.add(amount)
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
    newest = gates.at_least("1.37")
    if least is None:
        errors.required(path.child("min"), "required when validRange is defined")
        return
    if least > value:
        errors.invalid(path.child("min"), least, f"min is larger than capacity value: {value}")
    if default < least:
        where = path.child("default" if newest else "min")
        errors.invalid(where, default, f"default is less than min: {least}")
    if most is not None:
        if least > most:
            errors.invalid(path.child("max"), least, f"min is larger than max: {most}")
        if most > value:
            errors.invalid(path.child("max"), most, f"max is larger than capacity value: {value}")
        if default > most:
            where = path.child("default" if newest else "max")
            errors.invalid(where, default, f"default is more than max: {most}")
    if step is not None:
        _step(errors, path.child("step"), bounds, default, value, gates)


def _step(
    errors: ErrorList,
    path: FieldPath,
    bounds: resource.CapacityRequestPolicyRange,
    default: Quantity,
    value: Quantity,
    gates: FeatureGates,
) -> None:
    least, step = bounds.min, bounds.step
    if least is None or step is None:
        return
    if step.sign() == 0 or (gates.at_least("1.37") and step.sign() < 0):
        errors.invalid(path, step, "must be greater than zero")
        return
    if least + step > value:
        errors.invalid(path, step, f"one step {least + step} is larger than capacity value: {value}")
    for amount in (default, bounds.max):
        if amount is not None and _is_off_step(amount, least, step, gates):
            errors.invalid(path, amount, f"value is not a multiple of a given step ({step}) from ({least})")


def _is_off_step(amount: Quantity, least: Quantity, step: Quantity, gates: FeatureGates) -> bool:
    if gates["DRAFractionalCapacityRange"]:
        return (amount.nanos - least.nanos) % step.nanos != 0
    unit = step.value()
    return unit == 0 or (amount.value() - least.value()) % unit != 0
