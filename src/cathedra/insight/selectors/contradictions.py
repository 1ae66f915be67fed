"""Contradictions: conditions that exclude each other, so that their ``&&`` is true for no device.

Only certain contradictions are reported: literals compared with the same expression. The order is that of CEL's own
values, for quantities and versions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.cel.library.semver import Semver, SemverError
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, ListLit
from cathedra.insight.selectors.reads import conjuncts, path_of


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One condition on one value: ``operator`` is «==», «!=», «<», «<=», «>», «>=», «in» or «never»."""

    subject: str
    """The compared expression, with «quantity» or «semver» if it is compared as such."""
    operator: str
    value: Any
    text: str
    node: Expr
    origin: str = ""
    """Location of the condition; "" for conditions of the selector itself."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two conditions that are never true together; the same one twice, if it is never true by itself."""

    earlier: Condition
    later: Condition


_MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_METHODS: Final = {"isGreaterThan": ">", "isLessThan": "<"}
_MAKERS: Final = ("quantity", "semver")


def conditions_of(root: Expr, source: str, origin: str = "") -> Iterator[Condition]:
    """The conditions that an expression needs, as far as they are understood."""
    for one in conjuncts(root):
        found = _condition(one, source, truth=True)
        if found is not None:
            subject, operator, value = found
            yield Condition(subject, operator, value, source[one.start : one.end].strip(), one, origin)


def first_conflict(conditions: Iterable[Condition]) -> Contradiction | None:
    """The first condition that no device can meet together with one before it; None if there is none."""
    seen: dict[str, _Range] = {}
    for one in conditions:
        if one.operator == "never":
            return Contradiction(one, one)
        known = seen.setdefault(one.subject, _Range())
        earlier = known.excludes(one)
        if earlier is not None:
            return Contradiction(earlier, one)
        known.conditions.append(one)
    return None


@dataclass(slots=True)
class _Range:
    """The conditions on one value that were seen before."""

    conditions: list[Condition] = field(default_factory=list)

    def excludes(self, new: Condition) -> Condition | None:
        return next((one for one in self.conditions if _exclude(one, new) or _exclude(new, one)), None)


def _exclude(one: Condition, other: Condition) -> bool:
    """Return True if no value meets both; symmetric."""
    if one.operator == "==":
        return not _meets(one.value, other)
    if one.operator == "in":
        return all(not _meets(value, other) for value in one.value)
    if one.operator in (">", ">=") and other.operator in ("<", "<="):
        order = _order(one.value, other.value)
        touching = (one.operator, other.operator) == (">=", "<=")
        return order is not None and (order > 0 or (order == 0 and not touching))
    return False


def _meets(value: Any, condition: Condition) -> bool:
    """Return False if no value can meet a condition; True if that is not certain."""
    if condition.operator == "in":
        return any(_equal(value, one) is not False for one in condition.value)
    if condition.operator in ("==", "!="):
        return _equal(value, condition.value) is not (condition.operator == "!=")
    order = _order(value, condition.value)
    if order is None:
        return True
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[condition.operator]


def _equal(one: Any, other: Any) -> bool | None:
    order = _order(one, other)
    if order is not None:
        return order == 0
    return bool(one == other) if type(one) is type(other) and isinstance(one, bool) else None


def _order(one: Any, other: Any) -> int | None:
    """Negative, nought or positive; None where the two cannot be compared."""
    if isinstance(one, bool) or isinstance(other, bool):
        return None
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    if not numbers and type(one) is not type(other):
        return None
    return (one > other) - (one < other) if numbers or isinstance(one, (str, tuple)) else None


def _condition(node: Expr, source: str, *, truth: bool) -> tuple[str, str, Any] | None:
    if isinstance(node, Const) and isinstance(node.value, bool):
        return None if node.value is truth else ("", "never", None)
    if isinstance(node, CallExpr):
        if node.function == "!_":
            return _condition(node.args[0], source, truth=not truth)
        if node.function == "@in" and truth:
            return _membership(node, source)
        if node.function == "_||_" and truth:
            return _alternatives(node, source)
        operator = node.function.strip("_")
        if operator in _MIRRORED and node.function == f"_{operator}_":
            return _comparison(node, operator, source) if truth else _negated(_comparison(node, operator, source))
        if node.function in _METHODS and truth:
            return _method(node, _METHODS[node.function], source)
    return _subject(node, source), "==", truth


_NEGATED: Final = {"==": "!=", "!=": "=="}


def _negated(found: tuple[str, str, Any] | None) -> tuple[str, str, Any] | None:
    if found is None or found[1] not in _NEGATED:
        return None
    return found[0], _NEGATED[found[1]], found[2]


def _comparison(node: CallExpr, operator: str, source: str) -> tuple[str, str, Any] | None:
    left, right = node.args
    if isinstance(left, CallExpr) and left.function == "compareTo" and isinstance(right, Const) and right.value == 0:
        return _method(left, operator, source)
    for one, other, op in ((left, right, operator), (right, left, _MIRRORED[operator])):
        value, kind = _literal(other)
        if kind:
            return _subject(one, source) + ("" if kind == "plain" else f" as {kind}"), op, value
    return None


def _method(node: CallExpr, operator: str, source: str) -> tuple[str, str, Any] | None:
    value, kind = _literal(node.args[0])
    if node.target is None or kind not in _MAKERS:
        return None
    return f"{_subject(node.target, source)} as {kind}", operator, value


def _membership(node: CallExpr, source: str) -> tuple[str, str, Any] | None:
    values = node.args[1]
    if not isinstance(values, ListLit) or not all(isinstance(one, Const) for one in values.elements):
        return None
    return _subject(node.args[0], source), "in", tuple(one.value for one in values.elements if isinstance(one, Const))


def _alternatives(node: CallExpr, source: str) -> tuple[str, str, Any] | None:
    """``x == 1 || x == 2`` is ``x in [1, 2]``."""
    parts = [_condition(one, source, truth=True) for one in node.args]
    values: list[Any] = []
    for part in parts:
        if part is None or part[1] not in ("==", "in") or part[0] != (parts[0] or ("",))[0]:
            return None
        values.extend(part[2] if part[1] == "in" else (part[2],))
    return (parts[0] or ("",))[0], "in", tuple(values)


def _subject(node: Expr, source: str) -> str:
    path = path_of(node, {})
    return f"device/{path}" if path is not None else source[node.start : node.end].strip()


def _literal(node: Expr) -> tuple[Any, str]:
    """Return the comparable value of a literal, and its type «plain», «quantity» or «semver»; "" if it is none."""
    if isinstance(node, Const):
        return node.value, "plain"
    if not isinstance(node, CallExpr) or node.function not in _MAKERS or node.target is not None or len(node.args) != 1:
        return None, ""
    text = node.args[0]
    if not isinstance(text, Const) or not isinstance(text.value, str):
        return None, ""
    try:
        known = Quantity(text.value).nanos if node.function == "quantity" else Semver.parse(text.value).order
    except (QuantityError, SemverError):
        return None, ""
    return known, node.function
