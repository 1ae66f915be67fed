"""The estimate of what an expression may cost at most, which decides whether it is admitted
(docs/spec/cel.md §7.3).

It is an estimate, not a bound: the formulas are Kubernetes' own, with their quirks, since its verdict must be repeated
exactly. Sizes of inputs come from the environment (`Environment.size_of`), by path.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple

from cathedra.cel import trampoline
from cathedra.cel.checking import types
from cathedra.cel.checking.declarations import COMPARISONS, UNIT_COST
from cathedra.cel.checking.ranges import LIST_BASE, MAP_BASE, ONE, STRUCT_BASE, UNBOUNDED, UNKNOWN, ZERO, Range, capped
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.syntax.macros import ACCUMULATOR
from cathedra.cel.syntax.tree import Call, Comprehension, Const, Expr, Ident, ListLit, MapLit, Select, StructLit
from cathedra.cel.trampoline import Descent

__all__ = ["UNBOUNDED", "SizeOf", "estimate"]

SizeOf = Callable[[tuple[str, ...]], "int | None"]
"""Path → largest size, None if unknown."""

_STRING: Final = 0.1
_PATTERN: Final = 0.25
_MAX_NAMED_FORMAT: Final = 128
_MAX_FORMAT_NAME: Final = 64


class Entries(NamedTuple):
    """Sizes of what a list or map contains."""

    of_list: bool
    key: Range
    value: Range


class _Local(NamedTuple):
    path: tuple[str, ...]
    size: Range | None
    entries: Entries | None


class _Operand(NamedTuple):
    """A target or argument, as the formulas see it."""

    path: tuple[str, ...]
    type: Type
    expr: Expr | None
    size: Range | None


def estimate(root: Expr, size_of: SizeOf | None) -> int:
    """The estimated maximum cost of a checked tree; `UNBOUNDED` if there is no telling."""
    total: Range = trampoline.run(_Estimator(size_of).cost(root))
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
            case Call():
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

    def call(self, node: Call) -> Descent[Range]:
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
        target: _Operand | None = None
        if node.target is not None:
            total = yield self.cost(node.target)
            target = self.operand(node.target)
        widest = Range(UNBOUNDED, 0)
        result_size: Range | None = None
        for overload in node.overloads:
            cost, one_size = self.function(node, overload, target, operands, costs)
            widest = widest.union(cost)
            if one_size is not None:
                result_size = one_size if result_size is None else result_size.union(one_size)
            if overload in ("index_list", "index_map") and operands:
                held = self.entries_of(node.args[0])
                result_size = held.value if held is not None else None
                step = "@items" if overload == "index_list" else "@values"
                self.paths[node.id] = (*self.path(node.args[0]), step)
            if result_size is None:
                result_size = self.size(node)
        if result_size is not None:
            self.sizes[node.id] = result_size
        return total.plus(widest)

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

    def function(
        self, node: Call, overload: str, target: _Operand | None, args: list[_Operand], costs: list[Range]
    ) -> tuple[Range, Range | None]:
        spent = ZERO
        for cost in costs:
            spent = spent.plus(cost)
        known = self.list_function(overload, target, args)
        if known is None:
            known = self.library_function(node.function, overload, target, args)
        if known is not None:
            return known[0].plus(spent), known[1]
        return self.core_function(node, overload, target, args, costs, spent)

    def sized(self, operand: _Operand) -> Range:
        """The size as Kubernetes' own formulas look for it."""
        if operand.size is not None:
            return operand.size
        found = self.size_of(operand.path) if self.size_of is not None and operand.path else None
        return UNKNOWN if found is None else Range(0, found)

    def list_function(
        self, overload: str, target: _Operand | None, args: list[_Operand]
    ) -> tuple[Range, Range | None] | None:
        if overload.startswith("list_sets_"):
            factor = 2.0 if overload == "list_sets_equivalent_list" else 1.0
            product = self.sized(args[0]).times(self.sized(args[1]))
            return product.scaled(factor).plus(ONE), None
        if overload == "lists_range":
            count = _literal_size(args[0], UNBOUNDED)
            return _allocating(1.0, Range(count, count))
        if target is None:
            return None
        own = self.sized(target)
        if overload == "list_slice":
            count = (_literal_size(args[1], own.high) - _literal_size(args[0], 0)) % 2**64
            return _allocating(1.0, Range(count, count))
        if overload in ("list_flatten", "list_flatten_int"):
            depth = _literal_size(args[0], UNBOUNDED) if args else 1
            return _allocating(float(depth), own)
        if overload == "list_reverse":
            return _allocating(1.0, own)
        if overload == "list_distinct":
            return _allocating(2.0, own.times(own))
        if overload.endswith("_sort") and overload.startswith("list_"):
            return _allocating(2.1 if "_string_" in overload or "_bytes_" in overload else 2.0, own.times(own))
        if overload.endswith("_sortByAssociatedKeys"):
            keys = self.sized(args[0])
            return _allocating(2.1 if "_string_" in overload or "_bytes_" in overload else 2.0, keys.times(keys))
        return None

    def library_function(
        self, function: str, overload: str, target: _Operand | None, args: list[_Operand]
    ) -> tuple[Range, Range | None] | None:
        if function == "check":
            return Range(350_000, 350_000), None
        if overload == "dra_includes_dyn_dyn":
            return (Range(0, 48), None) if target is not None else None
        if function in UNIT_COST:
            return ONE, None
        if function in ("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf") and target is not None:
            return self.traversed(target), None
        if function == "url" and len(args) == 1:
            size = self.sized(args[0])
            return size.scaled(_STRING), size
        if function in ("lowerAscii", "upperAscii", "substring", "trim") and target is not None:
            size = self.sized(target)
            return size.scaled(_STRING), size
        if function == "replace" and target is not None and len(args) >= 2:
            size = self.sized(target)
            return size.scaled(2 * _STRING), _replaced(size, self.sized(args[0]), self.sized(args[1]))
        if function == "split" and target is not None:
            size = self.sized(target)
            most = size.high
            if len(args) > 1 and isinstance(args[1].expr, Const) and args[1].expr.value.__class__ is int:
                most = args[1].expr.value % 2**64
            return size.scaled(2 * _STRING), Range(0, most)
        if function == "join" and target is not None:
            size = self.joined(target, args)
            return size.scaled(_STRING), size
        if function in ("find", "findAll") and target is not None and args:
            size = self.sized(target)
            cost = size.plus(ONE).scaled(_STRING).times(self.sized(args[0]).scaled(_PATTERN))
            return cost, Range(0, size.high)
        if function == "ip" and overload == "cidr_ip":
            return ONE, None
        if function in ("cidr", "isIP", "isCIDR", "ip", "quantity", "isQuantity", "semver", "isSemver") and args:
            return self.sized(args[0]).scaled(_STRING), None
        if function == "ip.isCanonical" and args:
            return self.sized(args[0]).scaled(2 * _STRING), None
        if function in ("containsIP", "containsCIDR") and args:
            return self.contained(function, overload, args[0]), None
        if function == "validate" and args:
            return self.sized(args[0]).scaled(_STRING).scaled(_MAX_NAMED_FORMAT * _PATTERN), None
        if function in ("fieldSelector", "labelSelector") and len(args) == 1:
            size = self.sized(args[0])
            return LIST_BASE.plus(size.scaled(_STRING)).plus(size.scaled(0.5).scaled(50.0)), None
        if function == "_==_" and len(args) == 2 and args[0].type == args[1].type:
            return _opaque_equality(args[0].type, args[1])
        return None

    def traversed(self, target: _Operand) -> Range:
        size = self.sized(target)
        if not target.type.params:
            return size.scaled(_STRING)
        element = target.type.params[0]
        each = ONE
        if element.kind in (Kind.STRING, Kind.BYTES):
            each = each.plus(self.sized(self.element(target)).scaled(_STRING))
        return size.times(each)

    def element(self, target: _Operand) -> _Operand:
        path = (*target.path, "@items") if target.path else ()
        return _Operand(path, target.type.params[0], None, None)

    def joined(self, target: _Operand, args: list[_Operand]) -> Range:
        count = self.sized(target)
        size = ZERO
        if target.type.params:
            size = count.times(self.sized(self.element(target)))
        if args:
            between = Range(max(count.low - 1, 0), max(count.high - 1, 0))
            size = size.plus(self.sized(args[0]).times(between))
        return size

    def contained(self, function: str, overload: str, arg: _Operand) -> Range:
        bytes_ = Range(4, 16)
        cost = bytes_.plus(bytes_).scaled(_STRING)
        if function == "containsCIDR":
            cost = cost.plus(bytes_.scaled(_STRING)).plus(ONE)
        return cost.plus(self.sized(arg).scaled(_STRING)) if overload.endswith("_string") else cost

    def core_function(
        self,
        node: Call,
        overload: str,
        target: _Operand | None,
        args: list[_Operand],
        costs: list[Range],
        spent: Range,
    ) -> tuple[Range, Range | None]:
        sizes = [arg.size or UNKNOWN for arg in args]
        own = (target.size or UNKNOWN) if target is not None else UNKNOWN
        match overload:
            case "string_format" if target is not None:
                return own.scaled(_STRING).plus(spent), None
            case "string_to_bytes" if len(args) == 1:
                return sizes[0].scaled(_STRING).plus(spent), Range(sizes[0].low, sizes[0].high * 4 % 2**64)
            case "bytes_to_string" if len(args) == 1:
                return sizes[0].scaled(_STRING).plus(spent), Range(sizes[0].low // 4, sizes[0].high)
            case "strings_quote" if len(args) == 1:
                quoted = Range(sizes[0].low + 2, (sizes[0].high * 2 + 2) % 2**64)
                return sizes[0].scaled(_STRING).plus(spent), quoted
            case "starts_with_string" | "ends_with_string" if len(args) == 1:
                return sizes[0].scaled(_STRING).plus(spent), None
            case "in_list" if len(args) == 2:
                return sizes[1].scaled(1).plus(spent), None
            case "matches_string" if target is not None and len(args) == 1:
                cost = own.plus(ONE).scaled(_STRING).times(sizes[0].scaled(_PATTERN))
                return cost.plus(spent), None
            case "contains_string" if target is not None and len(args) == 1:
                return own.scaled(_STRING).times(sizes[0].scaled(_STRING)).plus(spent), None
            case "logical_or" | "logical_and":
                return Range(costs[0].low, costs[0].plus(costs[1]).high), None
            case "conditional":
                self.unite_entries(node, 1, 2)
                cost = costs[0].plus(costs[1].union(costs[2]))
                return cost, sizes[1].union(sizes[2])
            case "add_string" | "add_bytes" | "add_list" if len(args) == 2:
                self.unite_entries(node, 0, 1)
                size = sizes[0].plus(sizes[1])
                cost = ONE if overload == "add_list" else size.scaled(_STRING)
                return cost.plus(spent), size
        if overload in COMPARISONS:
            most = min(sizes[0].high, sizes[1].high)
            return Range(1 if most > 0 else 0, most).scaled(_STRING).plus(spent), None
        return ONE.plus(spent), None

    def unite_entries(self, node: Call, first: int, second: int) -> None:
        one, other = self.entries_of(node.args[first]), self.entries_of(node.args[second])
        if one is not None and other is not None:
            self.entries[node.id] = Entries(one.of_list, one.key.union(other.key), one.value.union(other.value))

    # --- what is known about nodes

    def operand(self, node: Expr) -> _Operand:
        path = self.path(node)
        if path and path[0] in (ACCUMULATOR, "__result__"):
            path = ()
        return _Operand(path, node.type, node, self.size(node))

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


_UNIT: Final = frozenset(
    t.name
    for t in (
        types.IP,
        types.CIDR,
        types.QUANTITY,
        types.SEMVER,
        types.AUTHORIZER,
        types.PATH_CHECK,
        types.GROUP_CHECK,
        types.RESOURCE_CHECK,
        types.DECISION,
    )
)


def _opaque_equality(one: Type, right: _Operand) -> tuple[Range, None] | None:
    if one.name in _UNIT:
        return ONE, None
    if one == types.FORMAT:
        return Range(1, _MAX_FORMAT_NAME).scaled(_STRING), None
    if one == types.URL:
        size = right.size if right.size is not None else ONE
        return Range(1, size.high).scaled(_STRING), None
    return None


def _allocating(factor: float, size: Range) -> tuple[Range, Range]:
    return size.scaled(factor).plus(ONE).plus(LIST_BASE), size


def _literal_size(operand: _Operand, otherwise: int) -> int:
    if not isinstance(operand.expr, Const) or operand.expr.value.__class__ is not int:
        return otherwise
    return max(int(operand.expr.value), 0)


def _replaced(size: Range, old: Range, new: Range) -> Range:
    most, kept_most = 0, 0
    if old.low == 0:
        most, kept_most = capped(size.high + 1), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = math.ceil(float(size.high) / float(old.low))
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = capped(size.low + 1), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = math.ceil(float(size.low) / float(old.high))
    return Range(capped(least), capped(most)).times(new).plus(Range(kept_least, kept_most))


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
