"""The macros: what ``has``, ``all``, ``map``, ``cel.bind`` and their kin become before anything is checked.

Each expansion has exactly the shape that Kubernetes gives it, because the cost of an expression is counted over this
shape (docs/spec/cel.md §5, §6.9 to §6.11 and §7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.syntax.tree import (
    CallExpr,
    Comprehension,
    Const,
    Expr,
    Fold,
    Ident,
    Iteration,
    ListLit,
    LiteralEntry,
    MapLit,
    Select,
    StructLit,
)
from cathedra.cel.values import CELValue

ACCUMULATOR: Final = "@result"
_OLD_ACCUMULATOR: Final = "__result__"
# optMap copies its target: nested calls double the tree each time, and forty of them would fill the memory.
_MAX_NODES: Final = 25_000
_OVERWRITES: Final = "iteration variable overwrites accumulator variable"


class MacroError(Exception):
    """The macro was meant, but its arguments do not fit; ``offset`` is the place to point at."""

    def __init__(self, offset: int, message: str) -> None:
        self.offset, self.message = offset, message
        super().__init__(message)


class Builder:
    """Makes nodes with fresh ids; those of an expansion all point at the macro's place."""

    def __init__(self) -> None:
        self.last_id = 0
        self.offset = 0

    def next_id(self) -> int:
        """Return a new node ID."""
        self.last_id += 1
        return self.last_id

    def const(self, value: CELValue) -> Const:
        """Return a literal with a fresh ID."""
        return Const(self.next_id(), self.offset, value)

    def ident(self, name: str) -> Ident:
        """Return a name with a fresh ID."""
        return Ident(self.next_id(), self.offset, name)

    def call(self, function: str, *args: Expr, target: Expr | None = None) -> CallExpr:
        """Return a call with a fresh ID."""
        return CallExpr(self.next_id(), self.offset, function, list(args), target)

    def list_of(self, *elements: Expr) -> ListLit:
        """Build a list literal."""
        return ListLit(self.next_id(), self.offset, list(elements))

    def comprehension(self, macro: str, over: Iteration, fold: Fold) -> Comprehension:
        """Return a comprehension with a fresh ID."""
        return Comprehension(self.next_id(), self.offset, macro, over, fold)

    def copy(self, node: Expr) -> Expr:
        """Return the same tree with fresh ids.

        Raises:
            MacroError: copies of copies have become too many; Kubernetes has no such limit, and runs out of memory.
        """
        if self.last_id > _MAX_NODES:
            raise MacroError(self.offset, f"expression has more than {_MAX_NODES} parts once its macros are expanded")
        new: Expr = _trampoline.run(_copied(self, node))
        return new


def _copied(build: Builder, node: Expr) -> Descent[Expr]:
    new = yield from _copy_node(build, node)
    # Positions in the source stay those of the original, for error texts.
    new.start, new.end, new.depth = node.start, node.end, node.depth
    return new


def _all_copied(build: Builder, nodes: Iterable[Expr]) -> Descent[list[Expr]]:
    made = []
    for node in nodes:
        made.append((yield _copied(build, node)))
    return made


def _copy_node(build: Builder, node: Expr) -> Descent[Expr]:
    id_, at = build.next_id(), node.offset
    match node:
        case Const():
            return Const(id_, at, node.value)
        case Ident():
            return Ident(id_, at, node.name)
        case Select():
            return Select(id_, at, (yield _copied(build, node.operand)), node.field, test_only=node.test_only)
        case CallExpr():
            target = (yield _copied(build, node.target)) if node.target is not None else None
            return CallExpr(id_, at, node.function, (yield from _all_copied(build, node.args)), target)
        case ListLit():
            return ListLit(id_, at, (yield from _all_copied(build, node.elements)), node.optional)
        case MapLit():
            return MapLit(id_, at, (yield from _copied_entries(build, node.entries)))
        case StructLit():
            return StructLit(id_, at, node.name, (yield from _copied_entries(build, node.entries)))
        case Comprehension():
            parts = yield from _all_copied(build, node.children())
            over = Iteration(parts[0], node.var, node.var2)
            return Comprehension(id_, at, node.macro, over, Fold(node.accu, *parts[1:]))
    return Expr(id_, at)  # a hole that a mistake has left


