"""Checks of literals after the types: durations, timestamps, patterns and format strings (docs/spec/cel.md §4.2).

Such a literal fails at run time for certain; so it is reported as a mistake of the expression.
"""

from __future__ import annotations

from typing import Final

from cathedra.cel.checking import types
from cathedra.cel.checking.types import Kind, Type
from cathedra.cel.errors import Issue
from cathedra.cel.library import formatting, regex
from cathedra.cel.library.conversions import to_duration, to_timestamp
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Ident, ListLit, MapLit
from cathedra.cel.values import CELValue, Failure


def validate(root: Expr) -> list[Issue]:
    """Return the errors of the literals below ``root``."""
    issues: list[Issue] = []
    pending = [(root, False)]
    while pending:
        node, formatted = pending.pop()
        kind = node.__class__
        if kind is Const or kind is Ident:
            continue
        if isinstance(node, CallExpr):
            if node.function in _CHECKED:
                _validate_call(node, issues)
                formatted = formatted or node.function == "format"
        elif isinstance(node, ListLit) and not formatted:
            _validate_list(node, issues)
        elif isinstance(node, MapLit) and not formatted:
            _validate_map(node, issues)
        for child in node.children()[::-1]:
            pending.append((child, formatted))
    return issues


_CHECKED: Final = frozenset(("duration", "timestamp", "matches", "format"))


def _validate_call(node: CallExpr, issues: list[Issue]) -> None:
    function = node.function
    if not node.args:
        return
    first = node.args[0]
    if function in ("duration", "timestamp"):
        if isinstance(first, Const) and _fails(function, first):
            issues.append(Issue(first.offset, f"invalid {function} argument"))
    elif function == "matches":
        if isinstance(first, Const) and isinstance(first.value, str) and _bad_pattern(first.value):
            issues.append(Issue(first.offset, "invalid matches argument"))
    elif function == "format" and len(node.args) == 1 and isinstance(first, ListLit) and isinstance(node.target, Const):
        _validate_format(node, node.target.value, first, issues)


def _bad_pattern(pattern: str) -> bool:
    return isinstance(regex.compile_pattern(pattern), Failure)


def _fails(function: str, argument: Const) -> bool:
    value = argument.value
    if function == "timestamp":
        if value.__class__ is int:
            return isinstance(to_timestamp(value), Failure)
        return value.__class__ is not str or isinstance(to_timestamp(value), Failure)
    return value.__class__ is not str or isinstance(to_duration(value), Failure)


_ACCEPTED: Final = {
    "s": (
        Kind.LIST, Kind.MAP, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.BOOL, Kind.STRING, Kind.TIMESTAMP, Kind.BYTES,
        Kind.DURATION, Kind.TYPE, Kind.NULL,
    ),
    "d": (Kind.INT, Kind.UINT),
    "f": (Kind.DOUBLE, Kind.STRING),
    "e": (Kind.DOUBLE, Kind.STRING),
    "b": (Kind.INT, Kind.UINT, Kind.BOOL),
    "x": (Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES),
    "o": (Kind.INT, Kind.UINT),
}  # fmt: skip


def _validate_format(node: CallExpr, pattern: CELValue, arguments: ListLit, issues: list[Issue]) -> None:
    if not isinstance(pattern, str):
        return
    used = 0

    def clause(letter: str, _: int | None, position: int) -> str:
        nonlocal used
        used += 1
        wrong = _unfit(arguments.elements[position], letter)
        if wrong is not None:
            raise formatting.FormatError(formatting.wrong_type(letter, _name(wrong.type)), wrong.offset)
        return ""

    try:
        formatting.render(pattern, len(arguments.elements), clause, end_first=True)
    except formatting.FormatError as error:
        offset = error.argument if error.argument >= 0 else node.offset
        issues.append(Issue(offset, error.text))
        return
    given = len(arguments.elements)
    if given > used:
        message = f"too many arguments supplied to string.format (expected {used}, got {given})"
        issues.append(Issue(node.offset, message))


def _name(one: Type) -> str:
    return "google.protobuf.Any" if one.kind is Kind.ANY else one.name


def _unfit(root: Expr, letter: str) -> Expr | None:
    """Return the first part whose type does not fit. For ``%s`` the parts of list and map literals are checked too."""
    kinds = _ACCEPTED[letter.lower()]
    pending = [root]
    while pending:
        node = pending.pop()
        if node.type != types.DYN and node.type.kind not in kinds:
            return node
        if letter == "s" and isinstance(node, (ListLit, MapLit)):
            pending.extend(reversed(node.children()))
    return None


def _validate_list(node: ListLit, issues: list[Issue]) -> None:
    first: Type | None = None
    for position, element in enumerate(node.elements):
        one = _unwrapped(element.type, optional=position in node.optional)
        if first is None:
            first = one
        elif one != first:
            issues.append(Issue(element.offset, f"expected type '{first.text}' but found '{one.text}'"))
            return


def _validate_map(node: MapLit, issues: list[Issue]) -> None:
    key_type: Type | None = None
    value_type: Type | None = None
    for entry in node.entries:
        assert entry.key is not None
        key, value = entry.key.type, _unwrapped(entry.value.type, optional=entry.optional)
        if key_type is None or value_type is None:
            key_type, value_type = key, value
            continue
        if key != key_type:
            issues.append(Issue(entry.key.offset, f"expected type '{key_type.text}' but found '{key.text}'"))
        if value != value_type:
            issues.append(Issue(entry.value.offset, f"expected type '{value_type.text}' but found '{value.text}'"))


def _unwrapped(one: Type, *, optional: bool) -> Type:
    return one.params[0] if optional and one.name == "optional_type" else one
