"""Attributes and capacities that an expression reads, the facts that a condition establishes, and unguarded reads.

A test for presence establishes the attribute that it tests. A condition that was evaluated before has also read its
attributes: after ``x > 1`` there is an ``x``, whatever the result was. CEL's ``&&`` and ``||`` absorb errors of either
side, so the order of conditions does not matter there, and only tests count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Final, TypeAlias

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.cel.library.semver import Semver, SemverError
from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, ListLit, Select

MAPS: Final = ("attributes", "capacity")


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """The value of a name, and the names in scope at its definition."""

    value: Expr
    names: Bound


Bound: TypeAlias = Mapping[str, Binding]
"""The names that ``cel.bind`` gave."""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """The way from ``device`` to a value through literal names, as ``("attributes", "gpu.example.com", "model")``."""

    steps: tuple[str, ...]
    optional: bool = False
    """True if a step is optional, as ``.?model``."""

    def __str__(self) -> str:
        return "/".join(self.steps[1:]) if self.steps[:1] and self.steps[0] in MAPS else ".".join(self.steps)


@dataclass(frozen=True, slots=True)
class Read:
    """An attribute or capacity with a literal name."""

    map: str
    """Map that is read: «attributes» or «capacity»."""
    domain: str
    name: str

    def __str__(self) -> str:
        return f"{self.domain}/{self.name}"


def path_of(node: Expr, bound: Bound) -> ReadPath | None:
    """Return the path that an expression takes from ``device``; None if it is no such path, or names are worked out."""
    steps: list[str] = []
    optional = False
    one: Expr = node
    while True:
        if isinstance(one, Ident):
            if one.name == "device":
                return ReadPath(tuple(reversed(steps)), optional)
            if one.name not in bound:
                return None
            binding = bound[one.name]
            one, bound = binding.value, binding.names
        elif isinstance(one, Select):
            steps.append(one.field)
            one = one.operand
        elif isinstance(one, CallExpr) and one.function in _INDEX and isinstance(key := one.args[1], Const):
            if not isinstance(key.value, str):
                return None
            steps.append(key.value)
            optional = optional or one.function != "_[_]"
            one = one.args[0]
        else:
            return None


_INDEX: Final = frozenset(("_[_]", "_[?_]", "_?._"))


def read_of(node: Expr, bound: Bound) -> Read | None:
    """Return the attribute or capacity that a node reads itself."""
    path = path_of(node, bound)
    if path is None or len(path.steps) != 3 or path.steps[0] not in MAPS:
        return None
    return Read(*path.steps)


def bound_in(node: Comprehension, bound: Bound) -> Bound:
    """Return the names that hold in the result of ``cel.bind``; the names of loops stand for nothing in particular."""
    if node.macro == "bind":
        return {**bound, node.accu: Binding(node.init, bound)}
    return {name: value for name, value in bound.items() if name not in (node.var, node.var2, node.accu)}


# --- what a condition establishes


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """The device is one of this driver."""

    name: str


Fact: TypeAlias = Read | DriverFacts
"""An attribute or capacity that is there, or the driver."""
Facts: TypeAlias = frozenset[Fact]
_NONE: Facts = frozenset()


def facts_of(node: Expr, bound: Bound, *, truth: bool = True, evaluated: bool = False) -> Facts:
    """Return the facts that hold where ``node`` has the value ``truth``; with what it has read if it was ``evaluated``
    before."""
    if isinstance(node, Comprehension):
        if node.macro != "bind":
            return _NONE
        return facts_of(node.result, bound_in(node, bound), truth=truth, evaluated=evaluated)
    if isinstance(node, Select):
        if node.test_only:
            found = read_of(node, bound)
            return frozenset((found,)) if found is not None and truth else _NONE
        return _read_by(node, bound) if evaluated else _NONE
    if not isinstance(node, CallExpr):
        return _NONE
    if node.function == "!_":
        return facts_of(node.args[0], bound, truth=not truth, evaluated=evaluated)
    # A true conjunction establishes the facts of both sides, a false one only those that both establish; for a
    # disjunction it is the other way round.
    if node.function in ("_&&_", "_||_"):
        both = (node.function == "_&&_") is truth
        parts = [facts_of(one, bound, truth=truth, evaluated=evaluated) for one in node.args]
        return reduce(frozenset.union if both else frozenset.intersection, parts)
    if node.function == "_?_:_":
        return _NONE
    return _of_call(node, bound, truth=truth) | (_read_by(node, bound) if evaluated else _NONE)


def _of_call(node: CallExpr, bound: Bound, *, truth: bool) -> Facts:
    """Return the facts that a single condition establishes."""
    if node.function == "_==_" and truth:
        for one, other in (node.args, node.args[::-1]):
            path = path_of(one, bound)
            if path is not None and path.steps == ("driver",) and isinstance(other, Const):
                return frozenset((DriverFacts(str(other.value)),))
    if node.function == "@in" and truth and isinstance(node.args[0], Const):
        path = path_of(node.args[1], bound)
        if path is not None and len(path.steps) == 2 and path.steps[0] in MAPS:
            return frozenset((Read(*path.steps, str(node.args[0].value)),))
    if node.function == "hasValue" and truth and node.target is not None:
        found = read_of(node.target, bound)
        return frozenset((found,)) if found is not None else _NONE
    return _NONE


def _in_nothing(node: CallExpr) -> bool:
    """``x in []``, which Kubernetes answers without looking at ``x``."""
    return node.function == "@in" and isinstance(node.args[1], ListLit) and not node.args[1].elements


def _read_by(node: Expr, bound: Bound) -> Facts:
    """Return the attributes that an evaluated node must have read."""
    found: set[Fact] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        path = path_of(one, bound)
        if path is not None:
            if len(path.steps) == 3 and path.steps[0] in MAPS and not path.optional:
                found.add(Read(*path.steps))
        elif isinstance(one, CallExpr) and one.function not in ("_&&_", "_||_", "_?_:_") and not _in_nothing(one):
            pending.extend(one.children())
        elif isinstance(one, Select) and not one.test_only:
            pending.append(one.operand)
    return frozenset(found)


# --- reads that nothing guards


_NO_NAMES: Final[Bound] = {}


def unguarded(root: Expr, known: Facts, *, driver_counts: bool = True) -> Iterator[tuple[Expr, Read]]:
    """Yield the reads that no condition guards, the first of each attribute; ``known`` holds before the expression is
    evaluated.

    A device whose driver is the domain counts as one with the attribute, because drivers usually give all their devices
    the same attributes. ``driver_counts`` is false if this driver is known not to.
    """
    told: set[Read] = set()
    for node, read, facts in _reads(root, _NO_NAMES, known):
        guarded = read in facts or (driver_counts and DriverFacts(read.domain) in facts)
        if not guarded and read not in told:
            told.add(read)
            yield node, read


def all_reads(root: Expr) -> Iterator[tuple[Expr, Read, Facts]]:
    """Return every read that fails where the attribute is missing, and what is certain there."""
    return _reads(root, _NO_NAMES, frozenset())


def _reads(node: Expr, bound: Bound, facts: Facts) -> Iterator[tuple[Expr, Read, Facts]]:
    path = path_of(node, bound)
    if path is not None:
        tested = isinstance(node, Select) and node.test_only
        if len(path.steps) >= 3 and path.steps[0] in MAPS and not path.optional and not tested:
            yield node, Read(*path.steps[:3]), facts
        return
    if isinstance(node, CallExpr) and node.function in ("_&&_", "_||_"):
        one, other = node.args
        truth = node.function == "_&&_"
        # Either side may be the guard of the other; what a side reads itself guards nothing, for it fails as well.
        yield from _reads(one, bound, facts | facts_of(other, bound, truth=truth))
        yield from _reads(other, bound, facts | facts_of(one, bound, truth=truth))
        return
    if isinstance(node, CallExpr) and node.function == "_?_:_":
        condition, then, otherwise = node.args
        yield from _reads(condition, bound, facts)
        yield from _reads(then, bound, facts | facts_of(condition, bound, evaluated=True))
        yield from _reads(otherwise, bound, facts | facts_of(condition, bound, truth=False, evaluated=True))
        return
    if isinstance(node, Comprehension):
        yield from _reads(node.range, bound, facts)
        yield from _reads(node.init, bound, facts)
        inner = bound_in(node, bound)
        for part in (node.condition, node.step, node.result):
            yield from _reads(part, inner, facts)
        return
    for child in node.children():
        yield from _reads(child, bound, facts)


# --- conjuncts


def conjuncts(root: Expr) -> list[Expr]:
    """Return the operands of the outermost ``&&``; the whole expression if it has none."""
    found: list[Expr] = []
    pending = [root]
    while pending:
        one = pending.pop()
        if isinstance(one, CallExpr) and one.function == "_&&_":
            pending.extend(reversed(one.args))
        else:
            found.append(one)
    return sorted(found, key=lambda one: one.start)


def source_of(expression: str, part: Expr) -> str:
    """Return the text of a part."""
    return expression[part.start : part.end].strip()


# Contradictions: conditions that exclude each other, so that their ``&&`` is true for no device.
#
# Only certain contradictions are reported: literals compared with the same expression. The order is that of CEL's own
# values, for quantities and versions too.


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
    """Yield the conditions that an expression needs, as far as they are understood."""
    for one in conjuncts(root):
        found = _condition(one, source, truth=True)
        if found is not None:
            subject, operator, value = found
            yield Condition(subject, operator, value, source[one.start : one.end].strip(), one, origin)


def first_conflict(conditions: Iterable[Condition]) -> Contradiction | None:
    """Return the first condition that no device can meet together with one before it; None if there is none."""
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
    """Return True if no value satisfies both; symmetric."""
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
    """Return False if no value can satisfy a condition; True if that is not certain."""
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
