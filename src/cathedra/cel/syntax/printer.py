"""From a tree back to text: what `cathedra.cel.syntax.parser` reads as the same tree again.

Spaces and superfluous parentheses are gone, everything else is kept; tools use it to show and compare expressions. A
tree in which macros have been expanded has no text of its own: print what was parsed without macros, or show the
stretch of source that a node came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from cathedra.cel.syntax.macros import Builder
from cathedra.cel.syntax.parser import balance
from cathedra.cel.syntax.tree import Call, Const, Entry, Expr, Ident, ListLit, MapLit, Select, StructLit
from cathedra.cel.values import UInt

__all__ = ["show", "show_literal"]

_TERNARY: Final = 0
_UNARY: Final = 6
_MEMBER: Final = 7
_BINARY: Final = (
    {"_||_": ("||", 1), "_&&_": ("&&", 2), "@in": ("in", 3)}
    | {f"_{op}_": (op, 3) for op in ("<", "<=", ">=", ">", "==", "!=")}
    | {f"_{op}_": (op, 4) for op in ("+", "-")}
    | {f"_{op}_": (op, 5) for op in ("*", "/", "%")}
)
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def show(node: Expr) -> str:
    """The text of a tree.

    Raises:
        ValueError: the tree holds an expanded macro.
    """
    return _show(node)[0]


def show_literal(value: Any) -> str:
    """A literal of this value."""
    kind = value.__class__
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is UInt:
        return f"{int(value)}u"
    if kind is str:
        return f'"{value.translate(_ESCAPES)}"'
    if kind is bytes:
        shown = "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else f"\\x{b:02x}" for b in value)
        return f'b"{shown}"'
    return repr(value)


def _show(node: Expr) -> tuple[str, int]:
    """The text, and how tightly it holds together."""
    match node:
        case Const():
            return show_literal(node.value), _MEMBER
        case Ident():
            return node.name, _MEMBER
        case Select():
            shown = f"{_at_least(_MEMBER, node.operand)}.{node.field}"
            return (f"has({shown})" if node.test_only else shown), _MEMBER
        case Call():
            return _call(node)
        case ListLit():
            elements = (f"{'?' if n in node.optional else ''}{show(e)}" for n, e in enumerate(node.elements))
            return f"[{', '.join(elements)}]", _MEMBER
        case MapLit():
            return f"{{{_entries(node.entries)}}}", _MEMBER
        case StructLit():
            return f"{node.name}{{{_entries(node.entries)}}}", _MEMBER
    raise ValueError("an expanded macro has no text")


def _at_least(level: int, node: Expr) -> str:
    shown, tightness = _show(node)
    return shown if tightness >= level else f"({shown})"


def _entries(entries: Sequence[Entry]) -> str:
    return ", ".join(
        f"{'?' if e.optional else ''}{show(e.key) if e.key is not None else e.name}: {show(e.value)}" for e in entries
    )


def _call(node: Call) -> tuple[str, int]:
    function, args = node.function, node.args
    if function in ("_&&_", "_||_"):
        return _chain(node)
    if function in _BINARY:
        operator, level = _BINARY[function]
        return f"{_at_least(level, args[0])} {operator} {_at_least(level + 1, args[1])}", level
    if function == "_?_:_":
        return f"{_at_least(1, args[0])} ? {_at_least(1, args[1])} : {show(args[2])}", _TERNARY
    if function in ("!_", "-_"):
        operand = _at_least(_MEMBER, args[0])
        if function == "-_" and operand[0] in "-0123456789":
            operand = f"({operand})"
        return function[0] + operand, _UNARY
    if function in ("_[_]", "_[?_]"):
        return f"{_at_least(_MEMBER, args[0])}[{'?' if '?' in function else ''}{show(args[1])}]", _MEMBER
    if function == "_?._" and isinstance(args[1], Const):
        return f"{_at_least(_MEMBER, args[0])}.?{args[1].value}", _MEMBER
    target = f"{_at_least(_MEMBER, node.target)}." if node.target is not None else ""
    return f"{target}{function}({', '.join(map(show, args))})", _MEMBER


def _chain(node: Call) -> tuple[str, int]:
    """``a && b && c`` without parentheses, if the parser would build just this tree of it."""
    operator, level = _BINARY[node.function]
    terms = _terms(node, node.function)
    shape = balance(Builder(), node.function, terms, [0] * (len(terms) - 1))
    if not _same_shape(node, shape, node.function):
        left, right = node.args
        return f"{_at_least(level + 1, left)} {operator} {_at_least(level + 1, right)}", level
    return f" {operator} ".join(_at_least(level + 1, term) for term in terms), level


def _terms(node: Expr, function: str) -> list[Expr]:
    if isinstance(node, Call) and node.function == function:
        return [*_terms(node.args[0], function), *_terms(node.args[1], function)]
    return [node]


def _same_shape(one: Expr, other: Expr, function: str) -> bool:
    if one is other:
        return True
    if not isinstance(one, Call) or not isinstance(other, Call):
        return False
    if one.function != function or other.function != function:
        return False
    return all(_same_shape(a, b, function) for a, b in zip(one.args, other.args, strict=True))
