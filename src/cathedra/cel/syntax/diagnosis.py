"""Error texts for expressions that `cathedra.cel.syntax.parser` has refused.

Three sources of reports, as in Kubernetes: characters that start no token, tokens in places where none of their kind
may stand (`cathedra.cel.syntax.recognizer`), and, in what could be read nevertheless, literals without a value,
reserved names and macros with unfitting arguments. All are collected, so that a user sees them at once
(docs/spec/cel.md §4.2).
"""

from __future__ import annotations

import re
from typing import Final

from cathedra.cel import _trampoline
from cathedra.cel._trampoline import Descent
from cathedra.cel.errors import Issue
from cathedra.cel.syntax.literals import LiteralError
from cathedra.cel.syntax.macros import Builder, MacroError, MacroTable
from cathedra.cel.syntax.parser import MAX_DEPTH, RESERVED, Invalid, balance, literal_value
from cathedra.cel.syntax.recognizer import Context, Recognizer, Stopped, syntax_issue
from cathedra.cel.syntax.tokens import EOF, Token, scan
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Ident, ListLit, LiteralEntry, MapLit, Select, StructLit

MAX_CODE_POINTS: Final = 100_000


def diagnose(source: str, macros: MacroTable) -> list[Issue]:
    """Return the errors of ``source``; at least one issue if it is incorrect."""
    # Before anything else: recovery takes more than linear time.
    if len(source) > MAX_CODE_POINTS:
        message = f"expression code point size exceeds limit: size: {len(source)}, limit {MAX_CODE_POINTS}"
        return [Issue(-1, message)]
    issues: list[Issue] = []
    try:
        characters = list(source)
        tokens = _tokens(source, characters, issues)
        whole = Recognizer(characters, tokens, issues).read()
        _trampoline.run(_Reader(macros, issues).visit(whole.first))
    except Stopped:
        pass
    return issues


# --- characters


_ESCAPE: Final = r"""\\(?:[abfnrtv"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"""
_BEGUN_ESCAPE: Final = r"(?:\\(?:[xX][0-9a-fA-F]?|u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|[0-3][0-7]?)?)?"
_BEGUN: Final = re.compile(
    rf'"(?:{_ESCAPE}|[^\\"\n\r])*{_BEGUN_ESCAPE}'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*{_BEGUN_ESCAPE}"
    r"|`[A-Za-z0-9_.\-/ ]*|[&|=]|"
)
"""The longest beginning of a token that never came to its end."""


def _tokens(source: str, characters: list[str], issues: list[Issue]) -> list[Token]:
    """Return all tokens. Characters that belong to none are reported, and become empty in ``characters``."""
    tokens: list[Token] = []
    start = 0
    while True:
        found, reached = scan(source, start)
        tokens += found
        if tokens and tokens[-1].kind == EOF:
            return tokens
        begun = _BEGUN.match(source, reached)
        assert begun is not None
        start = min(begun.end() + 1, len(source))
        # Error texts quote the source without the characters that belong to no token.
        characters[reached:start] = [""] * (start - reached)
        syntax_issue(issues, reached, f"token recognition error at: '{source[reached:start]}'")


# --- what could be read


