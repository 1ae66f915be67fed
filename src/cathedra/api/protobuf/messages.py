"""Codecs of structs as protobuf messages, built once per type from field numbers and annotations.

The bytes are those of the generated Go encoders, which clients expect: fields in ascending order, every non-pointer
field written even when it is empty, maps sorted by key. Structs that Go embeds with a number (``VolumeSource`` in
``Volume``) are messages of their own on the wire, while their attributes are attributes of our struct.

A body is wrapped in an envelope: four magic bytes, then kind, apiVersion and the message. A watch is a sequence of
frames, each a length in four bytes and a WatchEvent that holds a wrapped object (docs/spec/kubectl.md §8).
"""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from cathedra.api.protobuf import _schemas
from cathedra.api.protobuf._schemas import SCHEMA, Scalar
from cathedra.api.protobuf.wire import LENGTH, VARINT, ProtobufError, delimited, fields, read_varint, tag
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import Int32, Int64, KubeStruct, MicroTime, Quantity, RawJSON, Time, json_names
from cathedra.api.typeinfo import FieldInfo, TypeInfo, info_of, locate
from cathedra.releases import NEWEST, behaviours
from cathedra.remembering import remembered

S = TypeVar("S", bound=KubeStruct)

Values = dict[str, Any]
Writer = Callable[[Any], bytes]
"""Value of a field → what stands for it, tag and all; empty if it is absent."""
Taker = Callable[[Values, Any], None]
"""Enters one occurrence of a field."""

_SCALARS: Final[dict[Any, Scalar]] = {
    str: _schemas.STRING,
    bytes: _schemas.BYTES,
    bool: _schemas.BOOL,
    Int32: _schemas.INT32,
    Int64: _schemas.INT64,
    int: _schemas.INT64,
    float: _schemas.FLOAT,
    Time: _schemas.TIME,
    MicroTime: _schemas.MICRO_TIME,
    Quantity: _schemas.QUANTITY,
    RawJSON: _schemas.RAW,
    Int32 | str: _schemas.INT_OR_STRING,
}
_EMPTY: Final = Scalar(LENGTH, lambda value: b"\0", lambda data: RawJSON(b"{}"), None)
_OPAQUE: Final = {"JSONSchemaProps": SCHEMA, "CustomResourceSubresourceStatus": _EMPTY}
"""Message types that our structs keep as opaque JSON."""
_KEYS_AND_VALUES: Final = "map entry"
_NEVER: Final = object()


def encode_message(obj: KubeStruct) -> bytes:
    """``obj`` as a bare message, byte for byte as Kubernetes' encoders write it."""
    return _codec(type(obj), NEWEST).encode(obj)


def decode_message(kind: type[S], data: bytes, release: str = NEWEST) -> S:
    """Decode a bare message. Fields that the release does not know are dropped.

    Raises:
        ProtobufError: the bytes are no such message.
    """
    decoded: S = _codec(kind, release).decode(data)
    return decoded


def has_message(kind: type[KubeStruct]) -> bool:
    """Return True if the type has a protobuf form: every built-in one has, custom resources have none."""
    return _has_message(kind)


@remembered("api.protobuf.messages.has_message", size=1024)
def _has_message(kind: Any) -> bool:
    return info_of(kind) is not None  # called for every request


class _FieldCodec(NamedTuple):
    """Encoding of one field. Most fields of most objects are empty, so that case is a lookup."""

    attribute: str
    """Empty: the part is made of the object's own fields."""
    empty: Any
    """The very value (by identity) that stands for emptiness; anything equal goes through ``write``."""
    spelled: bytes
    """Bytes of the empty value."""
    write: Writer


