"""Selectors of named resources: CEL over the attributes of one instance, a map for each type of value.

``attributes.quantity["memory"].isGreaterThan(quantity("16Gi"))`` (docs/spec/cel.md §11).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.cel import program
from cathedra.cel.checking import types
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.library.quantity import QuantityValue
from cathedra.cel.library.semver import Semver
from cathedra.cel.program import Program
from cathedra.remembering import remembered

__all__ = ["compile_selector", "matches"]

_TYPES: Final = {
    "quantity": types.QUANTITY,
    "bool": types.BOOL,
    "int": types.INT,
    "intslice": types.list_of(types.INT),
    "string": types.STRING,
    "stringslice": types.list_of(types.STRING),
    "version": types.SEMVER,
}
_LIMIT: Final = 1_000_000
"""Of the cost of one evaluation."""


@cache
def _environment() -> Environment:
    return Environment({f"attributes.{name}": types.map_of(types.STRING, kind) for name, kind in _TYPES.items()})


@remembered("classic.structured.selectors.compile_selector", size=4096)
def compile_selector(expression: str) -> Program:
    """The compiled selector.

    Raises:
        CompileError: it is refused, with Kubernetes' text.
    """
    compiled = program.compile_expression(expression, _environment())
    if compiled.type is not types.BOOL:
        raise CompileError("RuleInvalid", "must evaluate to bool")
    compiled.instantiate()
    return compiled


def matches(expression: str, instance: v1alpha2.NamedResourcesInstance) -> bool:
    """Whether the instance is selected.

    Raises:
        CompileError: the expression is refused.
        EvaluationError: it has no value for this instance, as for an attribute that it has not.
    """
    found = compile_selector(expression).evaluate(_variables(instance), _LIMIT)
    if found.error is not None:
        raise EvaluationError(found.error)
    return bool(found.value)


def _variables(instance: v1alpha2.NamedResourcesInstance) -> dict[str, dict[str, Any]]:
    maps: dict[str, dict[str, Any]] = {f"attributes.{name}": {} for name in _TYPES}
    for attribute in instance.attributes:
        kind, value = _value(attribute)
        maps[f"attributes.{kind}"][attribute.name] = value
    return maps


def _value(attribute: v1alpha2.NamedResourcesAttribute) -> tuple[str, Any]:
    if attribute.quantity is not None:
        return "quantity", QuantityValue.of(attribute.quantity)
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.int_slice is not None:
        return "intslice", list(attribute.int_slice.ints)
    if attribute.string_slice is not None:
        return "stringslice", list(attribute.string_slice.strings)
    if attribute.version is not None:
        return "version", Semver.parse(attribute.version)
    return "string", attribute.string or ""