def _copied_entries(build: Builder, entries: Iterable[LiteralEntry]) -> Descent[list[LiteralEntry]]:
    made = []
    for one in entries:
        key = (yield _copied(build, one.key)) if one.key is not None else None
        value = yield _copied(build, one.value)
        made.append(LiteralEntry(build.next_id(), one.offset, key, one.name, value, optional=one.optional))
    return made


Expander = Callable[[Builder, Expr | None, list[Expr]], Expr | None]
MacroTable = Mapping[tuple[str, int, bool], Expander]
"""(name, number of arguments, called as a method) → expander; an expander answers None if it is not meant."""


def _has(build: Builder, _: Expr | None, args: list[Expr]) -> Expr:
    argument = args[0]
    if not isinstance(argument, Select):
        raise MacroError(argument.offset, "invalid argument to has() macro")
    # The macro's position, not the argument's: errors of has() point at the macro.
    return Select(build.next_id(), build.offset, argument.operand, argument.field, test_only=True)


def _variable(node: Expr, message: str) -> str:
    if not isinstance(node, Ident):
        raise MacroError(node.offset, message)
    return node.name


def _one_variable(node: Expr, message: str) -> tuple[str, str]:
    name = _variable(node, message)
    if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise MacroError(node.offset, _OVERWRITES)
    return name, ""


def _two_variables(args: list[Expr]) -> tuple[str, str]:
    first = _variable(args[0], "argument must be a simple name")
    second = _variable(args[1], "argument must be a simple name")
    if first == second:
        raise MacroError(args[1].offset, f"duplicate variable name: {first}")
    for node, name in ((args[0], first), (args[1], second)):
        if name in (ACCUMULATOR, _OLD_ACCUMULATOR):
            raise MacroError(node.offset, _OVERWRITES)
    return first, second


def _all(build: Builder, over: Iteration, predicate: Expr) -> Expr:
    init = build.const(True)
    # A failed element does not end the iteration: a later one may still decide.
    condition = build.call("@not_strictly_false", build.ident(ACCUMULATOR))
    step = build.call("_&&_", build.ident(ACCUMULATOR), predicate)
    return build.comprehension("all", over, Fold(ACCUMULATOR, init, condition, step, build.ident(ACCUMULATOR)))


def _exists(build: Builder, over: Iteration, predicate: Expr) -> Expr:
    init = build.const(False)
    condition = build.call("@not_strictly_false", build.call("!_", build.ident(ACCUMULATOR)))
    step = build.call("_||_", build.ident(ACCUMULATOR), predicate)
    return build.comprehension("exists", over, Fold(ACCUMULATOR, init, condition, step, build.ident(ACCUMULATOR)))


def _exists_one(build: Builder, over: Iteration, predicate: Expr) -> Expr:
    init = build.const(0)
    more = build.call("_+_", build.ident(ACCUMULATOR), build.const(1))
    step = build.call("_?_:_", predicate, more, build.ident(ACCUMULATOR))
    result = build.call("_==_", build.ident(ACCUMULATOR), build.const(1))
    return build.comprehension("exists_one", over, Fold(ACCUMULATOR, init, build.const(True), step, result))


def _collect(build: Builder, macro: str, over: Iteration, init: Expr, step: Expr, only: Expr | None) -> Expr:
    if only is not None:
        step = build.call("_?_:_", only, step, build.ident(ACCUMULATOR))
    always = build.const(True)
    return build.comprehension(macro, over, Fold(ACCUMULATOR, init, always, step, build.ident(ACCUMULATOR)))


def _append(build: Builder, element: Expr) -> Expr:
    return build.call("_+_", build.ident(ACCUMULATOR), build.list_of(element))


