"""Selectors: which objects, by label, by field, and which nodes.

Label selectors exist as text (``app=web,tier in (a, b)``) and as objects; both become one `Selector`. Field selectors
are text. Node selectors choose nodes by label and by name for pods, slices and allocations
(docs/spec/apimachinery.md §8; NodeAffinity in docs/spec/scheduling.md §17).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cathedra.api import formats
from cathedra.api.core import core_v1, meta_v1

IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER: Final = "gt"
LESS: Final = "lt"


class SelectorError(ValueError):
    """A selector is not well-formed; the text is Kubernetes' own."""


class Requirement(msgspec.Struct, frozen=True):
    """One condition on labels: key, operator, values."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if ``labels`` satisfy it; an absent key satisfies the negative operators."""
        value = labels.get(self.key)
        if self.operator in (EQUALS, DOUBLE_EQUALS, IN):
            # A missing label never equals, not even the empty text.
            return value in self.values if value is not None else False
        if self.operator in (NOT_EQUALS, NOT_IN):
            return value is None or value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == DOES_NOT_EXIST:
            return value is None
        return _compares(value, self.operator, next(iter(self.values)))

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        if self.operator in (IN, NOT_IN):
            return f"{self.key} {self.operator} ({','.join(sorted(self.values))})"
        sign = {GREATER: ">", LESS: "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{next(iter(self.values))}"


def _compares(value: str | None, operator: str, bound: str) -> bool:
    number, limit = _int64(value), _int64(bound)
    if number is None or limit is None:
        return False
    return number > limit if operator == GREATER else number < limit


def _int64(text: str | None) -> int | None:
    # No more than 19 digits matter; Python refuses to read thousands of them.
    if text is None or not re.fullmatch(r"[+-]?0*[0-9]{1,19}", text, re.ASCII):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Selector(msgspec.Struct, frozen=True):
    """Requirements on labels, all of which must be met; none at all select everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """Selects no object whatever its labels (the selector of an absent `LabelSelector`)."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels is selected."""
        return not self.nothing and all(requirement.matches(labels) for requirement in self.requirements)

    @property
    def empty(self) -> bool:
        """True if it selects everything."""
        return not self.nothing and not self.requirements

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)

_OBJECT_OPERATORS: Final = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}


def from_label_selector(selector: meta_v1.LabelSelector | None) -> Selector:
    """Return the selector of an object: an absent one selects nothing, an empty one everything.

    Raises:
        SelectorError: an operator is unknown, or has the wrong number of values.
    """
    if selector is None:
        return NOTHING
    requirements = [Requirement(key, EQUALS, frozenset((value,))) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _OBJECT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(_requirement(expression.key, operator, expression.values))
    # Sorted by key, as Kubernetes prints them; watchers with equal selectors are grouped by this text.
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def parse_label_selector(text: str) -> Selector:
    """Parse the ``labelSelector`` of a query.

    Raises:
        SelectorError: it does not parse.
    """
    requirements = _SelectorParser(text).parse()
    return (
        Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key))) if requirements else EVERYTHING
    )


