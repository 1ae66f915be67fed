"""What is certain about a device where a condition is true, or false.

A test for presence makes sure of what it tests. A condition that was ``evaluated`` before has also read what it reads:
after ``x > 1`` there is an ``x``, whatever the answer was. CEL's ``&&`` and ``||`` absorb errors of either side, so
there the order of conditions does not matter, and only tests count.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, ListLit, Select
from cathedra.insight.selectors.reads import MAPS, Bound, Read, bound_in, path_of, read_of

__all__ = ["DriverFacts", "Fact", "Facts", "facts_of"]


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """The device is one of this driver."""

    name: str


Fact: TypeAlias = Read | DriverFacts
"""An attribute or capacity that is there, or the driver."""
Facts: TypeAlias = frozenset[Fact]
_NONE: Facts = frozenset()


def facts_of(node: Expr, bound: Bound, *, truth: bool = True, evaluated: bool = False) -> Facts:
    """What is certain where ``node`` has given ``truth``; with what it has read, if it was ``evaluated`` before."""
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
    """What an evaluated node must have read."""
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
