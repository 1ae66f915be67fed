"""Parses an expression the fast way: operator precedence on an explicit stack, macros expanded on the way.

Only correct expressions come out of here. Whatever is wrong, the answer is the same short `Invalid`, and
`cathedra.cel.syntax.diagnosis` reads the text once more to find Kubernetes' words for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.cel.syntax import literals
from cathedra.cel.syntax.macros import Builder, MacroError, MacroTable
from cathedra.cel.syntax.tokens import EOF, Token, scan
from cathedra.cel.syntax.tree import CallExpr, Const, Expr, Ident, ListLit, LiteralEntry, MapLit, Select, StructLit
from cathedra.cel.values import CELValue

MAX_DEPTH: Final = 250
RESERVED: Final = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
_TIGHTNESS: Final = (
    {"||": 1, "&&": 2}
    | dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3)
    | {"+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
)
_PREFIX: Final = 9
"""Prefix operators hold more tightly than all others."""
_BRANCH: Final = -1
_FUNCTIONS: Final = {op: f"_{op}_" for op in ("<", "<=", ">=", ">", "==", "!=", "+", "-", "*", "/", "%")} | {
    "in": "@in"
}


class Invalid(Exception):
    """The text is no correct expression."""


def parse(source: str, macros: MacroTable) -> Expr:
    """Return the tree of ``source``.

    Raises:
        Invalid: it is not correct, or nested too deeply.
    """
    tokens, reached = scan(source)
    if reached != len(source) or not tokens:
        raise Invalid
    parser = _Parser(tokens, macros)
    try:
        root = parser.whole()
    except (MacroError, literals.LiteralError) as error:
        raise Invalid from error
    # Kubernetes' parser recurses, and limits that; expressions that it refuses must be refused here too.
    if parser.tokens[parser.at].kind != EOF or root.depth > MAX_DEPTH:
        raise Invalid
    return root


def balance(build: Builder, function: str, terms: list[Expr], offsets: list[int]) -> Expr:
    """Return a chain of ``&&`` or ``||`` as a tree of little depth."""
    if len(terms) == 1:
        return terms[0]

    def tree(low: int, high: int) -> Expr:
        # Kubernetes balances chains in exactly this way; the order of evaluation, and so the cost, depends on it.
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else tree(low, middle - 1)
        right = terms[middle + 1] if middle == high else tree(middle + 1, high)
        node = CallExpr(build.next_id(), offsets[middle], function, [left, right])
        node.start, node.end, node.depth = left.start, right.end, max(left.depth, right.depth)
        return node

    return tree(0, len(offsets) - 1)


class _Level:
    """One expression being read: the root, or what stands between brackets.

    ``pending`` holds the operators that still wait for their right operand, outermost first. The rest belongs to the
    brackets: what opened them, and what was read inside of them so far.
    """

    __slots__ = (
        "entries", "key", "key_colon", "kind", "name", "node", "nodes", "opening", "optional", "pending", "start",
    )  # fmt: skip

    def __init__(self, kind: str, opening: Token) -> None:
        self.kind, self.opening = kind, opening
        self.pending: list[_Operator] = []
        self.nodes: list[Expr] = []
        self.entries: list[LiteralEntry] = []
        self.optional: list[int] = []
        self.node: Expr | None = None
        self.key: Expr | None = None
        self.key_colon: Token | None = None
        self.name = ""
        self.start = opening.start


class _Operator:
    """An operator whose right operand is being read.

    ``terms`` are the operands before it: one, or all of a chain of ``&&`` or ``||``, whose ``offsets`` are kept.
    """

    __slots__ = ("count", "kind", "offsets", "terms", "tightness", "token")

    def __init__(self, kind: str, tightness: int, token: Token, terms: list[Expr], count: int = 0) -> None:
        self.kind, self.tightness, self.token, self.terms, self.count = kind, tightness, token, terms, count
        self.offsets = [token.start]


class _Parser:
    """Reads operand by operand with a stack of its own, so that nesting costs no recursion."""

    def __init__(self, tokens: list[Token], macros: MacroTable) -> None:
        self.tokens = tokens
        self.macros = macros
        self.at = 0
        self.nested = 0
        self.build = Builder()
        self.levels: list[_Level] = []

    def take(self, kind: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise Invalid
        self.at += 1
        return token

    def accept(self, kind: str) -> bool:
        """Skip a token of ``kind``, if it is the next one."""
        if self.tokens[self.at].kind != kind:
            return False
        self.at += 1
        return True

    def whole(self) -> Expr:
        """Return the tree of all tokens.

        Raises:
            Invalid: they are no expression.
        """
        self.open("root", self.tokens[0])
        while True:
            node = self.operand()
            while node is not None:
                node = self.members(node)
                if node is None:
                    break
                node = self.operators(node)
                if node is None:
                    break
                if self.levels[-1].kind == "root":
                    return node
                node = self.close(node)

    def open(self, kind: str, opening: Token) -> _Level:
        """Begin an expression inside of brackets."""
        self.deepen()
        level = _Level(kind, opening)
        self.levels.append(level)
        return level

    def deepen(self) -> None:
        self.nested += 1
        if self.nested > MAX_DEPTH:
            raise Invalid

    # --- operands

    def operand(self) -> Expr | None:
        """Prefix operators and the beginning of an operand; None if brackets were opened, and their inside is next."""
        token = self.tokens[self.at]
        kind = token.kind
        # A minus before a number belongs to the literal: -9223372036854775808 has no positive counterpart.
        if kind == "!" or (kind == "-" and self.tokens[self.at + 1].kind not in ("NUM_INT", "NUM_FLOAT")):
            count = 0
            while self.tokens[self.at].kind == kind:
                self.at += 1
                count += 1
            self.levels[-1].pending.append(_Operator(kind, _PREFIX, token, [], count))
            token = self.tokens[self.at]
            kind = token.kind
        if kind == "IDENTIFIER" or kind == ".":
            return self.name(token)
        if kind == "(":
            self.at += 1
            self.open("(", token)
            return None
        if kind == "[":
            return self.list_literal(token)
        if kind == "{":
            return self.map_literal(token)
        return self.literal(token)

    def name(self, first: Token) -> Expr | None:
        prefix = ""
        if first.kind == ".":
            self.at += 1
            prefix = "."
        token = self.take("IDENTIFIER")
        brace = self.message_end()
        if brace is not None:
            return self.message(first, prefix + token.text, brace)
        if token.text in RESERVED:
            raise Invalid
        opening = self.tokens[self.at]
        if opening.kind == "(":
            self.at += 1
            return self.arguments(opening, prefix + token.text, None, first.start)
        node = Ident(self.build.next_id(), token.start, prefix + token.text)
        node.start, node.end = first.start, token.end
        return node

    def message_end(self) -> int | None:
        """Return the position of the brace of a message literal, if dots and names lead up to one."""
        at, tokens = self.at, self.tokens
        while tokens[at].kind == "." and tokens[at + 1].kind == "IDENTIFIER":
            at += 2
        return at if tokens[at].kind == "{" else None

    def message(self, first: Token, name: str, brace: int) -> Expr | None:
        name += "".join(token.text for token in self.tokens[self.at : brace])
        self.at = brace + 1
        if self.tokens[self.at].kind == "}":
            level = _Level("message", self.tokens[brace])
            level.name, level.start = name, first.start
            return self.finish_message(level)
        level = self.open("message", self.tokens[brace])
        level.name, level.start = name, first.start
        self.field(level)
        return None

    def field(self, level: _Level) -> None:
        """Read the name of a field and the colon after it."""
        if self.accept("?"):
            level.optional.append(len(level.entries))
        level.key = Const(0, 0, self.take("IDENTIFIER").text)
        level.key_colon = self.take(":")

    def finish_message(self, level: _Level) -> Expr:
        node = StructLit(self.build.next_id(), level.opening.start, level.name, level.entries)
        node.start, node.end = level.start, self.take("}").end
        node.depth = max([0, *[entry.value.depth for entry in level.entries]])
        return node

    def list_literal(self, opening: Token) -> Expr | None:
        self.at += 1
        # The grammar permits a single comma in an empty list.
        self.accept(",")
        level = _Level("list", opening)
        if self.tokens[self.at].kind == "]" or self.tokens[self.at - 1].kind == ",":
            return self.finish_list(level)
        self.element(self.open("list", opening))
        return None

    def element(self, level: _Level) -> None:
        if self.accept("?"):
            level.optional.append(len(level.nodes))

    def finish_list(self, level: _Level) -> Expr:
        closing = self.take("]")
        node = ListLit(self.build.next_id(), level.opening.start, level.nodes, frozenset(level.optional))
        node.start, node.end = level.opening.start, closing.end
        node.depth = max([0, *[element.depth for element in level.nodes]])
        return node

    def map_literal(self, opening: Token) -> Expr | None:
        self.at += 1
        self.accept(",")
        if self.tokens[self.at].kind == "}" or self.tokens[self.at - 1].kind == ",":
            return self.finish_map(_Level("map", opening))
        self.key(self.open("map", opening))
        return None

    def key(self, level: _Level) -> None:
        """Before a key: a question mark marks the entry as optional."""
        if self.accept("?"):
            level.optional.append(len(level.entries))
        level.key = None

    def finish_map(self, level: _Level) -> Expr:
        closing = self.take("}")
        node = MapLit(self.build.next_id(), level.opening.start, level.entries)
        node.start, node.end = level.opening.start, closing.end
        node.depth = max([0, *[n.depth for n in node.children()]])
        return node

    def literal(self, token: Token) -> Expr:
        sign = ""
        first = token
        if token.kind == "-":
            self.at += 1
            token, sign = self.tokens[self.at], "-"
        self.at += 1
        node = Const(self.build.next_id(), first.start, literal_value(token, sign))
        node.start, node.end = first.start, token.end
        return node

    # --- behind an operand

    def members(self, node: Expr) -> Expr | None:
        """Selections, indexes and methods behind an operand; None if brackets were opened."""
        while True:
            token = self.tokens[self.at]
            if token.kind == ".":
                selected = self.select(token, node)
                if selected is None:
                    return None
                node = selected
            elif token.kind == "[":
                self.at += 1
                level = self.open("index", token)
                level.node = node
                if self.accept("?"):
                    level.optional.append(0)
                return None
            else:
                return node

    def select(self, dot: Token, operand: Expr) -> Expr | None:
        self.at += 1
        optional = self.accept("?")
        name = self.take("IDENTIFIER")
        opening = self.tokens[self.at]
        if opening.kind == "(" and not optional:
            self.at += 1
            return self.arguments(opening, name.text, operand, operand.start)
        node: Expr
        if optional:
            field = Const(self.build.next_id(), name.start, name.text)
            field.start, field.end = name.start, name.end
            node = CallExpr(self.build.next_id(), dot.start, "_?._", [operand, field])
        else:
            node = Select(self.build.next_id(), dot.start, operand, name.text)
        node.start, node.end, node.depth = operand.start, name.end, operand.depth + 1
        return node

    def arguments(self, opening: Token, name: str, target: Expr | None, start: int) -> Expr | None:
        """Behind the parenthesis of a call."""
        if self.tokens[self.at].kind == ")":
            level = _Level("call", opening)
            level.name, level.node, level.start = name, target, start
            return self.finish_call(level)
        level = self.open("call", opening)
        level.name, level.node, level.start = name, target, start
        return None

    def finish_call(self, level: _Level) -> Expr:
        self.take(")")
        args, target, opening = level.nodes, level.node, level.opening
        depth = max([0, *[arg.depth for arg in args]])
        if target is not None:
            depth = 1 + max(depth, target.depth)
        expander = self.macros.get((level.name, len(args), target is not None))
        node: Expr | None = None
        if expander is not None:
            self.build.offset = opening.start
            node = expander(self.build, target, args)
        if node is None:
            node = CallExpr(self.build.next_id(), opening.start, level.name, args, target)
        node.start, node.end, node.depth = level.start, self.tokens[self.at - 1].end, depth
        return node

    # --- operators

    def operators(self, node: Expr) -> Expr | None:
        """Combine ``node`` with the operators that wait for it, as tightly as the next token allows.

        Returns the whole expression of this level if that token is no operator, None if an operand is next.
        """
        pending = self.levels[-1].pending
        token = self.tokens[self.at]
        kind = token.kind
        tightness = _TIGHTNESS.get(kind, 0)
        while pending:
            top = pending[-1]
            if top.tightness < tightness or top.tightness == _BRANCH:
                break
            # Chains of && and || are collected, to be balanced at their end.
            if top.tightness == tightness and tightness <= 2:
                top.terms.append(node)
                top.offsets.append(token.start)
                self.at += 1
                return None
            node = self.combined(pending.pop(), node)
        if tightness:
            self.at += 1
            pending.append(_Operator(kind, tightness, token, [node]))
            return None
        return self.branches(pending, token, node)

    def branches(self, pending: list[_Operator], token: Token, node: Expr) -> Expr | None:
        """Handle the conditional operator. Return the whole expression if the next token does not continue it, None if
        an operand is next."""
        inner = pending[-1] if pending else None
        if token.kind == "?" and (inner is None or inner.kind == ":"):
            self.at += 1
            pending.append(_Operator("?", _BRANCH, token, [node]))
            return None
        if inner is not None and inner.kind == "?":
            self.take(":")
            self.deepen()
            inner.kind = ":"
            inner.terms.append(node)
            return None
        while pending:
            node = self.conditional(pending.pop(), node)
        return node

    def conditional(self, operator: _Operator, other: Expr) -> Expr:
        self.nested -= 1
        condition, then = operator.terms
        node = CallExpr(self.build.next_id(), operator.token.start, "_?_:_", [condition, then, other])
        node.start, node.end = condition.start, other.end
        node.depth = 1 + max(condition.depth, then.depth, other.depth)
        return node

    def combined(self, operator: _Operator, node: Expr) -> Expr:
        """Return the node of an operator whose last operand is ``node``."""
        if operator.tightness == _PREFIX:
            # Double negation disappears in the parser, as in Kubernetes: it costs nothing.
            if operator.count % 2 == 0:
                return node
            made = CallExpr(self.build.next_id(), operator.token.start, f"{operator.kind}_", [node])
            made.start, made.end, made.depth = operator.token.start, node.end, node.depth
            return made
        if operator.tightness <= 2:
            function = "_||_" if operator.kind == "||" else "_&&_"
            return balance(self.build, function, [*operator.terms, node], operator.offsets)
        left = operator.terms[0]
        made = CallExpr(self.build.next_id(), operator.token.start, _FUNCTIONS[operator.kind], [left, node])
        made.start, made.end = left.start, node.end
        made.depth = 1 + (left.depth if left.depth > node.depth else node.depth)
        return made

    # --- the ends of brackets

    def close(self, node: Expr) -> Expr | None:
        """Return the operand that ``node`` and its brackets form; None if another expression follows in them."""
        level = self.levels[-1]
        made = _CLOSING[level.kind](self, level, node)
        if made is not None:
            self.levels.pop()
            self.nested -= 1
        return made

    def close_parenthesis(self, _: _Level, node: Expr) -> Expr:
        self.take(")")
        return node

    def close_argument(self, level: _Level, node: Expr) -> Expr | None:
        level.nodes.append(node)
        return None if self.accept(",") else self.finish_call(level)

    def close_index(self, level: _Level, key: Expr) -> Expr:
        operand = level.node
        assert operand is not None
        closing = self.take("]")
        function = "_[?_]" if level.optional else "_[_]"
        node = CallExpr(self.build.next_id(), level.opening.start, function, [operand, key])
        node.start, node.end, node.depth = operand.start, closing.end, 1 + max(operand.depth, key.depth)
        return node

    def close_element(self, level: _Level, node: Expr) -> Expr | None:
        level.nodes.append(node)
        if self.accept(",") and self.tokens[self.at].kind != "]":
            self.element(level)
            return None
        return self.finish_list(level)

    def close_entry(self, level: _Level, node: Expr) -> Expr | None:
        if level.key is None:
            level.key, level.key_colon = node, self.take(":")
            return None
        self.enter(level, level.key, "", node)
        if self.accept(",") and self.tokens[self.at].kind != "}":
            self.key(level)
            return None
        return self.finish_map(level)

    def close_field(self, level: _Level, node: Expr) -> Expr | None:
        assert isinstance(level.key, Const)
        self.enter(level, None, level.key.value, node)
        if self.accept(",") and self.tokens[self.at].kind != "}":
            self.field(level)
            return None
        return self.finish_message(level)

    def enter(self, level: _Level, key: Expr | None, name: str, value: Expr) -> None:
        colon = level.key_colon
        assert colon is not None
        optional = bool(level.optional) and level.optional[-1] == len(level.entries)
        level.entries.append(LiteralEntry(self.build.next_id(), colon.start, key, name, value, optional=optional))


_CLOSING: Final[dict[str, Callable[[_Parser, _Level, Expr], Expr | None]]] = {
    "(": _Parser.close_parenthesis,
    "call": _Parser.close_argument,
    "index": _Parser.close_index,
    "list": _Parser.close_element,
    "map": _Parser.close_entry,
    "message": _Parser.close_field,
}


def literal_value(token: Token, sign: str) -> CELValue:
    """Return the value of a literal's token.

    Raises:
        LiteralError: out of range, or an escape that names no character.
        Invalid: the token is no literal.
    """
    kind, text = token.kind, token.text
    if kind == "STRING":
        return literals.parse_string(text)
    if kind == "NUM_INT":
        return literals.parse_int(sign + text)
    if kind == "NUM_FLOAT":
        return literals.parse_double(sign + text)
    if kind == "NUM_UINT":
        return literals.parse_uint(text)
    if kind == "BYTES":
        return literals.parse_bytes(text)
    if kind == "true" or kind == "false":
        return kind == "true"
    if kind == "null":
        return None
    raise Invalid