def _requirement(key: str, operator: str, values: Iterable[str]) -> Requirement:
    wanted = tuple(dict.fromkeys(values))
    _check_key(key)
    if operator in (IN, NOT_IN) and not wanted:
        raise SelectorError("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")
    if operator in (EXISTS, DOES_NOT_EXIST) and wanted:
        raise SelectorError(
            f"values: Invalid value: {list(wanted)}: values set must be empty for exists and does not exist"
        )
    if operator in (GREATER, LESS):
        for position, value in enumerate(wanted):
            if _int64(value) is None:
                raise SelectorError(
                    f'values[{position}]: Invalid value: "{value}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
    for position, value in enumerate(wanted):
        problems = formats.label_value(value)
        if problems:
            raise SelectorError(f'values[{position}][{key}]: Invalid value: "{value}": {"; ".join(problems)}')
    return Requirement(key, operator, frozenset(wanted))


def _check_key(key: str) -> None:
    problems = formats.label_key(key)
    if problems:
        raise SelectorError(f'key: Invalid value: "{key}": {"; ".join(problems)}')


_TOKEN: Final = re.compile(r"\s*(?:(==|!=|[=!(),<>])|([^\s=!(),<>]+))")
_OPERATORS: Final = {
    "in": IN,
    "notin": NOT_IN,
    "=": EQUALS,
    "==": DOUBLE_EQUALS,
    "!=": NOT_EQUALS,
    ">": GREATER,
    "<": LESS,
}
_END: Final = ""


class _SelectorParser:
    """Recursive descent over a label selector's tokens; the empty token is the end."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] or match[2] for match in _TOKEN.finditer(text.rstrip())]
        self._symbols = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            token = self._peek()
            if token == _END:
                return requirements
            if token != "!" and token in self._symbols:
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from error
            after = self._next()
            if after == _END:
                return requirements
            if after != ",":
                raise SelectorError(f"found '{after}', expected: ',' or 'end of string'")
            following = self._peek()
            if following == _END or (following != "!" and following in self._symbols):
                raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._next()
        if key == _END or key in self._symbols:
            raise SelectorError(f"found '{key}', expected: identifier")
        _check_key(key)
        if negated or self._peek() in (_END, ","):
            return Requirement(key, DOES_NOT_EXIST if negated else EXISTS)
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise SelectorError(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in (IN, NOT_IN) else [self._value()]
        return _requirement(key, operator, values)

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._next()
        if token in self._symbols:
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> list[str]:
        opening = self._next()
        if opening != "(":
            raise SelectorError(f"found '{opening}' expected: '('")
        # «in ()» is a set with the empty text.
        if self._peek() == ")":
            self._next()
            return [""]
        if self._peek() == _END or (self._peek() != "," and self._peek() in self._symbols):
            raise SelectorError(f"found '{self._peek()}', expected: ',', ')' or identifier")
        values = self._identifiers()
        closing = self._next()
        if closing != ")":
            raise SelectorError(f"found '{closing}', expected: ')'")
        return values

    def _identifiers(self) -> list[str]:
        values: list[str] = []
        while True:
            token = self._next()
            if token == ",":
                if not values:
                    values.append("")
                if self._peek() == ")":
                    return [*values, ""]
                if self._peek() == ",":
                    self._next()
                    values.append("")
                continue
            if token == _END or token in self._symbols:
                raise SelectorError(f"found '{token}', expected: ',', or identifier")
            values.append(token)
            if self._peek() == ")":
                return values
            if self._peek() != ",":
                raise SelectorError(f"found '{self._peek()}', expected: ',' or ')'")


class FieldTerm(msgspec.Struct, frozen=True):
    """One condition on a field: it has the value, or (negated) it has not."""

    field: str
    value: str
    negated: bool = False


class FieldSelector(msgspec.Struct, frozen=True):
    """Conditions on fields, all of which must be met. A field that an object lacks is the empty text."""

    terms: tuple[FieldTerm, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return True if an object with these selectable fields is selected."""
        return all((fields.get(term.field, "") == term.value) is not term.negated for term in self.terms)

    def required(self, field: str) -> str | None:
        """Return the one value that ``field`` must have; None where the selector leaves it open."""
        for term in self.terms:
            if term.field == field and not term.negated:
                return term.value
        return None

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it speaks of, in order."""
        return tuple(term.field for term in self.terms)


_FIELD_TERM: Final = re.compile(r"((?:[^\\!=]|\\.|!(?!=))*)(!=|==|=)(.*)", re.DOTALL)


def parse_field_selector(text: str) -> FieldSelector:
    """Parse the ``fieldSelector`` of a query. A backslash escapes comma, equals sign and itself.

    Raises:
        SelectorError: it does not parse.
    """
    terms = []
    # Kubernetes sorts the terms, so the first error is that of the smallest.
    for part in sorted(_split(text)):
        if not part:
            continue
        shape = _FIELD_TERM.fullmatch(part)
        if shape is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        terms.append(FieldTerm(shape[1], _unescaped(shape[3]), shape[2] == "!="))
    return FieldSelector(tuple(terms))


def _split(text: str) -> list[str]:
    parts, current, escaped = [], "", False
    for letter in text:
        if letter == "," and not escaped:
            parts.append(current)
            current = ""
            continue
        current += letter
        escaped = letter == "\\" and not escaped
    return [*parts, current]


def _unescaped(value: str) -> str:
    result, escaped = "", False
    for letter in value:
        if escaped:
            if letter not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{letter}")
            result += letter
            escaped = False
        elif letter == "\\":
            escaped = True
        elif letter in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {letter!r}")
        else:
            result += letter
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return result


_NODE_OPERATORS: Final = {**_OBJECT_OPERATORS, "Gt": GREATER, "Lt": LESS}


def node_selector_matches(selector: core_v1.NodeSelector, node: core_v1.Node) -> bool:
    """Return True if some term of ``selector`` holds for ``node``; a term without any condition never holds."""
    return any(node_selector_term_matches(term, node) for term in selector.node_selector_terms)


def node_selector_term_matches(term: core_v1.NodeSelectorTerm, node: core_v1.Node) -> bool:
    """Return True if all label conditions and all field conditions of ``term`` hold for ``node``."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    if not all(_node_requirement(expression, labels) for expression in term.match_expressions):
        return False
    name = node.metadata.name
    return all(_field_requirement(expression, name) for expression in term.match_fields)


def _node_requirement(expression: core_v1.NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    operator = _NODE_OPERATORS.get(expression.operator)
    # A term that cannot be evaluated matches no node; Kubernetes logs it, and does not refuse the pod.
    if operator is None or (operator in (GREATER, LESS) and len(expression.values) != 1):
        return False
    return Requirement(expression.key, operator, frozenset(expression.values)).matches(labels)


def _field_requirement(expression: core_v1.NodeSelectorRequirement, name: str) -> bool:
    if expression.key != "metadata.name" or len(expression.values) != 1:
        return False
    if expression.operator == "In":
        return name == expression.values[0]
    return expression.operator == "NotIn" and name != expression.values[0]
