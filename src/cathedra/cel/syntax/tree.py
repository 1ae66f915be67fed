"""The syntax tree of an expression.

Every node has the position for error messages (``offset``: the operator itself, or the parenthesis of a call, as in
Kubernetes) and the range of its source text (``start`` to ``end``), which explanations show. The checker stores its
results in the nodes. A tree therefore belongs to one compilation, and is read-only afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from cathedra.cel.values import CELValue

if TYPE_CHECKING:
    from cathedra.cel.checking.types import Type
    from cathedra.cel.library.overload import Overload


class Expr:
    """A node. ``id`` is unique in its tree; ``depth`` is its nesting for the depth limit."""

    __slots__ = ("depth", "end", "id", "offset", "start", "type")
    type: Type

    def __init__(self, id_: int, offset: int) -> None:
        self.id = id_
        self.offset = offset
        self.start = self.end = offset
        self.depth = 0

    def children(self) -> tuple[Expr, ...]:
        """Return the nodes directly below, in order of their evaluation."""
        return ()


class Const(Expr):
    """A literal in the source, by its value."""

    __slots__ = ("value",)

    def __init__(self, id_: int, offset: int, value: CELValue) -> None:
        super().__init__(id_, offset)
        self.value = value


class Ident(Expr):
    """A name; ``constant`` holds the type value if the name is that of a type."""

    __slots__ = ("constant", "name")

    def __init__(self, id_: int, offset: int, name: str) -> None:
        super().__init__(id_, offset)
        self.name = name
        self.constant: CELValue = None


class Select(Expr):
    """``operand.field``, or the test for its presence; ``qualified`` is the variable's name if dots were part of a
    name."""

    __slots__ = ("constant", "field", "operand", "qualified", "test_only")

    def __init__(self, id_: int, offset: int, operand: Expr, field: str, *, test_only: bool = False) -> None:
        super().__init__(id_, offset)
        self.operand, self.field, self.test_only = operand, field, test_only
        self.qualified: str | None = None
        self.constant: CELValue = None

    def children(self) -> tuple[Expr, ...]:
        return () if self.qualified is not None else (self.operand,)


class CallExpr(Expr):
    """A function, operator or method; ``overloads`` are those that the checker found possible."""

    __slots__ = ("args", "function", "overloads", "target")

    def __init__(self, id_: int, offset: int, function: str, args: list[Expr], target: Expr | None = None) -> None:
        super().__init__(id_, offset)
        self.function, self.args, self.target = function, args, target
        self.overloads: tuple[Overload, ...] = ()

    def children(self) -> tuple[Expr, ...]:
        return tuple(self.args) if self.target is None else (self.target, *self.args)


class ListLit(Expr):
    """``[a, ?b]``; ``optional`` holds the positions of the optional elements."""

    __slots__ = ("elements", "optional")

    def __init__(self, id_: int, offset: int, elements: list[Expr], optional: frozenset[int] = frozenset()) -> None:
        super().__init__(id_, offset)
        self.elements, self.optional = elements, optional

    def children(self) -> tuple[Expr, ...]:
        return tuple(self.elements)


class LiteralEntry:
    """One ``key: value`` of a map literal or ``field: value`` of a message literal."""

    __slots__ = ("id", "key", "name", "offset", "optional", "value")

    def __init__(self, id_: int, offset: int, key: Expr | None, name: str, value: Expr, *, optional: bool) -> None:
        self.id, self.offset, self.key, self.name, self.value, self.optional = id_, offset, key, name, value, optional


class MapLit(Expr):
    """``{k: v, ?k: v}``."""

    __slots__ = ("entries",)

    def __init__(self, id_: int, offset: int, entries: list[LiteralEntry]) -> None:
        super().__init__(id_, offset)
        self.entries = entries

    def children(self) -> tuple[Expr, ...]:
        return tuple(node for entry in self.entries for node in (entry.key, entry.value) if node is not None)


class StructLit(Expr):
    """A message literal: ``name{field: v}``."""

    __slots__ = ("entries", "name")

    def __init__(self, id_: int, offset: int, name: str, entries: list[LiteralEntry]) -> None:
        super().__init__(id_, offset)
        self.name, self.entries = name, entries

    def children(self) -> tuple[Expr, ...]:
        return tuple(entry.value for entry in self.entries)


class Iteration(NamedTuple):
    """The range of a comprehension and its variables; ``var2`` is empty for macros with one variable."""

    range: Expr
    var: str
    var2: str = ""


class Fold(NamedTuple):
    """The computation of a comprehension, as in CEL's own syntax tree.

    ``init`` is the first value of the accumulator ``accu``. While ``condition`` holds, ``step`` computes its next value
    for each element. ``result`` is the value of the whole.
    """

    accu: str
    init: Expr
    condition: Expr
    step: Expr
    result: Expr


class Comprehension(Expr):
    """The expansion of a macro: a `Fold` over an `Iteration`."""

    __slots__ = ("accu", "condition", "init", "macro", "range", "result", "step", "var", "var2")

    def __init__(self, id_: int, offset: int, macro: str, over: Iteration, fold: Fold) -> None:
        super().__init__(id_, offset)
        self.macro, (self.range, self.var, self.var2) = macro, over
        self.accu, self.init, self.condition, self.step, self.result = fold

    def children(self) -> tuple[Expr, ...]:
        return self.range, self.init, self.condition, self.step, self.result


def walk(root: Expr) -> Iterator[Expr]:
    """Yield every node of the tree, parents first, without recursion."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if below := node.children():
            pending += below[::-1]


def higher_than(limit: int, root: Expr) -> bool:
    """Return True if a node is nested deeper than ``limit``."""
    level, above = [root], 0
    while level:
        if above > limit:
            return True
        level = [child for node in level for child in node.children()]
        above += 1
    return False