def _map(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    variables = _one_variable(args[0], "argument is not an identifier")
    only = args[1] if len(args) == 3 else None
    assert target is not None
    return _collect(build, "map", Iteration(target, *variables), build.list_of(), _append(build, args[-1]), only)


def _filter(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    variables = _one_variable(args[0], "argument is not an identifier")
    assert target is not None
    return _collect(build, "filter", Iteration(target, *variables), build.list_of(), _append(build, args[0]), args[1])


def _transform_list(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    variables = _two_variables(args)
    only = args[2] if len(args) == 4 else None
    assert target is not None
    return _collect(
        build, "transformList", Iteration(target, *variables), build.list_of(), _append(build, args[-1]), only
    )


def _transform_map(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    variables = _two_variables(args)
    only = args[2] if len(args) == 4 else None
    step = build.call("cel.@mapInsert", build.ident(ACCUMULATOR), build.ident(variables[0]), args[-1])
    assert target is not None
    return _collect(
        build, "transformMap", Iteration(target, *variables), MapLit(build.next_id(), build.offset, []), step, only
    )


def _transform_map_entry(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    variables = _two_variables(args)
    only = args[2] if len(args) == 4 else None
    step = build.call("cel.@mapInsert", build.ident(ACCUMULATOR), args[-1])
    assert target is not None
    return _collect(
        build, "transformMapEntry", Iteration(target, *variables), MapLit(build.next_id(), build.offset, []), step, only
    )


def _bound(build: Builder, macro: str, name: str, value: Expr, result: Expr) -> Expr:
    # cel-go binds by a comprehension over an empty list; its cost is counted like that of any other.
    over = Iteration(build.list_of(), "#unused")
    return build.comprehension(macro, over, Fold(name, value, build.const(False), build.ident(name), result))


def _bind(build: Builder, target: Expr | None, args: list[Expr]) -> Expr | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    name = _variable(args[0], "cel.bind() variable names must be simple identifiers")
    return _bound(build, "bind", name, args[1], args[2])


def _optional_map(flat: bool) -> Expander:
    name = "optFlatMap" if flat else "optMap"

    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        variable = _variable(args[0], f"{name}() variable name must be a simple identifier")
        assert target is not None
        there = build.call("hasValue", target=target)
        # A copy: the target stands in the tree twice, and costs are counted by node ID.
        value = build.call("value", target=build.copy(target))
        mapped = _bound(build, name, variable, value, args[1])
        if not flat:
            mapped = build.call("optional.of", mapped)
        return build.call("_?_:_", there, mapped, build.call("optional.none"))

    return expand


_SORTABLE: Final = (ListLit, Select, Ident, Comprehension, CallExpr)


def _sort_by(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
    assert target is not None
    if not isinstance(target, _SORTABLE):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.offset, message)
    name = "@__sortBy_input__"
    keys = _map(build, build.ident(name), args)
    return _bound(build, "sortBy", name, target, build.call("@sortByAssociatedKeys", keys, target=build.ident(name)))


def _quantifier(make: Callable[[Builder, Iteration, Expr], Expr], *, two: bool) -> Expander:
    def expand(build: Builder, target: Expr | None, args: list[Expr]) -> Expr:
        variables = _two_variables(args) if two else _one_variable(args[0], "argument must be a simple name")
        assert target is not None
        return make(build, Iteration(target, *variables), args[-1])

    return expand


STANDARD: Final[MacroTable] = {
    ("has", 1, False): _has,
    ("all", 2, True): _quantifier(_all, two=False),
    ("exists", 2, True): _quantifier(_exists, two=False),
    ("exists_one", 2, True): _quantifier(_exists_one, two=False),
    ("existsOne", 2, True): _quantifier(_exists_one, two=False),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
}
OPTIONALS: Final[MacroTable] = {("optMap", 2, True): _optional_map(False), ("optFlatMap", 2, True): _optional_map(True)}
TWO_VARIABLES: Final[MacroTable] = {
    ("all", 3, True): _quantifier(_all, two=True),
    ("exists", 3, True): _quantifier(_exists, two=True),
    ("exists_one", 3, True): _quantifier(_exists_one, two=True),
    ("existsOne", 3, True): _quantifier(_exists_one, two=True),
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
BINDINGS: Final[MacroTable] = {("bind", 3, True): _bind}
LISTS: Final[MacroTable] = {("sortBy", 2, True): _sort_by}
