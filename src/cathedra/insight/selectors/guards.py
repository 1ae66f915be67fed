"""Reads that fail on devices without the attribute, because nothing makes sure that it is there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.cel.syntax.tree import CallExpr, Comprehension, Expr, Select
from cathedra.insight.selectors.facts import DriverFacts, Facts, facts_of
from cathedra.insight.selectors.reads import MAPS, Bound, Read, bound_in, path_of

__all__ = ["all_reads", "unguarded"]

_NO_NAMES: Final[Bound] = {}


def unguarded(root: Expr, known: Facts, *, driver_counts: bool = True) -> Iterator[tuple[Expr, Read]]:
    """Reads that nothing guards, the first of each attribute; ``known`` holds before the expression is asked.

    A device whose driver is known to be the domain counts as one that has the attribute: drivers give all their devices
    the same attributes, as a rule. ``driver_counts`` is false where it is known that this one does not.
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
