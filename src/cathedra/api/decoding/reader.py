"""The lenient reader: walks a body value by value, as Kubernetes' decoder does.

It is much slower than msgspec, and only called when msgspec refuses a body or when unknown or repeated fields must be
named. It returns plain values that msgspec accepts: without nulls, without unknown fields, numbers of the right kind.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final, TypeAlias

from cathedra.api.decoding.gotypes import GoType, ValueForm
from cathedra.api.decoding.syntax import explain_syntax
from cathedra.api.goquote import go_quote
from cathedra.api.jsonvalue import JSONValue
from cathedra.api.nesting import NestingError, check_nesting
from cathedra.api.quantity import Quantity, QuantityError

MOST_PROBLEMS: Final = 100
"""Unknown and repeated fields that are named (sigs.k8s.io/json, internal/golang/encoding/json, saveStrictError)."""
_LONGEST_STEP: Final = 320
"""Characters of a field's name or a map's key beyond which it is cut. A key may have a million."""

Place: TypeAlias = "tuple[Place | None, str]"
"""Position of a value: the position around it, and the step from there. Its text is put together for problems alone,
because a text for each value would be as long as all keys on the way."""


def place_text(place: Place | None) -> str:
    """Return the text of a place, such as ``spec.devices[0].name``."""
    steps: list[str] = []
    while place is not None:
        place, step = place
        steps.append(step if len(step) <= _LONGEST_STEP else f"{step[:_LONGEST_STEP]}…")
    return "".join(reversed(steps)).removeprefix(".")


_HALF: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\\.", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"


def well_formed(body: bytes) -> bytes:
    """Return the body with the replacement character for escapes that are half a character."""
    if b"\\u" not in body:
        return body
    # Pairs and other escapes match too, so that the second half of a pair is never taken for a lone one.
    return _HALF.sub(lambda found: _REPLACEMENT if len(found[0]) == 6 else found[0], body)


class Number(str):
    """A JSON number as it was written."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its fields in order, repetitions included."""

    __slots__ = ()


def parse(text: str) -> Any:
    """Return JSON with numbers and objects as written.

    Raises:
        DecodeError: it is no JSON.
    """
    try:
        check_nesting(text)
        return json.loads(
            text, object_pairs_hook=Pairs, parse_int=Number, parse_float=Number, parse_constant=_no_constant
        )
    except NestingError as error:
        raise DecodeError(str(error)) from error
    except ValueError as error:
        raise DecodeError(explain_syntax(text) or str(error)) from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_LONGEST_INTEGER: Final = 1000
_KINDS: Final = {str: "string", bool: "bool", Pairs: "object", list: "array", Number: "number"}
_EMPTY: Final[dict[ValueForm, Any]] = {
    ValueForm.STRING: "",
    ValueForm.BOOL: False,
    ValueForm.INTEGER: 0,
    ValueForm.FLOAT: 0.0,
    ValueForm.BYTES: "",
    ValueForm.QUANTITY: "0",
    ValueForm.INT_OR_STRING: 0,
    ValueForm.DURATION: "0s",
}


