"""Comprehensions: what ``all``, ``map``, ``cel.bind`` and their kin became (`cathedra.cel.syntax.macros`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cathedra.cel.evaluation.run import Numbered, Run, Step, VariableScope, Walk, go_type
from cathedra.cel.syntax.tree import Comprehension
from cathedra.cel.trampoline import Descent
from cathedra.cel.values import CELValue, Failure, MutableList, MutableMap, decode_key

__all__ = ["Fold"]


class Fold(Numbered):
    __slots__ = ("accu", "condition", "init", "range", "result", "step", "var", "var2")

    def __init__(self, node: Comprehension, parts: tuple[Step, Step, Step, Step, Step]) -> None:
        self.id, self.accu, self.var, self.var2 = node.id, node.accu, node.var, node.var2
        self.range, self.init, self.condition, self.step, self.result = parts

    def eval(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        value = yield from self.fold(run, scope)
        run.drop(self.range.id)
        run.note(self.id, value)
        return value

    def fold(self, run: Run, scope: VariableScope) -> Descent[CELValue]:
        over = self.range.eval(run, scope)
        if over.__class__ is Walk:
            over = yield over
        if over.__class__ is Failure:
            return over
        if not isinstance(over, (list, dict)):
            if self.var2:
                return Failure(f"unsupported comprehension range type: {go_type(over)}")
            return Failure(f"got '{go_type(over)}', expected iterable type")
        inner = _FoldScope(self, scope)
        for inner.first, inner.second in self.pairs(over):
            more = self.condition.eval(run, inner)
            if more.__class__ is Walk:
                more = yield more
            if more is False:
                break
            value = self.step.eval(run, inner)
            if value.__class__ is Walk:
                value = yield value
            inner.value, inner.initialized = value, True
        inner.finished = True
        value = self.result.eval(run, inner)
        if value.__class__ is Walk:
            value = yield value
        if value.__class__ is MutableList:
            return list(value)
        return dict(value) if value.__class__ is MutableMap else value

    def pairs(self, over: CELValue) -> Iterator[tuple[CELValue, CELValue]]:
        if isinstance(over, dict):
            return ((decode_key(key), value) for key, value in over.items())
        return enumerate(over) if self.var2 else ((value, None) for value in over)


class _FoldScope:
    __slots__ = ("finished", "first", "fold", "initialized", "outer", "second", "value")

    def __init__(self, fold: Fold, outer: VariableScope) -> None:
        self.fold, self.outer = fold, outer
        self.first: CELValue = None
        self.second: CELValue = None
        self.value: CELValue = None
        self.initialized = self.finished = False

    def find(self, run: Run, name: str) -> CELValue:
        """The value of a name, or a walk that finds it: the accumulator begins when it is first asked for."""
        scope: Any = self
        while scope.__class__ is _FoldScope:
            fold = scope.fold
            if name == fold.accu:
                return scope.value if scope.initialized else scope.begin(run)
            if not scope.finished:
                if name == fold.var:
                    return scope.first
                if name == fold.var2:
                    return scope.second
            scope = scope.outer
        return scope.find(run, name)

    def begin(self, run: Run) -> CELValue:
        self.initialized = True
        value = self.fold.init.eval(run, self.outer)
        return self.begun(value) if value.__class__ is Walk else self.begin_with(value)

    def begun(self, walk: CELValue) -> Descent[CELValue]:
        return self.begin_with((yield walk))

    def begin_with(self, value: CELValue) -> CELValue:
        self.value = _accumulator(value)
        return self.value


def _accumulator(value: CELValue) -> CELValue:
    if value.__class__ is list and not value:
        return MutableList()
    return MutableMap() if value.__class__ is dict and not value else value