class _Codec:
    """Encoder and decoder of one struct."""

    def __init__(self, kind: Any, release: str) -> None:
        self._kind = kind
        self._name: str = kind.__name__
        self._release = release
        self._rows: tuple[tuple[Any, bytes, Writer], ...] = ()
        self._values: Callable[[Any], tuple[Any, ...]] = _nothing
        self._takers: dict[int, Taker] = {}
        self._finishers: dict[str, Callable[[Any], Any]] = {}
        self._names: dict[int, str] = {}

    def fill(self) -> None:
        """Put the parts together; separate from making, because types may contain themselves."""
        hints = typing.get_type_hints(self._kind, include_extras=True)
        attributes = {name: attribute for attribute, name in json_names(self._kind).items()}
        self._add(_described(self._kind), attributes, hints)

    def encode(self, obj: Any) -> bytes:
        return b"".join(
            [
                spelled if value is empty else write(value)
                for value, (empty, spelled, write) in zip(self._values(obj), self._rows, strict=True)
            ]
        )

    def decode(self, data: bytes) -> Any:
        values: Values = {}
        self.scan(data, values)
        finishers = self._finishers
        for name in values:
            finish = finishers.get(name)
            if finish is not None:
                values[name] = finish(values[name])
        return self._kind(**values)

    def scan(self, data: bytes, values: Values) -> None:
        """Enter the fields of a message into ``values``, yet unfinished."""
        takers = self._takers
        for key, value in fields(data, self._name):
            take = takers.get(key)
            if take is not None:
                take(values, value)
            elif key >> 3 in self._names:
                raise ProtobufError(f"proto: wrong wireType = {key & 7} for field {self._names[key >> 3]}")

    def _add(self, info: TypeInfo, attributes: dict[str, str], hints: dict[str, Any]) -> None:
        parts: list[_FieldCodec] = []
        for field_info in sorted(info.declared, key=lambda one: one.number):
            number = field_info.number
            if not number:
                continue
            if field_info.embedded:
                parts.append(self._embed(info, field_info, attributes, hints))
                continue
            attribute = attributes[field_info.name]
            parts.append(self._field(number, attribute, field_info.go, hints[attribute]))
            if field_info.is_known(self._release):
                self._names[number] = _go_name(field_info.name)
            else:
                self._takers = {key: take for key, take in self._takers.items() if key >> 3 != number}
        self._rows = tuple((part.empty, part.spelled, part.write) for part in parts)
        self._values = _getter([part.attribute for part in parts])

    def _embed(
        self, outer: TypeInfo, field_info: FieldInfo, attributes: dict[str, str], hints: dict[str, Any]
    ) -> _FieldCodec:
        """Register an embedded struct and return its part: a message whose fields are the outer struct's attributes."""
        number = field_info.number
        info = locate(outer.package, field_info.go)
        if info is None:
            raise LookupError(f"there are no facts of {field_info.go}, which {outer.name} embeds")
        inner = _Codec(self._kind, self._release)
        inner._add(info, attributes, hints)
        self._names[number] = field_info.go
        self._takers[number << 3 | LENGTH] = lambda values, data: inner.scan(data, values)
        self._finishers |= inner._finishers
        start = tag(number, LENGTH)
        return _FieldCodec("", _NEVER, b"", lambda obj: start + delimited(inner.encode(obj)))

    def _field(self, number: int, attribute: str, go: str, hint: Any) -> _FieldCodec:
        hint = _without_none(hint)
        origin = typing.get_origin(hint)
        if origin is tuple and go.lstrip("*").startswith("[]"):
            return self._repeated(number, attribute, self._scalar(typing.get_args(hint)[0], go.lstrip("*")[2:]))
        if origin is dict:
            _, _, value_go = go.partition("]")
            return self._map(number, attribute, self._scalar(typing.get_args(hint)[1], value_go))
        if isinstance(hint, type) and issubclass(hint, KubeStruct):
            return self._message(number, attribute, hint, optional=go.startswith("*"))
        return self._single(number, attribute, self._scalar(hint, go), optional=go.startswith("*") or hint is bytes)

    def _scalar(self, hint: Any, go: str) -> Scalar:
        hint = _without_none(hint)
        opaque = _OPAQUE.get(go.lstrip("*"))
        if opaque is not None and hint is RawJSON:
            return opaque
        if hint is Quantity and not behaviours.LARGE_QUANTITIES_KEPT.holds_in(self._release):
            return _schemas.QUANTITY_WITHOUT_LARGE_SUFFIX
        if hint in _SCALARS:
            return _SCALARS[hint]
        if typing.get_origin(hint) is tuple:
            # A list under a name of its own (``ExtraValue``) is a message with the list as field 1.
            return _wrapped_list(self._scalar(typing.get_args(hint)[0], ""))
        codec = _codec(hint, self._release)
        return Scalar(LENGTH, lambda value: delimited(codec.encode(value)), codec.decode, hint())

    def _single(self, number: int, attribute: str, scalar: Scalar, *, optional: bool) -> _FieldCodec:
        start, write, read = tag(number, scalar.wire_type), scalar.write, scalar.read

        def take(values: Values, value: Any) -> None:
            values[attribute] = read(value)

        self._takers[number << 3 | scalar.wire_type] = take
        if optional:
            # Bytes have no pointers in Go, but nil differs from empty; here both are empty, and absent.
            return _FieldCodec(
                attribute, b"" if scalar is _schemas.BYTES else None, b"", lambda value: start + write(value)
            )
        return _FieldCodec(attribute, scalar.zero, start + write(scalar.zero), lambda value: start + write(value))

    def _message(self, number: int, attribute: str, kind: Any, *, optional: bool) -> _FieldCodec:
        codec = _codec(kind, self._release)
        start = tag(number, LENGTH)

        def take(values: Values, data: bytes) -> None:
            # A message that comes in parts is the message of the parts put together.
            values[attribute] = values.get(attribute, b"") + data

        self._takers[number << 3 | LENGTH] = take
        self._finishers[attribute] = codec.decode

        absent = b"" if optional else start + b"\0"
        return _FieldCodec(attribute, None, absent, lambda value: start + delimited(codec.encode(value)))

    def _repeated(self, number: int, attribute: str, scalar: Scalar) -> _FieldCodec:
        start, write, read = tag(number, scalar.wire_type), scalar.write, scalar.read
        self._takers[number << 3 | scalar.wire_type] = lambda values, value: values.setdefault(attribute, []).append(
            read(value)
        )
        if scalar.wire_type == VARINT:
            self._takers[number << 3 | LENGTH] = lambda values, data: values.setdefault(attribute, []).extend(
                map(read, _packed(data))
            )
        self._finishers[attribute] = tuple

        def write_all(elements: tuple[Any, ...] | None) -> bytes:
            return b"".join([start + write(element) for element in elements or ()])

        return _FieldCodec(attribute, (), b"", write_all)

    def _map(self, number: int, attribute: str, scalar: Scalar) -> _FieldCodec:
        start = tag(number, LENGTH)
        key_start, value_start = tag(1, LENGTH), tag(2, scalar.wire_type)
        key_tag, value_tag = 1 << 3 | LENGTH, 2 << 3 | scalar.wire_type
        write_key, read_key = _schemas.STRING.write, _schemas.STRING.read
        write, read, zero = scalar.write, scalar.read, scalar.zero

        def take(values: Values, data: bytes) -> None:
            key, value = "", zero
            for found, content in fields(data, _KEYS_AND_VALUES):
                if found == key_tag:
                    key = read_key(content)
                elif found == value_tag:
                    value = read(content)
            values.setdefault(attribute, {})[key] = value

        def write_all(entries: dict[str, Any]) -> bytes:
            if not entries:
                return b""
            return b"".join(
                [
                    start + delimited(key_start + write_key(key) + value_start + write(value))
                    for key, value in sorted(entries.items(), key=_by_bytes)
                ]
            )

        self._takers[number << 3 | LENGTH] = take
        return _FieldCodec(attribute, None, b"", write_all)