class _Reader:
    """Turns a tree of `Context` into one of `Expr`, for the sake of the mistakes met on the way."""

    def __init__(self, macros: MacroTable, issues: list[Issue]) -> None:
        self.macros, self.issues = macros, issues
        self.build = Builder()
        self.depth = 0

    def visit(self, it: Context | None) -> Descent[Expr]:
        node = _unnested(it)
        if node is None:
            return self.nothing(-1)
        method = getattr(self, f"visit_{node.kind.replace(' ', '_')}", None)
        if method is None:
            return self.nothing(-1)
        if node.kind not in _COUNTED:
            return (yield from self.made(method(node)))
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.issues.append(Issue(-1, "max recursion depth exceeded"))
            raise Stopped
        made = yield from self.made(method(node))
        self.depth -= 1
        return made

    def made(self, found: Expr | Descent[Expr]) -> Descent[Expr]:
        """Return the result of a visit. The walk of a node with parts is returned as it is."""
        return found if isinstance(found, Expr) else (yield from found)

    def all(self, *contexts: Context | None) -> Descent[list[Expr]]:
        found = []
        for one in contexts:
            found.append((yield self.visit(one)))
        return found

    def nothing(self, offset: int) -> Expr:
        """Return a placeholder for a missing or wrong expression."""
        return Expr(self.build.next_id(), offset)

    def wrong(self, offset: int, message: str) -> Expr:
        self.issues.append(Issue(offset, message))
        return self.nothing(offset)

    def visit_expr(self, it: Context) -> Descent[Expr]:
        assert it.op is not None
        parts = yield from self.all(it.first, _nth(it.rest, 0), _nth(it.rest, 1))
        return self.call(it.op, "_?_:_", parts)

    def visit_conditionalOr(self, it: Context) -> Descent[Expr]:  # noqa: N802 - named after the rule of the grammar
        return (yield from self.chain(it, "_||_"))

    def visit_conditionalAnd(self, it: Context) -> Descent[Expr]:  # noqa: N802 - named after the rule of the grammar
        return (yield from self.chain(it, "_&&_"))

    def chain(self, it: Context, function: str) -> Descent[Expr]:
        terms: list[Expr] = [(yield self.visit(it.first))]
        for position in range(len(it.ops)):
            if position >= len(it.rest):
                return self.wrong(it.start.start, f"unexpected character, wanted '{function.strip('_')}'")
            terms.append((yield self.visit(it.rest[position])))
        return balance(self.build, function, terms, [op.start for op in it.ops])

    def visit_relation(self, it: Context) -> Descent[Expr]:
        return (yield from self.binary(it))

    def visit_calc(self, it: Context) -> Descent[Expr]:
        return (yield from self.binary(it))

    def binary(self, it: Context) -> Descent[Expr]:
        if it.op is None:
            return self.wrong(it.start.start, "operator not found")
        function = "@in" if it.op.kind == "in" else f"_{it.op.kind}_"
        return self.call(it.op, function, (yield from self.all(it.first, _nth(it.rest, 0))))

    def visit_unary(self, it: Context) -> Expr:
        return Const(self.build.next_id(), it.start.start, "<<error>>")

    def visit_not(self, it: Context) -> Descent[Expr]:
        return (yield from self.prefixed(it, "!_"))

    def visit_negate(self, it: Context) -> Descent[Expr]:
        return (yield from self.prefixed(it, "-_"))

    def prefixed(self, it: Context, function: str) -> Descent[Expr]:
        operand: Expr = yield self.visit(it.first)
        return operand if len(it.ops) % 2 == 0 else self.call(it.ops[0], function, [operand])

    def visit_select(self, it: Context) -> Descent[Expr]:
        operand: Expr = yield self.visit(it.first)
        if it.op is None or not it.rest:
            return self.nothing(it.start.start)
        name = self.name(it.rest[0], it.rest[0].start.start)
        if it.opt is not None:
            field = Const(self.build.next_id(), it.rest[0].start.start, name)
            return CallExpr(self.build.next_id(), it.op.start, "_?._", [operand, field])
        return Select(self.build.next_id(), it.op.start, operand, name)

    def name(self, it: Context | None, offset: int) -> str:
        if it is not None and it.kind == "simple" and it.id is not None:
            return it.id.text
        escaped = it is not None and it.kind == "escaped"
        self.issues.append(Issue(offset, "unsupported syntax: '`'" if escaped else "unsupported ident kind"))
        return ""

    def visit_method(self, it: Context) -> Descent[Expr]:
        operand: Expr = yield self.visit(it.first)
        if it.id is None or it.op is None:
            return self.nothing(it.start.start)
        return self.call(it.op, it.id.text, (yield from self.arguments(it)), operand)

    def visit_index(self, it: Context) -> Descent[Expr]:
        operand: Expr = yield self.visit(it.first)
        if it.op is None:
            return self.nothing(it.start.start)
        key = yield self.visit(_nth(it.rest, 0))
        return self.call(it.op, "_[_]" if it.opt is None else "_[?_]", [operand, key])

    def arguments(self, it: Context) -> Descent[list[Expr]]:
        return (yield from self.all(*it.values[0].rest)) if it.values else []

    def visit_ident(self, it: Context) -> Expr:
        if it.id is None:
            return self.nothing(it.start.start)
        if it.id.text in RESERVED:
            return self.wrong(it.start.start, f"reserved identifier: {it.id.text}")
        return Ident(self.build.next_id(), it.id.start, ("." if it.dot is not None else "") + it.id.text)

    def visit_call(self, it: Context) -> Descent[Expr]:
        if it.id is None or it.op is None:
            return self.nothing(it.start.start)
        if it.id.text in RESERVED:
            return self.wrong(it.start.start, f"reserved identifier: {it.id.text}")
        return self.call(it.op, ("." if it.dot is not None else "") + it.id.text, (yield from self.arguments(it)))

    def call(self, op: Token, function: str, args: list[Expr], target: Expr | None = None) -> Expr:
        """Build a call, or the expansion of the macro of this name."""
        expander = self.macros.get((function, len(args), target is not None))
        if expander is not None:
            self.build.offset = op.start
            try:
                made = expander(self.build, target, args)
            except MacroError as error:
                return self.wrong(error.offset, error.message)
            if made is not None:
                return made
        return CallExpr(self.build.next_id(), op.start, function, args, target)

    def visit_list(self, it: Context) -> Descent[Expr]:
        elements = (yield from self.all(*(one.first for one in it.values[0].rest))) if it.values else []
        return ListLit(self.build.next_id(), it.start.start, elements)

    def visit_map(self, it: Context) -> Descent[Expr]:
        return MapLit(self.build.next_id(), it.start.start, (yield from self.entries(it)))

    def entries(self, it: Context) -> Descent[list[LiteralEntry]]:
        made: list[LiteralEntry] = []
        inner = it.values[0] if it.values else None
        for position, colon in enumerate(inner.ops if inner is not None else ()):
            assert inner is not None
            if position >= len(inner.rest) or position >= len(inner.values):
                return []
            key, value = yield from self.all(inner.rest[position].first, inner.values[position])
            optional = inner.rest[position].opt is not None
            made.append(LiteralEntry(self.build.next_id(), colon.start, key, "", value, optional=optional))
        return made

    def visit_message(self, it: Context) -> Descent[Expr]:
        name = ("." if it.dot is not None else "") + ".".join(token.text for token in it.ids)
        offset = it.op.start if it.op is not None else it.start.start
        return StructLit(self.build.next_id(), offset, name, (yield from self.fields(it)))

    def fields(self, it: Context) -> Descent[list[LiteralEntry]]:
        made: list[LiteralEntry] = []
        inner = it.values[0] if it.values else None
        for position, field in enumerate(inner.rest if inner is not None else ()):
            assert inner is not None
            if position >= len(inner.ops) or position >= len(inner.values):
                return []
            before = len(self.issues)
            name = self.name(field.first, inner.start.start)
            # A field without a name has no value to be visited, in Kubernetes.
            if len(self.issues) == before:
                value = yield self.visit(inner.values[position])
                colon = inner.ops[position].start
                made.append(
                    LiteralEntry(self.build.next_id(), colon, None, name, value, optional=field.opt is not None)
                )
        return made

    def visit_literal_value(self, it: Context) -> Expr:
        if it.id is None:
            return self.nothing(it.start.start)
        try:
            value = literal_value(it.id, "-" if it.op is not None else "")
        except LiteralError as error:
            return self.wrong(it.start.start, str(error))
        except Invalid:
            return self.nothing(it.start.start)
        return Const(self.build.next_id(), it.start.start, value)


_COUNTED: Final = frozenset(("expr", "relation", "calc", "select", "method", "index"))
_TRANSPARENT: Final = frozenset(("operand", "primary of member", "nested", "literal of primary"))


def _unnested(it: Context | None) -> Context | None:
    """Return the first node downwards that is more than a wrapper around another one; None if there is none."""
    while it is not None:
        plain = it.op is None and not it.ops and it.kind in (
            "expr", "conditionalOr", "conditionalAnd", "relation", "calc",
        )  # fmt: skip
        if not plain and it.kind not in _TRANSPARENT:
            return it
        it = it.first
    return None


def _nth(contexts: list[Context], position: int) -> Context | None:
    return contexts[position] if position < len(contexts) else None
