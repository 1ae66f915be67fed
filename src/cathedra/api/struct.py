"""The base of every object: frozen structs that decode from JSON and encode back to exactly Kubernetes' form.

One class is the single source of truth for an object's wire form. An object is immutable, so the store, watchers and
all parts share it without copying; a change is `replace` along the path. Scalars with a form of their own
(`Quantity`, `Time`, `MicroTime`) decode into values; opaque JSON (`RawJSON`) keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, Final, TypeVar

import msgspec

from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting, load_json
from cathedra.api.nulls import convert, without_nulls
from cathedra.api.quantity import Quantity
from cathedra.api.timestamp import MicroTime, Time
from cathedra.releases import behaviours

__all__ = [
    "EMPTY_LIST",
    "UNSET_LIST",
    "Int32",
    "Int64",
    "KubeStruct",
    "MicroTime",
    "Quantity",
    "RawJSON",
    "Time",
    "always",
    "decode",
    "decoder_of",
    "encode",
    "encode_in",
    "from_dict",
    "json_names",
    "json_reader",
    "replace",
    "reshape",
    "scalars_of",
    "to_dict",
]

S = TypeVar("S")
ScalarDecoder = Callable[[type, Any], Any]
"""A function that makes a scalar of a type, such as `Quantity`, of its JSON value."""

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _EmptyList(tuple[Any, ...]):
    """An explicit empty list."""

    __slots__ = ()


EMPTY_LIST: Final[Any] = _EmptyList()
"""An explicit empty list, in the few fields where Kubernetes distinguishes it from an absent one.

Equal to ``()`` in every other respect; nothing that is stored contains it.
"""


_BLANK: Final = re.compile(rb"[ \t\r\n]")
_BLANKS: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)


class RawJSON:
    """Opaque JSON, kept as the bytes that were sent: other blanks or another spelling of a number make another
    value."""

    __slots__ = ("_compact", "data", "written")

    data: bytes
    _compact: bytes
    written: msgspec.Raw
    """As answers show it. Missing until `compact` has been called."""

    def __init__(self, data: bytes) -> None:
        object.__setattr__(self, "data", data)

    @staticmethod
    def of(value: object) -> RawJSON:
        """Return opaque JSON from plain Python values."""
        return RawJSON(msgspec.json.encode(value))

    @staticmethod
    def without_blanks(data: bytes) -> RawJSON:
        """Return opaque JSON that has no blanks between its tokens."""
        made = object.__new__(RawJSON)
        object.__setattr__(made, "data", data)
        object.__setattr__(made, "_compact", data)
        object.__setattr__(made, "written", msgspec.Raw(data))
        return made

    def compact(self) -> bytes:
        """Return the JSON without blanks between tokens, as answers show it; made once."""
        try:
            return self._compact
        except AttributeError:
            compact = _BLANKS.sub(rb"\1", self.data) if _BLANK.search(self.data) else self.data
            object.__setattr__(self, "_compact", compact)
            object.__setattr__(self, "written", msgspec.Raw(compact))
            return compact

    def load(self) -> Any:
        """Decode JSON into plain Python values.

        Raises:
            msgspec.DecodeError: it is no JSON, or nested too deeply.
        """
        return load_json(self.data, WRAPPED_DEPTH)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"opaque JSON is immutable: {name} cannot be set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawJSON) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"RawJSON({self.data!r})"

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return (RawJSON, (self.data,))


class KubeStruct(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An object of the Kubernetes API, or a part of one.

    Fields that Kubernetes leaves out when empty have a plain default; fields that it always writes are made by
    `always`. Attribute names are snake_case of the JSON names, which the class gives by ``rename``.
    """


def always(make: Callable[[], Any]) -> Any:
    """Return a field that is written even when it is empty; ``make()`` is its empty value."""

    def empty() -> Any:
        return make()

    return msgspec.field(default_factory=empty)


def _none() -> None:
    return None


UNSET_LIST: Final[Any] = msgspec.field(default_factory=_none)
"""A list that is written as ``null`` when it is absent."""


