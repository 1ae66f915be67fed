"""RelaxedSelector selectors: one condition removed, another value, or a guard added.

Only texts are made here; the allocator decides whether one of them helps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from cathedra.allocation import Features
from cathedra.allocation.checks.selectors import cel_device
from cathedra.allocation.supply.devices import Signature
from cathedra.api.jsonvalue import JSONValue
from cathedra.cel.errors import CompileError
from cathedra.cel.selector import CompiledSelector, compile_selector
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Select
from cathedra.cel.values import text
from cathedra.insight.selectors.reads import conjuncts, source_of

_VALUES: Final = 4
"""Other values that are proposed for one comparison."""
_LOOKED_AT: Final = 200
"""Largest number of devices whose values are read."""
_COMPARISONS: Final = frozenset(("_==_", "_>=_", "_>_", "_<=_", "_<_"))
_UNSAFE: Final = re.compile(r"\|\||\?")


class RelaxedSelector(msgspec.Struct, frozen=True):
    """Another text for a selector; "" if it is to be left out."""

    expression: str
    what: str
    """Description of the change."""


def relaxed_selectors(
    expression: str, signatures: Iterable[Signature], features: Features
) -> Iterator[RelaxedSelector]:
    """Return selectors that let more devices through than ``expression``, the smallest changes first."""
    compiled = _compiled(expression, features)
    if compiled is None:
        return
    parts = conjuncts(compiled.program.root)
    texts = [source_of(expression, part) for part in parts]
    seen = list(signatures)[:_LOOKED_AT]
    for place in range(len(parts)):
        for old, new in _other_values(texts[place], seen, features):
            changed = f"{texts[place][: old[0]]}{new}{texts[place][old[1] :]}"
            yield RelaxedSelector(
                _joined([*texts[:place], changed, *texts[place + 1 :]]), f"{changed} instead of {texts[place]}"
            )
    if any(fails_on(compiled, one) for one in seen):
        yield from _guarded(expression, compiled, seen)
    for place in range(len(parts)):
        rest = [*texts[:place], *texts[place + 1 :]]
        if rest:
            yield RelaxedSelector(_joined(rest), f"without {texts[place]}")
    yield RelaxedSelector("", f"without the selector {expression}")


def fails_on(compiled: CompiledSelector, signature: Signature) -> bool:
    """Return True if the selector fails on devices of the signature, rather than being false."""
    return compiled.outcome(cel_device(signature)).error is not None


def _compiled(expression: str, features: Features) -> CompiledSelector | None:
    try:
        return compile_selector(
            expression,
            consumable_capacity=features.consumable_capacity,
            list_attributes=features.list_type_attributes or features.behaviour.lists_are_iterable_without_gate,
            mode="stored",
        )
    except CompileError:
        return None


def _joined(parts: list[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    return " && ".join(f"({part})" if _UNSAFE.search(part) else part for part in parts)


def _other_values(
    conjunct: str, signatures: list[Signature], features: Features
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the position of the literal in a comparison, and other values that devices have there, the nearest
    first."""
    compiled = _compiled(conjunct, features)
    root = compiled.program.root if compiled is not None else None
    if compiled is None or not isinstance(root, CallExpr) or root.function not in _COMPARISONS:
        return
    place = _literal(root)
    if place is None:
        return
    literal, value_node = place
    counts: dict[str, tuple[int, Any]] = {}
    for signature in signatures:
        trace: dict[int, Any] = {}
        if compiled.outcome(cel_device(signature), trace).error is not None or value_node.id not in trace:
            continue
        value = trace[value_node.id]
        shown = _spelled(value, literal)
        if shown is not None:
            counts[shown] = (counts.get(shown, (0, value))[0] + 1, value)
    known = conjunct[literal.start : literal.end]
    others = [(spelled, count, value) for spelled, (count, value) in counts.items() if spelled != known]
    if root.function == "_==_" or any(isinstance(value, str) for _, _, value in others):
        ordered = sorted(others, key=lambda item: (-item[1], item[0]))
    else:
        ordered = _by_nearness(others, upwards=root.function in ("_<=_", "_<_"))
    for spelled, _, _ in ordered[:_VALUES]:
        yield (literal.start, literal.end), spelled


def _by_nearness(others: list[tuple[str, int, Any]], *, upwards: bool) -> list[tuple[str, int, Any]]:
    try:
        return sorted(others, key=lambda item: item[2], reverse=not upwards)
    except TypeError:
        return others


def _literal(root: CallExpr) -> tuple[Const, Expr] | None:
    """Return the literal of a comparison, and the part that is compared with it; None if there is no literal."""
    left, right = root.args
    if isinstance(right, Const) and isinstance(left, CallExpr) and left.function == "compareTo" and left.target:
        # device.capacity[…].memory.compareTo(quantity("80Gi")) >= 0
        inner = left.args[0]
        if isinstance(inner, CallExpr) and inner.args and isinstance(inner.args[0], Const):
            return inner.args[0], left.target
        return None
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Const) and isinstance(other, (Select, CallExpr)):
            return one, other
        if (
            isinstance(one, CallExpr)
            and one.function in ("semver", "quantity")
            and one.args
            and isinstance(one.args[0], Const)
        ):
            return one.args[0], other
    return None


def _spelled(value: JSONValue, literal: Const) -> str | None:
    """``value`` as a literal of the same sort as ``literal``."""
    if isinstance(literal.value, bool) or isinstance(value, bool):
        return str(value).lower() if isinstance(value, bool) and isinstance(literal.value, bool) else None
    if isinstance(literal.value, str):
        shown = value if isinstance(value, str) else text(value).strip('"')
        return f'"{shown}"' if '"' not in shown and "\\" not in shown else None
    if isinstance(literal.value, int) and isinstance(value, int):
        return str(int(value))
    return None


def _guarded(expression: str, compiled: CompiledSelector, signatures: list[Signature]) -> Iterator[RelaxedSelector]:
    """Yield the selector with tests for the presence of what is missing on some device, if it needs any."""
    missing = {
        name
        for signature in signatures
        if (error := compiled.outcome(cel_device(signature)).error) and (name := _missing_key(error))
    }
    guards = []
    for one in _selections(compiled.program.root):
        if one.field in missing or _index_key(one.operand) in missing:
            owner = expression[one.operand.start : one.operand.end]
            domain = _index_key(one.operand)
            base = expression[one.operand.start : _base_end(one.operand)]
            if domain in missing:
                guards.append(f'"{domain}" in {base}')
            elif domain:
                guards.append(f'"{one.field}" in {owner}')
    guards = list(dict.fromkeys(guards))
    if guards:
        body = f"({expression})" if _UNSAFE.search(expression) else expression
        yield RelaxedSelector(" && ".join((*guards, body)), f"with {' && '.join(guards)} in front")


def _missing_key(error: str) -> str:
    found = re.search(r"no such key: ([^\s.]+(?:\.[^\s.]+)*)", error)
    return found[1].rstrip(".") if found else ""


def _selections(root: Expr) -> Iterator[Select]:
    pending = [root]
    while pending:
        one = pending.pop()
        if isinstance(one, Select) and not one.test_only:
            yield one
        pending.extend(one.children())


def _index_key(one: Expr) -> str:
    """Return the literal key of ``map["key"]``; empty if it is another expression."""
    if isinstance(one, CallExpr) and one.function == "_[_]" and isinstance(one.args[1], Const):
        return str(one.args[1].value)
    return ""


def _base_end(one: Expr) -> int:
    return one.args[0].end if isinstance(one, CallExpr) and one.function == "_[_]" else one.end
