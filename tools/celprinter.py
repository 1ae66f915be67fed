"""From a tree back to text: what `cathedra.cel.syntax.parser` reads as the same tree again.

Spaces and superfluous parentheses are gone, everything else is kept; tools use it to show and compare expressions. A
tree in which macros have been expanded has no text of its own: print what was parsed without macros, or show the
stretch of source that a node came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.syntax.macros import Builder
from cathedra.cel.syntax.parser import balance
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Ident, ListLit, LiteralEntry, MapLit, Select, StructLit
from cathedra.cel.values import CELValue, UInt

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
    text: str = _trampoline.run(_text(node))
    return text


def show_literal(value: CELValue) -> str:
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


Shown = tuple[str, int]
"""A text, and how tightly it holds together."""


def _text(node: Expr) -> Descent[str]:
    return (yield from _show(node))[0]


def _texts(nodes: Iterable[Expr]) -> Descent[list[str]]:
    shown = []
    for node in nodes:
        shown.append((yield _text(node)))
    return shown


def _show(node: Expr) -> Descent[Shown]:
    match node:
        case Const():
            return show_literal(node.value), _MEMBER
        case Ident():
            return node.name, _MEMBER
        case Select():
            shown = f"{yield _at_least(_MEMBER, node.operand)}.{node.field}"
            return (f"has({shown})" if node.test_only else shown), _MEMBER
        case CallExpr():
            return (yield from _call(node))
        case ListLit():
            elements = yield from _texts(node.elements)
            marked = (f"{'?' if n in node.optional else ''}{text}" for n, text in enumerate(elements))
            return f"[{', '.join(marked)}]", _MEMBER
        case MapLit():
            return f"{{{yield from _entries(node.entries)}}}", _MEMBER
        case StructLit():
            return f"{node.name}{{{yield from _entries(node.entries)}}}", _MEMBER
    raise ValueError("an expanded macro has no text")


def _at_least(level: int, node: Expr) -> Descent[str]:
    shown, tightness = yield from _show(node)
    return shown if tightness >= level else f"({shown})"


def _entries(entries: Sequence[LiteralEntry]) -> Descent[str]:
    shown = []
    for one in entries:
        name = (yield _text(one.key)) if one.key is not None else one.name
        shown.append(f"{'?' if one.optional else ''}{name}: {yield _text(one.value)}")
    return ", ".join(shown)


def _call(node: CallExpr) -> Descent[Shown]:
    function, args = node.function, node.args
    if function in ("_&&_", "_||_"):
        return (yield from _chain(node))
    if function in _BINARY:
        operator, level = _BINARY[function]
        left = yield _at_least(level, args[0])
        return f"{left} {operator} {yield _at_least(level + 1, args[1])}", level
    if function == "_?_:_":
        condition, then = (yield _at_least(1, args[0])), (yield _at_least(1, args[1]))
        return f"{condition} ? {then} : {yield _text(args[2])}", _TERNARY
    if function in ("!_", "-_"):
        operand = yield _at_least(_MEMBER, args[0])
        if function == "-_" and operand[0] in "-0123456789":
            operand = f"({operand})"
        return function[0] + operand, _UNARY
    if function in ("_[_]", "_[?_]"):
        operand = yield _at_least(_MEMBER, args[0])
        return f"{operand}[{'?' if '?' in function else ''}{yield _text(args[1])}]", _MEMBER
    if function == "_?._" and isinstance(args[1], Const):
        return f"{yield _at_least(_MEMBER, args[0])}.?{args[1].value}", _MEMBER
    target = f"{yield _at_least(_MEMBER, node.target)}." if node.target is not None else ""
    return f"{target}{function}({', '.join((yield from _texts(args)))})", _MEMBER


def _chain(node: CallExpr) -> Descent[Shown]:
    """``a && b && c`` without parentheses, if the parser would build just this tree of it."""
    operator, level = _BINARY[node.function]
    terms = _terms(node, node.function)
    shape = balance(Builder(), node.function, terms, [0] * (len(terms) - 1))
    if not _same_shape(node, shape, node.function):
        terms = node.args
    shown = []
    for term in terms:
        shown.append((yield _at_least(level + 1, term)))
    return f" {operator} ".join(shown), level


def _terms(root: Expr, function: str) -> list[Expr]:
    """The operands of a chain, in order."""
    found, pending = [], [root]
    while pending:
        node = pending.pop()
        if isinstance(node, CallExpr) and node.function == function:
            pending.extend(reversed(node.args))
        else:
            found.append(node)
    return found


def _same_shape(one: Expr, other: Expr, function: str) -> bool:
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if (
            not isinstance(left, CallExpr)
            or not isinstance(right, CallExpr)
            or {left.function, right.function} != {function}
        ):
            return False
        pairs.extend(zip(left.args, right.args, strict=True))
    return True
