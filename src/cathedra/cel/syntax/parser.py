"""Parses an expression the fast way; a Pratt parser that expands macros as it goes.

Only correct expressions come out of here. Whatever is wrong, the answer is the same short `Invalid`, and
`cathedra.cel.syntax.diagnosis` reads the text once more to find Kubernetes' words for it.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.cel.syntax import literals
from cathedra.cel.syntax.macros import Builder, MacroError, MacroTable
from cathedra.cel.syntax.tokens import EOF, Token, scan
from cathedra.cel.syntax.tree import Call, Const, Entry, Expr, Ident, ListLit, MapLit, Select, StructLit

__all__ = ["MAX_DEPTH", "RESERVED", "Invalid", "balance", "parse"]

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
_FUNCTIONS: Final = {op: f"_{op}_" for op in ("<", "<=", ">=", ">", "==", "!=", "+", "-", "*", "/", "%")} | {
    "in": "@in"
}


class Invalid(Exception):
    """The text is no correct expression."""


def parse(source: str, macros: MacroTable) -> Expr:
    """The tree of ``source``.

    Raises:
        Invalid: it is not correct, or nested too deeply.
    """
    tokens, reached = scan(source)
    if reached != len(source) or not tokens:
        raise Invalid
    parser = _Parser(tokens, macros)
    try:
        root = parser.expr()
    except (MacroError, literals.LiteralError) as error:
        raise Invalid from error
    if parser.tokens[parser.at].kind != EOF or root.depth > MAX_DEPTH:
        raise Invalid
    return root


def balance(build: Builder, function: str, terms: list[Expr], offsets: list[int]) -> Expr:
    """A chain of ``&&`` or ``||`` as a tree of little depth."""
    if len(terms) == 1:
        return terms[0]

    def tree(low: int, high: int) -> Expr:
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else tree(low, middle - 1)
        right = terms[middle + 1] if middle == high else tree(middle + 1, high)
        node = Call(build.next_id(), offsets[middle], function, [left, right])
        node.start, node.end, node.depth = left.start, right.end, max(left.depth, right.depth)
        return node

    return tree(0, len(offsets) - 1)


class _Parser:
    def __init__(self, tokens: list[Token], macros: MacroTable) -> None:
        self.tokens = tokens
        self.macros = macros
        self.at = 0
        self.nested = 0
        self.build = Builder()

    def take(self, kind: str) -> Token:
        token = self.tokens[self.at]
        if token.kind != kind:
            raise Invalid
        self.at += 1
        return token

    def expr(self) -> Expr:
        self.nested += 1
        if self.nested > MAX_DEPTH:
            raise Invalid
        node = self.operators(1)
        token = self.tokens[self.at]
        if token.kind == "?":
            self.at += 1
            then = self.operators(1)
            self.take(":")
            other = self.expr()
            call = Call(self.build.next_id(), token.start, "_?_:_", [node, then, other])
            call.start, call.end = node.start, other.end
            call.depth = 1 + max(node.depth, then.depth, other.depth)
            node = call
        self.nested -= 1
        return node

    def operators(self, lowest: int) -> Expr:
        """Operands and binary operators that bind at least as tightly as ``lowest``."""
        left = self.unary()
        while True:
            token = self.tokens[self.at]
            tightness = _TIGHTNESS.get(token.kind, 0)
            if tightness < lowest:
                return left
            if tightness <= 2:
                left = self.logic(token.kind, tightness, left)
                continue
            self.at += 1
            right = self.operators(tightness + 1)
            node = Call(self.build.next_id(), token.start, _FUNCTIONS[token.kind], [left, right])
            node.start, node.end = left.start, right.end
            node.depth = 1 + (left.depth if left.depth > right.depth else right.depth)
            left = node

    def logic(self, operator: str, tightness: int, first: Expr) -> Expr:
        terms, offsets = [first], []
        while self.tokens[self.at].kind == operator:
            offsets.append(self.tokens[self.at].start)
            self.at += 1
            terms.append(self.operators(tightness + 1))
        return balance(self.build, "_||_" if operator == "||" else "_&&_", terms, offsets)

    def unary(self) -> Expr:
        first = self.tokens[self.at]
        kind = first.kind
        if kind not in ("!", "-"):
            return self.member()
        if kind == "-" and self.tokens[self.at + 1].kind in ("NUM_INT", "NUM_FLOAT"):
            return self.member()
        count = 0
        while self.tokens[self.at].kind == kind:
            self.at += 1
            count += 1
        operand = self.member()
        if count % 2 == 0:
            return operand
        node = Call(self.build.next_id(), first.start, f"{kind}_", [operand])
        node.start, node.end, node.depth = first.start, operand.end, operand.depth
        return node

    def member(self) -> Expr:
        node = self.primary()
        while True:
            token = self.tokens[self.at]
            if token.kind == ".":
                node = self.select(token, node)
            elif token.kind == "[":
                node = self.index(token, node)
            else:
                return node

    def select(self, dot: Token, operand: Expr) -> Expr:
        self.at += 1
        token = self.tokens[self.at]
        optional = token.kind == "?"
        if optional:
            self.at += 1
        name = self.take("IDENTIFIER")
        opening = self.tokens[self.at]
        if opening.kind == "(" and not optional:
            self.at += 1
            args = self.arguments()
            depth = 1 + max([operand.depth, *[arg.depth for arg in args]])
            return self.call(opening, name.text, args, operand, operand.start, depth)
        node: Expr
        if optional:
            field = Const(self.build.next_id(), name.start, name.text)
            field.start, field.end = name.start, name.end
            node = Call(self.build.next_id(), dot.start, "_?._", [operand, field])
        else:
            node = Select(self.build.next_id(), dot.start, operand, name.text)
        node.start, node.end, node.depth = operand.start, name.end, operand.depth + 1
        return node

    def index(self, opening: Token, operand: Expr) -> Expr:
        self.at += 1
        optional = self.tokens[self.at].kind == "?"
        if optional:
            self.at += 1
        key = self.expr()
        closing = self.take("]")
        node = Call(self.build.next_id(), opening.start, "_[?_]" if optional else "_[_]", [operand, key])
        node.start, node.end, node.depth = operand.start, closing.end, 1 + max(operand.depth, key.depth)
        return node

    def arguments(self) -> list[Expr]:
        args: list[Expr] = []
        if self.tokens[self.at].kind != ")":
            args.append(self.expr())
            while self.tokens[self.at].kind == ",":
                self.at += 1
                args.append(self.expr())
        self.take(")")
        return args

    def call(self, opening: Token, name: str, args: list[Expr], target: Expr | None, start: int, depth: int) -> Expr:
        expander = self.macros.get((name, len(args), target is not None))
        node: Expr | None = None
        if expander is not None:
            self.build.offset = opening.start
            node = expander(self.build, target, args)
        if node is None:
            node = Call(self.build.next_id(), opening.start, name, args, target)
        node.start, node.end, node.depth = start, self.tokens[self.at - 1].end, depth
        return node

    def primary(self) -> Expr:
        token = self.tokens[self.at]
        kind = token.kind
        if kind == "IDENTIFIER" or kind == ".":
            return self.name(token)
        if kind == "(":
            self.at += 1
            node = self.expr()
            self.take(")")
            return node
        if kind == "[":
            return self.list_literal(token)
        if kind == "{":
            return self.map_literal(token)
        return self.literal(token)

    def name(self, first: Token) -> Expr:
        prefix = ""
        if first.kind == ".":
            self.at += 1
            prefix = "."
        token = self.take("IDENTIFIER")
        message = self.message_end()
        if message is not None:
            return self.message(first, prefix + token.text, message)
        if token.text in RESERVED:
            raise Invalid
        opening = self.tokens[self.at]
        if opening.kind == "(":
            self.at += 1
            args = self.arguments()
            depth = max([0, *[arg.depth for arg in args]])
            return self.call(opening, prefix + token.text, args, None, first.start, depth)
        node = Ident(self.build.next_id(), token.start, prefix + token.text)
        node.start, node.end = first.start, token.end
        return node

    def message_end(self) -> int | None:
        """Where the brace of a message literal stands, if dots and names lead up to one."""
        at, tokens = self.at, self.tokens
        while tokens[at].kind == "." and tokens[at + 1].kind == "IDENTIFIER":
            at += 2
        return at if tokens[at].kind == "{" else None

    def message(self, first: Token, name: str, brace: int) -> Expr:
        name += "".join(token.text for token in self.tokens[self.at : brace])
        self.at = brace + 1
        opening = self.tokens[brace]
        entries: list[Entry] = []
        while self.tokens[self.at].kind != "}":
            if entries:
                self.take(",")
                if self.tokens[self.at].kind == "}":
                    break
            optional = self.tokens[self.at].kind == "?"
            if optional:
                self.at += 1
            field = self.take("IDENTIFIER")
            colon = self.take(":")
            value = self.expr()
            entries.append(Entry(self.build.next_id(), colon.start, None, field.text, value, optional=optional))
        node = StructLit(self.build.next_id(), opening.start, name, entries)
        node.start, node.end = first.start, self.take("}").end
        node.depth = max([0, *[entry.value.depth for entry in entries]])
        return node

    def list_literal(self, opening: Token) -> Expr:
        self.at += 1
        elements: list[Expr] = []
        optional: list[int] = []
        while self.tokens[self.at].kind != "]":
            if elements:
                self.take(",")
                if self.tokens[self.at].kind == "]":
                    break
            elif self.tokens[self.at].kind == ",":
                self.at += 1
                break
            if self.tokens[self.at].kind == "?":
                self.at += 1
                optional.append(len(elements))
            elements.append(self.expr())
        closing = self.take("]")
        node = ListLit(self.build.next_id(), opening.start, elements, frozenset(optional))
        node.start, node.end = opening.start, closing.end
        node.depth = max([0, *[element.depth for element in elements]])
        return node

    def map_literal(self, opening: Token) -> Expr:
        self.at += 1
        entries: list[Entry] = []
        while self.tokens[self.at].kind != "}":
            if entries:
                self.take(",")
                if self.tokens[self.at].kind == "}":
                    break
            elif self.tokens[self.at].kind == ",":
                self.at += 1
                break
            optional = self.tokens[self.at].kind == "?"
            if optional:
                self.at += 1
            key = self.expr()
            colon = self.take(":")
            value = self.expr()
            entries.append(Entry(self.build.next_id(), colon.start, key, "", value, optional=optional))
        closing = self.take("}")
        node = MapLit(self.build.next_id(), opening.start, entries)
        node.start, node.end = opening.start, closing.end
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


def literal_value(token: Token, sign: str) -> Any:
    """The value of a literal's token.

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
