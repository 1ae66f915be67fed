"""Which attributes and capacities of a device an expression reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from cathedra.cel.syntax.tree import CallExpr, Comprehension, Const, Expr, Ident, Select

__all__ = ["Binding", "Bound", "Read", "ReadPath", "bound_in", "path_of", "read_of"]

MAPS: Final = ("attributes", "capacity")


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """What a name stands for, and the names that held where that was said."""

    value: Expr
    names: Bound


Bound: TypeAlias = Mapping[str, Binding]
"""The names that ``cel.bind`` gave."""


@dataclass(frozen=True, slots=True)
class ReadPath:
    """The way from ``device`` to a value through literal names, as ``("attributes", "gpu.example.com", "model")``."""

    steps: tuple[str, ...]
    optional: bool = False
    """Whether a step is one that may lead nowhere, as ``.?model``."""

    def __str__(self) -> str:
        return "/".join(self.steps[1:]) if self.steps[:1] and self.steps[0] in MAPS else ".".join(self.steps)


@dataclass(frozen=True, slots=True)
class Read:
    """An attribute or capacity with a literal name."""

    map: str
    """«attributes» or «capacity»."""
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
    """What a node reads if it is an attribute or a capacity itself."""
    path = path_of(node, bound)
    if path is None or len(path.steps) != 3 or path.steps[0] not in MAPS:
        return None
    return Read(*path.steps)


def bound_in(node: Comprehension, bound: Bound) -> Bound:
    """The names that hold in the result of ``cel.bind``; the names of loops stand for nothing in particular."""
    if node.macro == "bind":
        return {**bound, node.accu: Binding(node.init, bound)}
    return {name: value for name, value in bound.items() if name not in (node.var, node.var2, node.accu)}
