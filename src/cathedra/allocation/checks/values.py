"""Attribute values as constraints compare them (docs/spec/allocation.md §10).

A value is a pair: the type, and something hashable that is equal exactly when Kubernetes calls the values equal. With
lists on it is a set; without, a single value. None means: missing, or of no known type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import DeviceRecord, Signature
from cathedra.api.resource import DeviceAttribute

if TYPE_CHECKING:
    from cathedra.cel.program import Program

Value: TypeAlias = tuple[str, object]

_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


_VALUES: Final[CacheSlot[dict[tuple[str, bool, str, bool], Value | None]]] = CacheSlot("constraint values", dict)


def constraint_value(signature: Signature, name: str, features: Features, *, distinct: bool) -> Value | None:
    """Return the value of the attribute ``name`` in the form that constraints compare; computed once per signature.

    Only matchAttribute compares versions by precedence; distinctAttribute compares their texts (``distinct``).
    """
    cache = signature.caches.of(_VALUES)
    key = (name, features.list_type_attributes, features.behaviour.name, distinct)
    if key not in cache:
        attribute = signature.attribute(name)
        value = None if attribute is None else scalar_or_set(attribute, features, distinct=distinct)
        if value is None and attribute is not None and features.behaviour.unknown_value_may_come_first:
            value = None if features.list_type_attributes else ("unknown", None)
        cache[key] = value
    return cache[key]


def scalar_or_set(attribute: DeviceAttribute, features: Features, *, distinct: bool) -> Value | None:
    """Return the comparable form of an attribute's value; None if it has none."""
    scalar = _scalar(attribute)
    if features.list_type_attributes:
        if scalar is not None:
            return scalar[0], frozenset((scalar[1],))
        return _list(attribute)
    if scalar is None:
        return None
    kind, value = scalar
    if kind == "version" and not distinct and features.behaviour.versions_match_by_precedence:
        return kind, _precedence(str(value))
    return kind, value


def _scalar(attribute: DeviceAttribute) -> Value | None:
    for kind, value in (
        ("int", attribute.int_),
        ("bool", attribute.bool_),
        ("string", attribute.string),
        ("version", attribute.version),
    ):
        if value is not None:
            return kind, value
    return None


def _list(attribute: DeviceAttribute) -> Value | None:
    for kind, values in (
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("string", attribute.strings),
        ("version", attribute.versions),
    ):
        if values:
            return kind, frozenset(values)
    return None


def _precedence(version: str) -> object:
    """Return the parts of a version that semantic versioning compares: all but the build metadata."""
    shape = _SEMVER.fullmatch(version)
    return shape.group(1, 2, 3, 4) if shape else version


# --- derived attributes


DerivedKey: TypeAlias = tuple[str, bool, bool]
"""Expression, and the gates that decide which fields it may read."""
Programs: TypeAlias = "dict[DerivedKey, Program | str]"
"""Compiled programs, or the error of those that do not compile."""
PROGRAMS: Final[CacheSlot[Programs]] = CacheSlot("derived attributes: programs", dict)
_DERIVED: Final[CacheSlot[dict[DerivedKey, DeviceAttribute | tuple[str, str] | None]]] = CacheSlot(
    "derived attributes", dict
)


def derive(
    name: str,
    expression: str,
    record: DeviceRecord,
    features: Features,
    programs: Programs,
    interrupted: Callable[[], bool] | None = None,
) -> DeviceAttribute | None:
    """Return the value of ``expression`` on a device as an attribute; None for an empty list.

    ``programs`` keeps what was compiled; the value is kept per signature. An exception that ``interrupted`` raises ends
    the evaluation.

    Raises:
        FatalError: it does not compile, fails on the device, or gives no attribute.
    """
    cache = record.signature.caches.of(_DERIVED)
    key = (expression, features.consumable_capacity, features.list_type_attributes)
    if key not in cache:
        cache[key] = _evaluate(expression, record, features, programs, key, interrupted)
    found = cache[key]
    if isinstance(found, DeviceAttribute) or found is None:
        return found
    kind, text = found
    if kind == "compile":
        raise FatalError(f"compile derived attribute {name} failed: {text}")
    raise FatalError(f"evaluate derived attribute {name} on device {record} failed: {text}")


def _evaluate(
    expression: str,
    record: DeviceRecord,
    features: Features,
    programs: Programs,
    key: DerivedKey,
    interrupted: Callable[[], bool] | None,
) -> DeviceAttribute | tuple[str, str] | None:
    # start-up time: CEL is imported with the first expression
    from cathedra.allocation.checks.selectors import cel_device
    from cathedra.cel.selector import COST_LIMIT

    program = programs.get(key)
    if program is None:
        program = programs[key] = _compile(expression, features)
    if isinstance(program, str):
        return "compile", program
    supply = cel_device(record.signature)
    if supply.failure:
        return "evaluate", supply.failure
    outcome = program.evaluate({"device": supply.root}, COST_LIMIT, interrupted)
    if outcome.error is not None:
        return "evaluate", outcome.error
    return _attribute(outcome.value)


def _compile(expression: str, features: Features) -> Program | str:
    # as above
    from cathedra.cel.device import environment
    from cathedra.cel.errors import CompileError
    from cathedra.cel.program import compile_expression

    declared = environment(
        consumable_capacity=features.consumable_capacity, list_attributes=features.list_type_attributes, mode="stored"
    )
    try:
        return compile_expression(expression, declared)
    except CompileError as error:
        return error.text


def _attribute(value: Any) -> DeviceAttribute | tuple[str, str] | None:
    # as above
    from cathedra.cel.library.semver import Semver

    match value:
        case bool():
            return DeviceAttribute(bool_=value)
        case int():
            return DeviceAttribute(int_=int(value))
        case str():
            return DeviceAttribute(string=value)
        case Semver():
            return DeviceAttribute(version=str(value))
        case []:
            return None
        case [bool(), *_]:
            return DeviceAttribute(bools=tuple(value))
        case [int(), *_]:
            return DeviceAttribute(ints=tuple(int(one) for one in value))
        case [str(), *_]:
            return DeviceAttribute(strings=tuple(value))
        case [Semver(), *_]:
            return DeviceAttribute(versions=tuple(str(one) for one in value))
    return "evaluate", "unsupported result type"