class Reader:
    """Reads one body; ``problems`` collects the first unknown and repeated fields in order of appearance.

    A value of the wrong type does not end the reading (what follows may be repeated or unknown); the first one is
    raised at the end, unless a value with a form of its own (quantity, time) was wrong, which ends it at once.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._first: DecodeError | None = None

    def read(self, value: JSONValue, shape: GoType) -> Any:
        """Return plain values for msgspec.

        Raises:
            DecodeError: a value has the wrong type or form.
        """
        result = self._value(value, shape, None, (), None)
        if self._first is not None:
            raise self._first
        return result if isinstance(result, dict) else {}

    def _value(
        self, value: JSONValue, shape: GoType, path: Place | None, fields: tuple[str, ...], owner: GoType | None
    ) -> Any:
        form = shape.form
        if value is None:
            return None
        if form is ValueForm.STRUCT:
            if isinstance(value, Pairs):
                return self._struct(value, shape, path, fields, {})
            return self._mismatch(value, shape, fields, owner)
        if form is ValueForm.LIST:
            if not isinstance(value, list) or isinstance(value, Pairs):
                return self._mismatch(value, shape, fields, owner)
            return self._list(value, shape, path, fields, owner)
        if form is ValueForm.MAP:
            if not isinstance(value, Pairs):
                return self._mismatch(value, shape, fields, owner)
            return self._map(value, shape, path, fields, owner)
        if form is ValueForm.OPAQUE:
            return plain(value)
        if form is ValueForm.ONE_OF_SEVERAL:
            return self._one_of_several(value, shape, path, fields, owner)
        return self._scalar(value, shape, fields, owner)

    def _struct(
        self, pairs: Pairs, shape: GoType, path: Place | None, fields: tuple[str, ...], result: dict[str, Any]
    ) -> dict[str, Any]:
        seen: set[str] = set()
        for name, value in pairs:
            where = (path, f".{name}")
            known = shape.fields.get(name)
            if name not in seen and known is None:
                self._note("unknown", where)
            elif name in seen and known is not None:
                self._note("duplicate", where)
            seen.add(name)
            if known is None:
                continue
            through = shape.embedded.get(name)
            below = (*fields, name) if through is None else (*fields, through, name)
            # Go decodes a repeated struct into the first one, so fields of both remain. Lists and maps are replaced.
            if known.form is ValueForm.STRUCT and isinstance(value, Pairs) and isinstance(result.get(name), dict):
                self._struct(value, known, where, below, result[name])
                continue
            read = self._value(value, known, where, below, shape)
            if read is not None:
                result[name] = read
        return result

    def _list(
        self, items: list[Any], shape: GoType, path: Place | None, fields: tuple[str, ...], owner: GoType | None
    ) -> list[Any]:
        element = shape.element
        if element is None:
            return []
        result = []
        for position, item in enumerate(items):
            read = self._value(item, element, (path, f"[{position}]"), fields, owner)
            result.append(_zero(element) if read is None else read)
        return result

    def _map(
        self, pairs: Pairs, shape: GoType, path: Place | None, fields: tuple[str, ...], owner: GoType | None
    ) -> dict[str, Any]:
        element = shape.element
        result: dict[str, Any] = {}
        if element is None:
            return result
        for key, value in pairs:
            where = (path, f".{key}")
            if key in result:
                self._note("duplicate", where)
            read = self._value(value, element, where, fields, owner)
            result[key] = _zero(element) if read is None else read
        return result

    def _one_of_several(
        self, value: JSONValue, shape: GoType, path: Place | None, fields: tuple[str, ...], owner: GoType | None
    ) -> Any:
        """Read a schema, or the boolean or list that may stand in its place. Where a list may stand, any other value is
        read as None, as in Kubernetes.

        Unknown and repeated fields below it are not reported: Kubernetes decodes this part by a decoder that ignores
        them.
        """
        noted = len(self.problems)
        try:
            return self._schema_or_else(value, shape, path, fields, owner)
        finally:
            # Also after an error: it must not leave problems behind that Kubernetes never reports.
            del self.problems[noted:]

    def _schema_or_else(
        self, value: JSONValue, shape: GoType, path: Place | None, fields: tuple[str, ...], owner: GoType | None
    ) -> Any:
        schema = shape.element
        if schema is None or isinstance(value, Pairs):
            return self._value(value, schema or shape, path, fields, owner)
        if shape.short == "JSONSchemaPropsOrBool":
            if isinstance(value, bool):
                return value
            raise DecodeError("boolean or JSON schema expected")
        if not isinstance(value, list):
            return None
        element = schema if shape.short == "JSONSchemaPropsOrArray" else GoType(ValueForm.STRING, "string")
        return self._list(value, GoType(ValueForm.LIST, f"[]{element.name}", element=element), path, fields, owner)

    def _scalar(self, value: JSONValue, shape: GoType, fields: tuple[str, ...], owner: GoType | None) -> Any:
        form = shape.form
        if form is ValueForm.QUANTITY:
            return _quantity(value)
        if form in (ValueForm.TIME, ValueForm.MICRO_TIME, ValueForm.DURATION):
            if not isinstance(value, str) or isinstance(value, Number):
                raise DecodeError(_text(value, "string", fields, owner))
            return value if form is ValueForm.DURATION else check_time(value, micro=form is ValueForm.MICRO_TIME)
        if form is ValueForm.INT_OR_STRING:
            if isinstance(value, str) and not isinstance(value, Number):
                return value
            number = _integer(value, 32)
            if number is None:
                raise DecodeError(_text(value, "int32", fields, owner))
            return number
        if form is ValueForm.STRING and type(value) is str:
            return value
        if form is ValueForm.BOOL and isinstance(value, bool):
            return value
        if form is ValueForm.INTEGER:
            number = _integer(value, shape.bits)
            if number is not None:
                return number
        if form is ValueForm.FLOAT and isinstance(value, Number):
            return float(value)
        if form is ValueForm.BYTES and type(value) is str:
            return _bytes(value)
        return self._mismatch(value, shape, fields, owner)

    def _note(self, problem: str, place: Place) -> None:
        # Bounded as in Kubernetes: a body with a million unknown fields would make an answer of their size.
        if len(self.problems) < MOST_PROBLEMS:
            text = f"{problem} field {go_quote(place_text(place))}"
            if text not in self.problems:
                self.problems.append(text)

    def _mismatch(self, value: JSONValue, shape: GoType, fields: tuple[str, ...], owner: GoType | None) -> None:
        if self._first is None:
            self._first = DecodeError(_text(value, shape.name, fields, owner, numeric=shape.form is ValueForm.INTEGER))


def _text(value: JSONValue, go: str, fields: tuple[str, ...], owner: GoType | None, *, numeric: bool = False) -> str:
    kind = _KINDS[type(value)]
    if numeric or go == "int32":
        kind = f"{kind} {value}" if isinstance(value, Number) else kind
    if owner is None:
        return f"json: cannot unmarshal {kind} into Go value of type {go}"
    return f"json: cannot unmarshal {kind} into Go struct field {owner.short}.{'.'.join(fields)} of type {go}"


def _zero(shape: GoType) -> Any:
    if shape.form is ValueForm.STRUCT or shape.form is ValueForm.MAP:
        return {}
    if shape.form is ValueForm.LIST:
        return []
    return _EMPTY.get(shape.form)


def _integer(value: JSONValue, bits: int) -> int | None:
    if not isinstance(value, Number) or not re.fullmatch(r"-?[0-9]+", value):
        return None
    # Anything longer is out of range. Converting it would take quadratic time.
    number = int(value) if len(value) < 25 else 2**80
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


def _quantity(value: JSONValue) -> str:
    text = value if isinstance(value, str) else json.dumps(plain(value), separators=(",", ":"))
    try:
        # Kubernetes strips the spaces before it parses.
        Quantity.parse(text.strip())
    except QuantityError as error:
        raise DecodeError(str(error)) from error
    return text.strip()


def _bytes(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        position = len(re.match(r"[A-Za-z0-9+/]*", text)[0])  # type: ignore[index]  # it always matches
        raise DecodeError(f"illegal base64 data at input byte {position}") from error
    return text


def plain(value: JSONValue) -> Any:
    """Return ordinary Python values of what `parse` answers."""
    if isinstance(value, Number):
        whole = len(value) < _LONGEST_INTEGER and re.fullmatch(r"-?[0-9]+", value)
        return int(value) if whole else float(value)
    if isinstance(value, Pairs):
        return {key: plain(item) for key, item in value}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


# --- times, with the problems of Go's parser

_LAYOUT: Final = "2006-01-02T15:04:05Z07:00"
_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_PIECES: Final = (
    (r"[0-9]{4}", "2006"),
    (r"-", "-"),
    (r"[0-9]{2}", "01"),
    (r"-", "-"),
    (r"[0-9]{2}", "02"),
    (r"T", "T"),
    (r"[0-9]{2}", "15"),
    (r":", ":"),
    (r"[0-9]{2}", "04"),
    (r":", ":"),
    (r"[0-9]{2}", "05"),
)
_DAYS: Final = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def check_time(text: str, *, micro: bool = False) -> str:
    """Return the text, if it is an RFC 3339 time that exists.

    Raises:
        DecodeError: it is not.
    """
    # The layout is part of the error text.
    layout = _MICRO_LAYOUT if micro else _LAYOUT
    numbers: list[int] = []
    rest = text
    for pattern, name in _PIECES:
        found = re.match(pattern, rest, re.ASCII)
        if found is None:
            raise DecodeError(f'parsing time {_go(text)} as "{layout}": cannot parse {_go(rest)} as "{name}"')
        if found[0].isdigit():
            numbers.append(int(found[0]))
            _in_range(text, numbers)
        rest = rest[found.end() :]
    fraction = re.match(r"[.,][0-9]+", rest, re.ASCII)
    if fraction:
        rest = rest[fraction.end() :]
    zone = re.match(r"Z|[+-][0-9]{2}:[0-9]{2}", rest, re.ASCII)
    if zone is None:
        raise DecodeError(f'parsing time {_go(text)} as "{layout}": cannot parse {_go(rest)} as "Z07:00"')
    if rest[zone.end() :]:
        raise DecodeError(f"parsing time {_go(text)}: extra text: {_go(rest[zone.end() :])}")
    year, month, day = numbers[:3]
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day < 1 or day > _DAYS[month - 1] + leap:
        raise DecodeError(f"parsing time {_go(text)}: day out of range")
    return text


def _in_range(text: str, numbers: list[int]) -> None:
    position, value = len(numbers) - 1, numbers[-1]
    limits = {1: (1, 12, "month"), 3: (0, 23, "hour"), 4: (0, 59, "minute"), 5: (0, 59, "second")}
    if position in limits:
        least, most, name = limits[position]
        if not least <= value <= most:
            raise DecodeError(f"parsing time {_go(text)}: {name} out of range")


def _go(text: str) -> str:
    return go_quote(text)


class DecodeError(ValueError):
    """A body that cannot be decoded. The text is Kubernetes' own, without the name of the object."""
