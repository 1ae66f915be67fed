"""Field paths and field errors.

Validation collects every error, in Kubernetes' order; together they are the causes of a 422 Status (docs/spec/api.md
§3.1). An object may have thousands of errors, and each message may show a whole list of the object. An error therefore
keeps values and names as they are, and its text is made when it is read. A text has at most `MAX_TEXT` characters and
lists at most `MAX_NAMES` names.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import heapq
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import LONGEST_KEY
from cathedra.api.goquote import go_quote
from cathedra.api.jsonvalue import JSONValue
from cathedra.api.quantity import Quantity
from cathedra.api.struct import RawJSON, json_names, to_dict
from cathedra.api.timestamp import Time
from cathedra.releases.fields import ONLY_IN, is_new_in_v1
from cathedra.remembering import remembered

MAX_NAMES: Final = 100
"""Names that a message lists before it counts the rest."""
MAX_TEXT: Final = 64 * 1024
"""Characters of a message before it is cut."""
_CUT: Final = " … (cut)"


class FieldPath(str):
    """A path like ``spec.devices.requests[0].name``; grown with `child`, `index` and `key`."""

    __slots__ = ()

    # Validation walks the same few paths for every object, and needs their text when something is wrong alone.
    @remembered("api.field.child", size=8192)  # a path is a value, and as such kept for the next object
    def child(self, *names: str) -> FieldPath:
        """Return the path of a field below."""
        return FieldPath(".".join((self, *names)) if self else ".".join(names))

    @remembered("api.field.index", size=2048)  # as above
    def index(self, position: int) -> FieldPath:  # type: ignore[override]  # a path is never searched, only grown
        """Return the path of a list's element, counted from 0."""
        return FieldPath(f"{self}[{position}]")

    def key(self, key: str) -> FieldPath:
        """Return the path of a map's value."""
        grown = f"{self}[{key}]"
        # Keys come from users: paths with long ones would fill the caches below.
        return (FieldPath if len(grown) <= LONGEST_KEY else _LongPath)(grown)


class _LongPath(FieldPath):
    """A path with a key that is longer than any valid one: the paths below it are not kept."""

    __slots__ = ()

    def child(self, *names: str) -> FieldPath:  # not a cached one
        return _LongPath(".".join((self, *names)))

    def index(self, position: int) -> FieldPath:  # type: ignore[override]  # as above
        return _LongPath(f"{self}[{position}]")


class ErrorType(enum.Enum):
    """The kinds of field error: the cause's reason in a Status, and how the message begins."""

    NOT_FOUND = ("FieldValueNotFound", "Not found")
    REQUIRED = ("FieldValueRequired", "Required value")
    DUPLICATE = ("FieldValueDuplicate", "Duplicate value")
    INVALID = ("FieldValueInvalid", "Invalid value")
    NOT_SUPPORTED = ("FieldValueNotSupported", "Unsupported value")
    FORBIDDEN = ("FieldValueForbidden", "Forbidden")
    TOO_LONG = ("FieldValueTooLong", "Too long")
    TOO_MANY = ("FieldValueTooMany", "Too many")
    TOO_FEW = ("FieldValueTooFew", "Too few")
    INTERNAL = ("InternalError", "Internal error")
    TYPE_INVALID = ("FieldValueTypeInvalid", "Invalid value")

    @property
    def reason(self) -> str:
        """The ``reason`` of the cause in a Status."""
        return self.value[0]

    @property
    def words(self) -> str:
        """First words of the messages of this type."""
        return self.value[1]


OMITTED: Final = object()
"""As a value: the error is about no value in particular, and shows none."""

