"""CEL for validation: the API layer knows the rules, this module knows the compiler, and the server brings them
together (docs/spec/api.md §3.4)."""

from __future__ import annotations

from typing import Final

from cathedra.api.boundedcache import BoundedCache
from cathedra.api.field import ErrorType
from cathedra.kinds.definition import ExpressionFault
from cathedra.releases import FeatureGates

_TYPES: Final = {
    "FieldValueInvalid": ErrorType.INVALID,
    "FieldValueForbidden": ErrorType.FORBIDDEN,
    "FieldValueTooLong": ErrorType.TOO_LONG,
    "InternalError": ErrorType.INTERNAL,
}
_ATTRIBUTE_TYPES: Final = frozenset({"string", "bool", "int", "kubernetes.Semver", "dyn", "google.protobuf.Any"})
_MEMORY: Final = 4096
"""Verdicts kept: a template's selector comes back with each of its claims."""
_MEMORY_BYTES: Final = 4 * 1024 * 1024
"""Characters of their expressions."""


class CELExpressions:
    """Compiles expressions under a server's gates. Verdicts are remembered, since the same selector comes often.

    An `cathedra.kinds.definition.ExpressionChecker`. CEL is imported with the first expression: a server without claims
    starts faster.
    """

    def __init__(self, gates: FeatureGates) -> None:
        self._consumable = gates.get("DRAConsumableCapacity", False)
        self._lists = gates.get("DRAListTypeAttributes", False)
        self._known: BoundedCache[tuple[str, bool], ExpressionFault | None] = BoundedCache(
            _MEMORY, most_bytes=_MEMORY_BYTES
        )

    def selector(self, expression: str, *, stored: bool) -> ExpressionFault | None:
        """Return the fault of a device selector: it must compile, return a bool, and not cost too much."""
        key = (expression, stored)
        if key in self._known:
            return self._known[key]
        return self._known.keep(key, self._judge(expression, stored=stored), len(expression))

    def _judge(self, expression: str, *, stored: bool) -> ExpressionFault | None:
        from cathedra.cel.selector import validate_selector  # start-up time: CEL, with the first expression

        verdict = validate_selector(
            expression,
            consumable_capacity=self._consumable,
            list_attributes=self._lists,
            mode="stored" if stored else "new",
        )
        if verdict is None:
            return None
        return ExpressionFault(_TYPES[verdict.reason], verdict.detail)

    def derived_attribute(self, expression: str, *, stored: bool) -> tuple[ExpressionFault | None, int]:
        """Return the fault of a derived attribute's expression, and its estimated cost."""
        from cathedra.cel import device, program  # start-up time: CEL, with the first expression
        from cathedra.cel.errors import CompileError  # start-up time: as above
        from cathedra.cel.selector import COST_LIMIT  # start-up time: as above

        declared = device.environment(
            consumable_capacity=self._consumable, list_attributes=self._lists, mode="stored" if stored else "new"
        )
        try:
            compiled = program.compile_expression(expression, declared)
        except CompileError as error:
            kind = ErrorType.INTERNAL if error.type == "InternalError" else ErrorType.INVALID
            return ExpressionFault(kind, error.text), 0
        if compiled.type.declared.removeprefix("list(").removesuffix(")") not in _ATTRIBUTE_TYPES:
            why = f"must evaluate to a device attribute's type, not {compiled.type.declared}"
            return ExpressionFault(ErrorType.INVALID, why), 0
        cost = compiled.max_cost
        if cost > COST_LIMIT:
            return ExpressionFault(ErrorType.FORBIDDEN, "too complex, exceeds cost limit"), cost
        return None, cost