def _nothing(obj: Any) -> tuple[Any, ...]:
    return ()


def _getter(attributes: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads these attributes of an object; "" stands for the object itself."""
    if "" in attributes:
        return lambda obj: tuple([getattr(obj, name) if name else obj for name in attributes])
    if len(attributes) > 1:
        return operator.attrgetter(*attributes)
    return lambda obj: tuple([getattr(obj, name) for name in attributes])


def _codec(kind: Any, release: str) -> _Codec:
    codec = _made(kind, release)
    if not codec._names:
        codec.fill()
    return codec


@cache
def _made(kind: Hashable, release: str) -> _Codec:
    return _Codec(kind, release)


def _described(kind: type[KubeStruct]) -> TypeInfo:
    info = info_of(kind)
    if info is None:
        raise LookupError(f"{kind.__name__} has no protobuf form")
    return info


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (types.UnionType, typing.Union):
        return hint
    kept = [part for part in typing.get_args(hint) if part is not types.NoneType]
    return kept[0] if len(kept) == 1 else Int32 | str


def _go_name(json_name: str) -> str:
    return "ObjectMeta" if json_name == "metadata" else json_name[:1].upper() + json_name[1:]


def _by_bytes(entry: tuple[str, Any]) -> bytes:
    """Go orders texts by their bytes."""
    return entry[0].encode("utf-8", "surrogatepass")


def _wrapped_list(element: Scalar) -> Scalar:
    start = tag(1, element.wire_type)

    def write(values: tuple[Any, ...]) -> bytes:
        return delimited(b"".join([start + element.write(value) for value in values]))

    def read(data: bytes) -> tuple[Any, ...]:
        wanted = 1 << 3 | element.wire_type
        return tuple(element.read(value) for key, value in fields(data, "list") if key == wanted)

    return Scalar(LENGTH, write, read, ())


def _packed(data: bytes) -> list[int]:
    position, found = 0, []
    while position < len(data):
        value, position = read_varint(data, position)
        found.append(value)
    return found


MAGIC: Final = b"k8s\0"
_FIRST: Final = tag(1, LENGTH)
_SECOND: Final = tag(2, LENGTH)
_NO_ENCODING: Final = tag(3, LENGTH) + b"\0" + tag(4, LENGTH) + b"\0"
"""contentEncoding and contentType, both empty: that means protobuf, uncompressed."""


class ProtobufEnvelope(msgspec.Struct, frozen=True):
    """Kind and apiVersion of a body, and the bare message."""

    api_version: str
    kind: str
    message: bytes
    content_encoding: str = ""
    content_type: str = ""


def wrap(gvk: GroupVersionKind, message: bytes) -> bytes:
    """Return a message as a body of its own."""
    type_meta = _FIRST + delimited(gvk.api_version.encode()) + _SECOND + delimited(gvk.kind.encode())
    return b"".join((MAGIC, _FIRST, delimited(type_meta), _SECOND, delimited(message), _NO_ENCODING))


def unwrap(body: bytes) -> ProtobufEnvelope:
    """Return the message in a body, and the kind and version that it claims.

    Raises:
        ProtobufError: it does not begin with the magic bytes, or is broken.
    """
    if not body.startswith(MAGIC):
        magic = " ".join(str(byte) for byte in MAGIC)
        raise ProtobufError(f"provided data does not appear to be a protobuf message, expected prefix [{magic}]")
    parts = _texts(body[len(MAGIC) :], "Unknown")
    type_meta = _texts(parts.get(1, b""), "TypeMeta")
    return ProtobufEnvelope(
        api_version=type_meta.get(1, b"").decode("utf-8", "replace"),
        kind=type_meta.get(2, b"").decode("utf-8", "replace"),
        message=parts.get(2, b""),
        content_encoding=parts.get(3, b"").decode("utf-8", "replace"),
        content_type=parts.get(4, b"").decode("utf-8", "replace"),
    )


def watch_frame(kind: str, body: bytes) -> bytes:
    """Return one event of a watch: its kind (ADDED, MODIFIED, …) and a wrapped object."""
    event = _FIRST + delimited(kind.encode()) + _SECOND + delimited(_FIRST + delimited(body))
    return len(event).to_bytes(4, "big") + event


def _texts(data: bytes, message: str) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for key, value in fields(data, message):
        if not isinstance(value, bytes):
            raise ProtobufError(f"proto: wrong wireType = {key & 7} for field {key >> 3} of {message}")
        found[key >> 3] = value
    return found