_WITHOUT_VALUE: Final = {ErrorType.REQUIRED, ErrorType.FORBIDDEN, ErrorType.TOO_LONG, ErrorType.INTERNAL}


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names at the end of a message, such as the supported values of a field.

    Only the collection is kept: thousands of errors may refer to one list of thousands of names.
    """

    words: str
    """Text in front of the names."""
    names: Collection[str]
    quoted: bool = True
    in_order: bool = True
    """True if the names keep their order. Otherwise they are sorted."""

    def __str__(self) -> str:
        if not self.names:
            return ""
        count = len(self.names)
        # Only what is shown is sorted: an answer may have thousands of errors about one long list.
        first = islice(self.names, MAX_NAMES) if self.in_order else heapq.nsmallest(MAX_NAMES, self.names)
        shown = [f'"{name}"' if self.quoted else name for name in first]
        if count > MAX_NAMES:
            shown.append(f"and {count - MAX_NAMES} more")
        return f"{self.words}: {', '.join(shown)}"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One error of one field. ``value`` is the value of the field, as plain data or an API object."""

    type: ErrorType
    field: str
    value: Any
    detail: str
    origin: str = dataclasses.field(default="", compare=False)
    """The rule that found the error, if several rules find errors of the same type in the same field."""
    names: Names | None = None
    """Names to be listed after the detail."""

    @property
    def message(self) -> str:
        """The text without the field: «Invalid value: "x": must be …», at most `MAX_TEXT` characters of it."""
        words = self.type.words
        shown = "" if self.type in _WITHOUT_VALUE or self.value is OMITTED else _shown(self.value)
        reason = self._reason()
        if len(shown) + len(reason) > MAX_TEXT:
            shown = shortened_text(shown, MAX_TEXT // 2)  # what is wrong is to be seen, too
        return shortened_text(": ".join(part for part in (words, shown, reason) if part))

    def _reason(self) -> str:
        names = "" if self.names is None else str(self.names)
        return f"{self.detail}: {names}" if self.detail and names else self.detail or names

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def shortened_text(text: str, limit: int = MAX_TEXT) -> str:
    """Return the text, cut with a mark if it has more than ``limit`` characters."""
    return text if len(text) <= limit else text[:limit] + _CUT


class Constant(str):
    """A value of a type of its own in Kubernetes, which knows its constants: messages show it as JSON."""

    __slots__ = ()


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # Quoting costs time for each character, and no message shows more of them.
        return go_json(value[:MAX_TEXT]) if isinstance(value, Constant) else go_quote(value[:MAX_TEXT])
    if isinstance(value, (int, float)):
        return str(value)
    return go_form(value)


_SUPPORTED: Final = "supported values"


def _as_constant(value: Any) -> Any:
    return Constant(value) if isinstance(value, str) else value


class ErrorList(list[FieldError]):
    """The errors of one validation, in order of discovery."""

    def invalid(self, field: str, value: Any, detail: str) -> None:
        """Add an error: the value breaks a rule."""
        self.append(FieldError(ErrorType.INVALID, field, value, detail))

    def required(self, field: str, detail: str = "") -> None:
        """Add an error: the value must be there."""
        self.append(FieldError(ErrorType.REQUIRED, field, "", detail))

    def duplicate(self, field: str, value: Any) -> None:
        """Add an error: the value may occur once only."""
        self.append(FieldError(ErrorType.DUPLICATE, field, value, ""))

    def forbidden(self, field: str, detail: str) -> None:
        """Add an error: the field must not be set."""
        self.append(FieldError(ErrorType.FORBIDDEN, field, "", detail))

    def not_found(self, field: str, value: Any, names: Names | None = None) -> None:
        """Add an error: the value names something that is not there; ``names`` are those that are."""
        self.append(FieldError(ErrorType.NOT_FOUND, field, value, "", names=names))

    def not_supported(self, field: str, value: Any, supported: Collection[str]) -> None:
        """Add an error: the value is none of the known ones; those are listed sorted."""
        self._not_supported(field, _as_constant(value), Names(_SUPPORTED, supported, in_order=False))

    def not_among(self, field: str, value: Any, supported: Collection[str]) -> None:
        """Add an error: the value is none of the known ones; those are listed in the order in which Kubernetes has
        them."""
        self._not_supported(field, _as_constant(value), Names(_SUPPORTED, supported))

    def string_not_among(self, field: str, value: Any, supported: Collection[str]) -> None:
        """Add an error: the same of a field whose type in Kubernetes is a mere string: it is quoted in another way."""
        self._not_supported(field, value, Names(_SUPPORTED, supported))

    def _not_supported(self, field: str, value: Any, supported: Names) -> None:
        self.append(FieldError(ErrorType.NOT_SUPPORTED, field, value, "", names=supported))

    def too_long(self, field: str, limit: int) -> None:
        """Add an error: the text has more than ``limit`` bytes."""
        self.append(FieldError(ErrorType.TOO_LONG, field, "", f"may not be more than {limit} bytes"))

    def too_many(self, field: str, actual: int, limit: int) -> None:
        """Add an error: the list has more than ``limit`` elements."""
        self.append(FieldError(ErrorType.TOO_MANY, field, actual, f"must have at most {limit} items"))

    def type_invalid(self, field: str, value: Any, detail: str) -> None:
        """Add an error: the value is of the wrong kind."""
        self.append(FieldError(ErrorType.TYPE_INVALID, field, value, detail))

    def internal(self, field: str, detail: str) -> None:
        """Add an error: validation itself could not be carried out."""
        self.append(FieldError(ErrorType.INTERNAL, field, None, detail))


# Values as Kubernetes prints them in error messages: Go's form of its internal types.
#
# Messages such as «Invalid value: {"Devices":{"Requests":null,…}}: field is immutable» show the value with upper-case
# field names and every field present. Types that Kubernetes keeps in their wire form inside, too, are shown in that
# form.

_WIRE_FORM: Final = ("cathedra.api.core.meta_v1", "cathedra.api.core.scheduling_")
"""Modules of types that have one form inside and outside."""

_SHOWN_WHERE_SET: Final = frozenset(key for key in ONLY_IN if is_new_in_v1(*key))
"""(type, field) that not every release with resource.k8s.io/v1 knows: empty ones are left out."""

_NAMES: Final[Mapping[str, str]] = {
    "apiGroup": "APIGroup",
    "apiVersion": "APIVersion",
    "cel": "CEL",
    "ips": "IPs",
    "uid": "UID",
}
_ATTRIBUTE: Final[Mapping[str, str]] = {
    "int": "IntValue",
    "bool": "BoolValue",
    "string": "StringValue",
    "version": "VersionValue",
    "ints": "IntValues",
    "bools": "BoolValues",
    "strings": "StringValues",
    "versions": "VersionValues",
}


def go_values(value: JSONValue) -> Any:
    """Return plain values in the form in which Go encodes maps: keys sorted, whole numbers without a fraction."""
    if isinstance(value, dict):
        # Most values are texts.
        return {key: item if type(item) is str else go_values(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [go_values(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXPONENT_FROM:
        return int(value)
    return value


_EXPONENT_FROM: Final = 1e21


def go_form(value: JSONValue) -> str:
    """Return the JSON that Go prints for the value."""
    return go_json(_plain(value))


def go_json(value: JSONValue, indent: int | None = None) -> str:
    """Return plain values as Go's ``encoding/json`` writes them: fit for HTML, and without separators of lines in
    texts."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # The standard encoder is written in C only without an indent. A pod's 40,000 variables took it 0.3 s, msgspec 0.03.
    return (text if indent is None else msgspec.json.format(text, indent=indent)).translate(_ESCAPED)


# None of these characters occurs in JSON but in texts.
_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _plain(value: JSONValue) -> Any:
    if isinstance(value, msgspec.Struct):
        module = type(value).__module__
        if module.startswith(_WIRE_FORM):
            return to_dict(value)
        return dict(_fields(value))
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value] if value or isinstance(value, list) else _empty(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (Quantity, Time)):
        return str(value)
    if isinstance(value, RawJSON):
        return value.load()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def _empty(items: tuple[Any, ...]) -> list[Any] | None:
    """Absent lists are null; those that were spelled out are empty."""
    return None if type(items) is tuple else []


def _fields(value: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    kind = type(value)
    names = _ATTRIBUTE if kind.__name__ == "DeviceAttribute" else _NAMES
    in_order = sorted(json_names(kind).items(), key=lambda item: item[1] == "opaque")
    for attribute, name in in_order:
        item = getattr(value, attribute)
        if kind.__name__ == "ResourceClaimTemplateSpec" and name == "metadata":
            # Embedded in Go's struct: its fields stand directly beside the others.
            yield from _plain(item).items()
            continue
        if (kind.__name__, name) in _SHOWN_WHERE_SET and item in (None, (), {}) and name not in _ATTRIBUTE:
            continue
        shown = None if isinstance(item, dict) and not item else _plain(item)
        yield names.get(name, name[:1].upper() + name[1:]), shown