def decode_scalar(kind: type, value: Any) -> Any:
    if type(value) is str and (kind is Time or kind is MicroTime):  # as most are that come here
        return kind.parse(value)
    if isinstance(value, kind):
        return value
    if kind is Quantity:
        if isinstance(value, str):
            return Quantity.parse(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return Quantity.parse(str(value))
        raise ValueError("a quantity is a string or a whole number")
    if kind is Time or kind is MicroTime:
        if isinstance(value, str):
            return kind.parse(value)
        raise ValueError("a time is a string")
    if kind is RawJSON:
        return RawJSON.of(value)
    raise NotImplementedError(f"no JSON form is known for {kind}")


def _decode_scalar_without_large_suffixes(kind: type, value: Any) -> Any:
    decoded = decode_scalar(kind, value)
    return decoded.without_large_suffix if kind is Quantity else decoded


@cache
def scalars_of(release: str) -> ScalarDecoder:
    """Return the decoder of scalars as a release has it; `decoder_of` and `from_dict` take it."""
    kept = behaviours.LARGE_QUANTITIES_KEPT.holds_in(release)
    return decode_scalar if kept else _decode_scalar_without_large_suffixes


def _encode_scalar(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if type(value) is RawJSON:
        value.compact()
    try:
        return value.written
    except AttributeError:
        raise NotImplementedError(f"no JSON form is known for {type(value)}") from None


# One attribute for all scalars, read without a function of Python's: a pod's writes encode fifty.
_WRITTEN: Final = msgspec.json.Encoder(enc_hook=attrgetter("written"))
_encode_written: Final = _WRITTEN.encode
_encode_written_into: Final = _WRITTEN.encode_into
_encode_any: Final = msgspec.json.Encoder(enc_hook=_encode_scalar).encode


@cache
def _decoder(kind: Any, scalars: ScalarDecoder) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=scalars)


def decode(kind: type[S], data: bytes | str) -> S:
    """Decode an object of type ``kind`` from JSON as Go does: unknown fields are dropped, null is nothing.

    Raises:
        msgspec.ValidationError: a value has the wrong type; the text names the path.
        msgspec.DecodeError: it is no JSON, no UTF-8, or nested too deeply.
    """
    check_nesting(data, WRAPPED_DEPTH)
    try:
        return json_reader(kind)(data)
    # msgspec raises this for malformed UTF-8 in some positions, and DecodeError in others. Callers handle one of them.
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"invalid UTF-8: {error}") from error


def json_reader(kind: type[S]) -> Callable[[bytes | str], S]:
    """Return the function behind `decode`, for bytes whose nesting is bounded already (`cathedra.api.nesting`)."""
    key: Any = kind
    made: Callable[[bytes | str], S] = _reader(key)
    return made


@cache
def _reader(kind: Any) -> Callable[[bytes | str], Any]:
    decode_strictly = decoder_of(kind).decode

    def read(data: bytes | str) -> Any:
        try:
            return decode_strictly(data)
        except msgspec.ValidationError:
            # Without a null the error is real. The search is cheap compared with a second decoding, which refused
            # bodies would otherwise pay.
            if (b"null" if isinstance(data, bytes) else "null") not in data:  # type: ignore[operator]  # of one type
                raise
        return msgspec.convert(without_nulls(msgspec.json.decode(data), kind), kind, dec_hook=decode_scalar)

    return read


def decoder_of(kind: type[S], scalars: ScalarDecoder = decode_scalar) -> msgspec.json.Decoder[S]:
    """Return the strict decoder of ``kind``: null is an error wherever the struct does not admit None.

    For callers that read what it refuses in a way of their own; all others use `decode` or `json_reader`. The nesting
    of the bytes must be bounded already (`cathedra.api.nesting`).
    """
    key: Any = kind
    made: msgspec.json.Decoder[S] = _decoder(key, scalars)
    return made


def encode(obj: object) -> bytes:
    """Return the JSON of an object, in Kubernetes' form, without blanks."""
    try:
        return _encode_written(obj)
    except AttributeError:  # opaque JSON as it was sent, or a text of a class of its own
        return _encode_any(obj)


def encode_in(buffer: bytearray, obj: object) -> bytes:
    """Return the JSON of an object as `encode` does, composed in a buffer that the caller keeps: a new buffer grows
    several times for an object. ``buffer`` is as large as the largest object afterwards."""
    try:
        _encode_written_into(obj, buffer)
    except AttributeError:
        return _encode_any(obj)
    return bytes(buffer)


def to_dict(obj: object) -> Any:
    """``obj`` as plain dicts, lists and scalars."""
    # By way of JSON, because the direct way leaves tuples where plain values have lists.
    return msgspec.json.decode(encode(obj))


def reshape(obj: object, kind: type[S]) -> S:
    """Return the object of type ``kind`` with the attributes of ``obj``, which is a struct of the same shape.

    For the structs that two API versions have in common but each declares for itself.
    """
    return msgspec.convert(obj, kind, from_attributes=True, dec_hook=decode_scalar)


def from_dict(kind: type[S], value: Mapping[str, Any], scalars: ScalarDecoder = decode_scalar) -> S:
    """Make the object of type ``kind`` that plain values describe; null is nothing, as in `decode`.

    Raises:
        msgspec.ValidationError: a value has the wrong type; the text names the path.
    """
    return convert(value, kind, scalars)


replace: Final = msgspec.structs.replace
"""A copy of an object in which the named attributes have new values; everything else is shared. A write does that some
eighty times, so nothing stands between."""


@cache
def json_names(kind: type[KubeStruct]) -> dict[str, str]:
    """Return the JSON name of each attribute, in order of declaration."""
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
