"""Objects decoded part by part: a part whose bytes are unchanged stays the same object.

In one process, parts pass frozen objects by reference, and a change leaves most fields of an object the same; many
memos depend on that (`cathedra.remembering`). An object that arrives as bytes would be new in all its fields. Its JSON
is therefore cut at its fields, and at those of the structs in them, which costs a microsecond or two. A field is
decoded only if its bytes differ from those of an earlier state of the object. New objects of a kind share equal specs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, decoder_of, json_reader, replace

K = TypeVar("K", bound=KubeStruct)

LIMIT: Final = 64
"""Specs that are known by their bytes at a time: few are in use at once."""
LARGEST: Final = 16 * 1024
"""Bytes up to which a spec is known by them."""

_EMPTY: Final = b"[]"

_Cut = dict[str, msgspec.Raw]
_CUT: Final = msgspec.json.Decoder(_Cut)


class PartsDecoder(Generic[K]):
    """Reads objects of one kind, from JSON whose nesting is bounded already (`cathedra.api.nesting`)."""

    def __init__(self, kind: type[K]) -> None:
        self._kind = kind
        self._decode = json_reader(kind)
        spec = _fields(kind).get("spec")
        self._spec = "" if spec is None else spec.name
        self._specs: dict[bytes, Any] = {}

    def new(self, body: bytes) -> K:
        """Decode a new object. Objects with the same spec share it.

        Raises:
            msgspec.ValidationError: a value has the wrong type; the text names the path.
            msgspec.DecodeError: it is no JSON.
            UnicodeDecodeError: its texts are not UTF-8.
        """
        if not self._spec:
            return self._decode(body)
        try:
            cut = _CUT.decode(body)
            spec = bytes(cut.get("spec", b""))
            known = self._specs.get(spec)
            if known is not None:
                del cut["spec"]
                return self._kind(**{self._spec: known}, **_values(self._kind, cut))
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._decode(body)  # its error has positions in the whole body
        made = self._decode(body)
        if spec and len(spec) <= LARGEST:
            if len(self._specs) >= LIMIT:
                del self._specs[next(iter(self._specs))]
            self._specs[spec] = getattr(made, self._spec)
        return made

    def later(self, body: bytes, earlier: K, earlier_body: bytes) -> K:
        """Decode a later state of an object, which shares unchanged parts with the earlier state.

        Raises:
            msgspec.ValidationError: a value has the wrong type; the text names the path.
            msgspec.DecodeError: it is no JSON.
            UnicodeDecodeError: its texts are not UTF-8.
        """
        try:
            return _changed(self._kind, body, earlier, earlier_body, 1)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return self._decode(body)  # its error has positions in the whole body


class _Field(msgspec.Struct, frozen=True):
    """A field of a struct."""

    name: str
    """Attribute of the struct."""
    decode: Callable[[Any], Any]
    inner: type[KubeStruct] | None
    """Its type, where that is a struct."""


def parts_decoder(kind: type[K]) -> PartsDecoder[K]:
    """The decoder of a kind."""
    key: Any = kind
    made: PartsDecoder[K] = _decoder(key)
    return made


def with_parts_of(obj: K, body: bytes, earlier: K, earlier_body: bytes) -> K:
    """Return an object that was decoded from ``body`` as a whole, with the parts of an earlier state whose bytes are
    the same. Explicit empty lists stay, because they may differ in meaning (`cathedra.api.struct.EMPTY_LIST`)."""
    try:
        return _shared(obj, body, earlier, earlier_body, 1)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return obj  # only what decodes plainly can be cut


def _shared(obj: K, body: Any, earlier: K, earlier_body: Any, depth: int) -> K:
    before, fields = _CUT.decode(earlier_body).get, _fields(type(obj))
    values: dict[str, Any] = {}
    for name, raw in _CUT.decode(body).items():
        field, old = fields.get(name), before(name)
        if field is None or old is None:
            continue
        if raw == old:
            if _EMPTY not in bytes(raw):
                values[field.name] = getattr(earlier, field.name)
        elif depth and field.inner is not None:
            inner = getattr(obj, field.name), raw, getattr(earlier, field.name), old
            values[field.name] = _shared(*inner, depth - 1)
    return replace(obj, **values) if values else obj


def reader_of(kind: type[K]) -> Callable[[bytes], K]:
    """Return the reader of a kind's objects from a server. Claims with equal specs, as those of a template, share one
    object as their spec; pods do not, because each has a volume with a name of its own."""
    return parts_decoder(kind).new if kind is ResourceClaim else json_reader(kind)


@cache
def _decoder(kind: Any) -> PartsDecoder[Any]:
    return PartsDecoder(kind)


def _values(kind: type[KubeStruct], cut: _Cut) -> dict[str, Any]:
    fields = _fields(kind)
    return {field.name: field.decode(raw) for name, raw in cut.items() if (field := fields.get(name)) is not None}


def _changed(kind: type[K], body: Any, earlier: K, earlier_body: Any, depth: int) -> K:
    """``depth``: levels of structs below this one that are cut as well."""
    cut, old = _CUT.decode(body), _CUT.decode(earlier_body)
    before = old.get
    changed = [name for name, raw in cut.items() if raw != before(name)]
    if not old.keys() <= cut.keys():
        changed += old.keys() - cut.keys()
    if not changed:
        return earlier
    fields = _fields(kind)
    values: dict[str, Any] = {}
    for name in changed:
        field = fields.get(name)
        if field is None:
            continue
        raw = cut.get(name)
        if raw is None:
            values[field.name] = getattr(_empty(kind), field.name)
        elif depth and field.inner is not None and name in old:
            values[field.name] = _changed(field.inner, raw, getattr(earlier, field.name), old[name], depth - 1)
        else:
            values[field.name] = field.decode(raw)
    return replace(earlier, **values)


@cache
def _empty(kind: Any) -> Any:
    return kind()


@cache
def _fields(kind: type[KubeStruct]) -> dict[str, _Field]:
    """JSON name → field."""
    return {
        field.encode_name: _Field(field.name, decoder_of(field.type).decode, _struct(field.type))
        for field in msgspec.structs.fields(kind)
    }


def _struct(kind: Any) -> type[KubeStruct] | None:
    return kind if isinstance(kind, type) and issubclass(kind, KubeStruct) else None
