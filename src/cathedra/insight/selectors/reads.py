"""Attributes and capacities that an expression reads, the facts that a condition establishes, and unguarded reads.

A test for presence establishes the attribute that it tests. A condition that was evaluated before has also read its
attributes: after ``x > 1`` there is an ``x``, whatever the result was. CEL's ``&&`` and ``||`` absorb errors of either
side, so the order of conditions does not matter there, and only tests count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

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
    """The path that an expression takes from ``device``; None if it is no such path, or names are worked out."""
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
    """The names that hold in the result of ``cel.bind``; the names of loops stand for nothing in particular."""
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
    """The facts that a single condition states."""
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
    """Every read that fails where the attribute is missing, and what is certain there."""
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
    """The operands of the outermost ``&&``; the whole expression if it has none."""
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
    """The text of a part."""
    return expression[part.start : part.end].strip()
