"""Attributes that a request computes from a device, for its constraints (docs/spec/allocation.md §10.5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from cathedra.allocation.errors import FatalError
from cathedra.allocation.features import Features
from cathedra.allocation.supply.caches import CacheSlot
from cathedra.allocation.supply.devices import DeviceRecord
from cathedra.api.resource import DeviceAttribute
from cathedra.cel.device import environment
from cathedra.cel.errors import CompileError
from cathedra.cel.library.semver import Semver
from cathedra.cel.program import Program, compile_expression
from cathedra.cel.selector import COST_LIMIT

__all__ = ["derive"]


DerivedKey: TypeAlias = tuple[str, bool, bool]
"""Expression, and the gates that decide what it may mention."""
Programs: TypeAlias = "dict[DerivedKey, Program | str]"
"""What was compiled, or why it cannot be."""
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
    """The value of ``expression`` on a device as an attribute; None for an empty list.

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
    # start-up time: CEL comes with the first expression
    from cathedra.allocation.checks.selectors import device_view

    program = programs.get(key)
    if program is None:
        program = programs[key] = _compile(expression, features)
    if isinstance(program, str):
        return "compile", program
    view = device_view(record.signature)
    if view.failure:
        return "evaluate", view.failure
    outcome = program.evaluate({"device": view.root}, COST_LIMIT, interrupted)
    if outcome.error is not None:
        return "evaluate", outcome.error
    return _attribute(outcome.value)


def _compile(expression: str, features: Features) -> Program | str:
    declared = environment(
        consumable_capacity=features.consumable_capacity, list_attributes=features.list_type_attributes, mode="stored"
    )
    try:
        return compile_expression(expression, declared)
    except CompileError as error:
        return error.text


def _attribute(value: Any) -> DeviceAttribute | tuple[str, str] | None:
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
