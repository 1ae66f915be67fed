"""LimitRanges: default, least and largest amounts of containers, pods and volumes.

The admission plugin LimitRanger (`cathedra.apiserver.admission.limitranger`) applies them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.core.resourcenames import (
    container_resource_problems,
    is_overcommittable,
    resource_name_problems,
)
from cathedra.kinds.definition import ResourceDefinition
from cathedra.kinds.strategies import ObjectRules

CONTAINER: Final = "Container"
POD: Final = "Pod"
VOLUME_CLAIM: Final = "PersistentVolumeClaim"
_TYPES: Final = frozenset({CONTAINER, POD, VOLUME_CLAIM})
_STORAGE: Final = "storage"
_ONE: Final = Quantity("1")

Amounts = Mapping[str, Quantity]


def default_limit_range(limits: core_v1.LimitRange) -> core_v1.LimitRange:
    """For containers the greatest limit is the default limit, and that, else the least request, the default request
    (SetDefaults_LimitRangeItem)."""
    items = tuple(_filled(item) if item.type == CONTAINER else item for item in limits.spec.limits or ())
    return replace(limits, spec=replace(limits.spec, limits=items or None))


def _filled(item: core_v1.LimitRangeItem) -> core_v1.LimitRangeItem:
    # Later entries win, so what the author wrote is kept. The default limit precedes the minimum as default request: a
    # container that states neither gets equal amounts and can be of the QoS class Guaranteed.
    default = {**item.max, **item.default}
    return replace(item, default=default, default_request={**item.min, **default, **item.default_request})


def validate_limit_range(limits: core_v1.LimitRange) -> ErrorList:
    """Require that types are known and named once, and the amounts of each resource are in order
    (ValidateLimitRange)."""
    errors = ErrorList()
    seen: set[str] = set()
    for position, item in enumerate(limits.spec.limits or ()):
        path = FieldPath("spec").child("limits").index(position)
        _check_type(errors, path.child("type"), item.type)
        if item.type in seen:
            errors.duplicate(path.child("type"), item.type)
        seen.add(item.type)
        _check_names(errors, path, item)
        if item.type == POD:
            for name, amounts in (("default", item.default), ("defaultRequest", item.default_request)):
                if amounts:
                    errors.forbidden(path.child(name), "may not be specified when `type` is 'Pod'")
        if item.type == VOLUME_CLAIM and _STORAGE not in item.min and _STORAGE not in item.max:
            why = "either minimum or maximum storage value is required, but neither was provided"
            errors.required(path.child("limits"), why)
        # Sorted, because Kubernetes' order is that of a Go map: two requests with the same faults must get the same
        # Status.
        names = {*item.max, *item.min, *item.default, *item.default_request, *item.max_limit_request_ratio}
        for name in sorted(names):
            _check_order(errors, path, item, name)
    return errors


def _check_type(errors: ErrorList, path: FieldPath, kind: str) -> None:
    problems = formats.label_key(kind)
    for problem in problems:
        errors.invalid(path, kind, problem)
    if not problems and "/" not in kind and kind not in _TYPES:
        errors.invalid(path, kind, "must be a standard limit type or fully qualified")


def _check_names(errors: ErrorList, path: FieldPath, item: core_v1.LimitRangeItem) -> None:
    """Check the names of the resources in each of the fields."""
    problems = container_resource_problems if item.type in (POD, CONTAINER) else resource_name_problems
    for field, amounts in _FIELDS.items():
        if item.type == POD and field.startswith("default"):
            continue
        for name in sorted(amounts(item)):
            for problem in problems(name):
                errors.invalid(path.child(field).key(name), name, problem)


def _check_order(errors: ErrorList, path: FieldPath, item: core_v1.LimitRangeItem, name: str) -> None:
    least, most = item.min.get(name), item.max.get(name)
    default, request = item.default.get(name), item.default_request.get(name)

    def key(field: str) -> FieldPath:
        return path.child(field).key(name)

    def beyond(low: Quantity | None, high: Quantity | None) -> bool:
        return low is not None and high is not None and high < low

    for field, amounts in _FIELDS.items():
        amount = amounts(item).get(name)
        if amount is not None and amount.sign() < 0:
            errors.invalid(key(field), str(amount), "must be greater than or equal to 0")
    if beyond(least, most):
        errors.invalid(key("min"), str(least), f"min value {least} is greater than max value {most}")
    if beyond(least, request):
        why = f"min value {least} is greater than default request value {request}"
        errors.invalid(key("defaultRequest"), str(request), why)
    if beyond(request, most):
        why = f"default request value {request} is greater than max value {most}"
        errors.invalid(key("defaultRequest"), str(request), why)
    if beyond(request, default):
        why = f"default request value {request} is greater than default limit value {default}"
        errors.invalid(key("defaultRequest"), str(request), why)
    if beyond(least, default):
        errors.invalid(key("default"), str(least), f"min value {least} is greater than default value {default}")
    if beyond(default, most):
        errors.invalid(key("default"), str(most), f"default value {default} is greater than max value {most}")
    ratio = item.max_limit_request_ratio.get(name)
    if ratio is not None:
        _check_ratio(errors, key("maxLimitRequestRatio"), ratio, least, most)
    # Huge pages and extended resources cannot be overcommitted. A range with two different defaults would produce pods
    # that validation of their containers then refuses.
    if not is_overcommittable(name) and default is not None and request is not None and default != request:
        why = f"default value {default} must equal to defaultRequest value {request} in {name}"
        errors.invalid(key("defaultRequest"), str(request), why)


def _check_ratio(
    errors: ErrorList, path: FieldPath, ratio: Quantity, least: Quantity | None, most: Quantity | None
) -> None:
    if ratio < _ONE:
        errors.invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    # Kubernetes compares these two as float64 and prints the quotient, so an exact division would differ in the text. A
    # zero minimum is skipped: the quotient is undefined and every ratio is permitted.
    if least and most is not None and ratio.nanos / 10**9 > (widest := most.nanos / least.nanos):
        errors.invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {widest:f}")


_FIELDS: Final[Mapping[str, Callable[[core_v1.LimitRangeItem], Amounts]]] = {
    "max": lambda item: item.max,
    "min": lambda item: item.min,
    "default": lambda item: item.default,
    "defaultRequest": lambda item: item.default_request,
    "maxLimitRequestRatio": lambda item: item.max_limit_request_ratio,
}


def limit_range_definition() -> ResourceDefinition[core_v1.LimitRange]:
    """Return the definition of limitranges."""
    return BuiltinKind(
        core_v1.LimitRange,
        "limitranges",
        namespaced=True,
        default=default_limit_range,
        rules=ObjectRules(validate_limit_range, lambda new, old: validate_limit_range(new)),
        short_names=("limits",),
        created_by_update=True,
    ).definition()
