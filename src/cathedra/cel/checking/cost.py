"""The estimate of what an expression may cost at most, which decides whether it is admitted
(docs/spec/cel.md §7.3).

It is an estimate, not a bound: the formulas are Kubernetes' own, with their quirks, since its verdict must be repeated
exactly. Sizes of inputs come from the environment (`Environment.size_of`), by path.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.library.estimates import (
    LIST_BASE,
    MAP_BASE,
    ONE,
    STRUCT_BASE,
    UNBOUNDED,
    UNKNOWN,
    ZERO,
    EstimatedCall,
    Operand,
    Range,
)
from cathedra.cel.syntax.macros import ACCUMULATOR
from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, ListLit, MapLit, Select, StructLit

__all__ = ["UNBOUNDED", "SizeOf", "estimate"]

SizeOf = Callable[[tuple[str, ...]], "int | None"]
"""Path → largest size, None if unknown."""


class Entries(NamedTuple):
    """Sizes of what a list or map contains."""

    of_list: bool
    key: Range
    value: Range


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Range | None
    entries: Entries | None


def estimate(root: Expr, size_of: SizeOf | None) -> int:
    """Return the estimated maximum cost of a checked tree; `UNBOUNDED` if there is no telling."""
    total: Range = _trampoline.run(_Estimator(size_of).cost(root))
    return total.high


class _Estimator:
    def __init__(self, size_of: SizeOf | None) -> None:
        self.size_of = size_of
        self.paths: dict[int, tuple[str, ...]] = {}
        self.sizes: dict[int, Range] = {}
        self.entries: dict[int, Entries] = {}
        self.locals: dict[str, list[_Local]] = {}

    # --- nodes

    def cost(self, node: Expr) -> Descent[Range]:
        match node:
            case Ident():
                return self.ident(node)
            case Select():
                return (yield from self.select(node))
            case CallExpr():
                return (yield from self.call(node))
            case ListLit():
                return (yield from self.list_literal(node))
            case MapLit():
                return (yield from self.map_literal(node))
            case StructLit():
                total = STRUCT_BASE
                for entry in node.entries:
                    total = total.plus((yield self.cost(entry.value)))
                return total
            case Comprehension():
                return (yield from self.bound(node) if _is_bind(node) else self.comprehension(node))
        return ZERO

    def ident(self, node: Ident) -> Range:
        local = self.local(node.name)
        self.paths[node.id] = local.path if local is not None else (node.name.lstrip("."),)
        return ONE

    def select(self, node: Select) -> Descent[Range]:
        if node.qualified is not None:
            self.paths[node.id] = (node.qualified,)
            return ONE
        cost: Range = yield self.cost(node.operand)
        if node.test_only:
            return cost
        if node.operand.type.kind in (Kind.MAP, Kind.STRUCT, Kind.PARAM):
            cost = cost.plus(ONE)
        self.paths[node.id] = (*self.path(node.operand), node.field)
        return cost

    def call(self, node: CallExpr) -> Descent[Range]:
        if node.function == "dyn" and node.args:
            spent: Range = yield self.cost(node.args[0])
            self.copy_sizes(node, node.args[0])
            return spent.plus(ONE)
        costs = []
        operands = []
        for arg in node.args:
            costs.append((yield self.cost(arg)))
            operands.append(self.operand(arg))
        if not node.overloads:
            return ZERO
        total = ZERO
        if node.target is not None:
            total = yield self.cost(node.target)
            operands.insert(0, self.operand(node.target))
        cost, size = self.estimated(node, operands, costs)
        if size is None:
            size = self.size(node)
        if size is not None:
            self.sizes[node.id] = size
        return total.plus(cost)

    def list_literal(self, node: ListLit) -> Descent[Range]:
        total = LIST_BASE
        held = Range(UNBOUNDED if node.elements else 0, 0)
        for element in node.elements:
            total = total.plus((yield self.cost(element)))
            held = held.union(self.size(element) or UNKNOWN)
        self.entries[node.id] = Entries(True, ONE, held)
        return total

    def map_literal(self, node: MapLit) -> Descent[Range]:
        total = MAP_BASE
        start = Range(UNBOUNDED if node.entries else 0, 0)
        key_size, value_size = start, start
        for entry in node.entries:
            assert entry.key is not None
            total = total.plus((yield self.cost(entry.key))).plus((yield self.cost(entry.value)))
            key_size = key_size.union(self.size(entry.key) or UNKNOWN)
            value_size = value_size.union(self.size(entry.value) or UNKNOWN)
        self.entries[node.id] = Entries(False, key_size, value_size)
        return total

    def comprehension(self, node: Comprehension) -> Descent[Range]:
        over: Range = yield self.cost(node.range)
        total = over.plus((yield self.cost(node.init)))
        self.push(node.accu, _Local(self.path(node.init), self.size(node.init), self.entries_of(node.init)))
        self.push_variables(node)
        loop = yield self.cost(node.condition)
        step = yield self.cost(node.step)
        self.pop(node.var)
        if node.var2:
            self.pop(node.var2)
        total = total.plus((yield self.cost(node.result)))
        self.pop(node.accu)
        count = self.size(node.range) or UNKNOWN
        total = total.plus(count.times(step.plus(loop)))
        if isinstance(node.init, Const):
            size = self.size(node.init)
            if size is not None:
                self.sizes[node.id] = size
        elif isinstance(node.init, (ListLit, MapLit)):
            self.sizes[node.id] = count
            held = self.entries_of(node.step)
            if held is not None:
                self.entries[node.id] = held
        return total

    def push_variables(self, node: Comprehension) -> None:
        held = self.entries_of(node.range)
        of_list = held.of_list if held is not None else node.range.type.kind is Kind.LIST
        path = self.path(node.range)
        key = held.key if held is not None else None
        value = held.value if held is not None else None
        if node.var2:
            self.push(node.var, _Local((*path, "@indices" if of_list else "@keys"), key, None))
            self.push(node.var2, _Local((*path, "@items" if of_list else "@values"), value, None))
        else:
            size = value if of_list else key
            self.push(node.var, _Local((*path, "@items" if of_list else "@keys"), size, None))

    def bound(self, node: Comprehension) -> Descent[Range]:
        over: Range = yield self.cost(node.range)
        total = over.plus((yield self.cost(node.init)))
        self.push(node.accu, _Local(self.path(node.init), self.size(node.init), self.entries_of(node.init)))
        total = total.plus((yield self.cost(node.result)))
        self.pop(node.accu)
        self.copy_sizes(node, node.result)
        return total

    # --- calls

    def estimated(self, node: CallExpr, operands: list[Operand], costs: list[Range]) -> tuple[Range, Range | None]:
        """Return the cost of a call with its arguments, and the size of its result if known, over all overloads."""
        if node.function in ("_&&_", "_||_"):
            return Range(costs[0].low, costs[0].plus(costs[1]).high), None
        if node.function == "_?_:_":
            self.unite_entries(node, 1, 2)
            either = operands[1].local_size.union(operands[2].local_size)
            return costs[0].plus(costs[1].union(costs[2])), either
        spent = ZERO
        for each in costs:
            spent = spent.plus(each)
        call = EstimatedCall(tuple(operands), self.sized, partial(self.unite_entries, node))
        widest = Range(UNBOUNDED, 0)
        result_size: Range | None = None
        for overload in node.overloads:
            cost, size = overload.cost.estimate(call)
            widest = widest.union(cost.plus(spent))
            if size is not None:
                result_size = size if result_size is None else result_size.union(size)
            if overload.id in ("index_list", "index_map"):
                held = self.entries_of(node.args[0])
                result_size = held.value if held is not None else None
                step = "@items" if overload.id == "index_list" else "@values"
                self.paths[node.id] = (*self.path(node.args[0]), step)
            if result_size is None:
                result_size = self.size(node)
        return widest, result_size

    def sized(self, operand: Operand) -> Range:
        """Return the size of an operand, or of its path if it has none, as Kubernetes' own formulas look it up."""
        if operand.size is not None:
            return operand.size
        found = self.size_of(operand.path) if self.size_of is not None and operand.path else None
        return UNKNOWN if found is None else Range(0, found)

    def unite_entries(self, node: CallExpr, first: int, second: int) -> None:
        one, other = self.entries_of(node.args[first]), self.entries_of(node.args[second])
        if one is not None and other is not None:
            self.entries[node.id] = Entries(one.of_list, one.key.union(other.key), one.value.union(other.value))

    # --- what is known about nodes

    def operand(self, node: Expr) -> Operand:
        path = self.path(node)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = ()
        return Operand(path, node.type, node, self.size(node))

    def path(self, node: Expr) -> tuple[str, ...]:
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.path
        return self.paths.get(node.id, ())

    def size(self, node: Expr) -> Range | None:
        known = self.sizes.get(node.id)
        if known is not None:
            return known
        known = _own_size(node)
        if known is not None:
            return known
        path = self.path(node)
        found = self.size_of(path) if self.size_of is not None and path else None
        if found is not None:
            self.sizes[node.id] = Range(0, found)
            return self.sizes[node.id]
        if _is_scalar(node.type):
            return ONE
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.size
        return None

    def entries_of(self, node: Expr) -> Entries | None:
        known = self.entries.get(node.id)
        if known is not None:
            return known
        if isinstance(node, Ident):
            local = self.local(node.name)
            if local is not None:
                return local.entries
        return None

    def copy_sizes(self, target: Expr, source: Expr) -> None:
        size, held = self.size(source), self.entries_of(source)
        if size is not None:
            self.sizes[target.id] = size
        if held is not None:
            self.entries[target.id] = held

    def push(self, name: str, local: _Local) -> None:
        self.locals.setdefault(name, []).append(local)

    def pop(self, name: str) -> None:
        self.locals[name].pop()

    def local(self, name: str) -> _Local | None:
        stack = self.locals.get(name)
        return stack[-1] if stack else None


def _own_size(node: Expr) -> Range | None:
    if isinstance(node, Const):
        value = node.value
        amount = len(value) if isinstance(value, (str, bytes)) else 1
        return Range(amount, amount)
    if isinstance(node, ListLit):
        return Range(len(node.elements), len(node.elements))
    if isinstance(node, MapLit):
        return Range(len(node.entries), len(node.entries))
    return None


_SCALARS: Final = (Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT)


def _is_scalar(one: Type) -> bool:
    while one.kind is Kind.OPAQUE and one.name == "optional_type":
        one = one.params[0]
    return one.kind in _SCALARS


def _is_bind(node: Comprehension) -> bool:
    return (
        isinstance(node.range, ListLit)
        and not node.range.elements
        and isinstance(node.condition, Const)
        and node.condition.value is False
        and node.accu != ACCUMULATOR
    )
