"""Objects decoded part by part: a part whose bytes are unchanged stays the same object.

In one process, parts pass frozen objects by reference, and a change leaves most fields of an object the same; many
memos depend on that (`cathedra.remembering`). An object that arrives as bytes would be new in all its fields. Its JSON
is therefore cut at its fields, and at those of the structs in them, which costs a microsecond or two. A field is
decoded only if its bytes differ from those of an earlier state of the object. New objects of a kind share equal specs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, RawJSON, decode, decoder_of, json_reader, replace

K = TypeVar("K", bound=KubeStruct)

LIMIT: Final = 64
"""Specs that are known by their bytes at a time: few are in use at once."""
LARGEST: Final = 16 * 1024
"""Bytes up to which a spec is known by them."""

_SHARED: Final = 256
"""Parts of a type that are known at a time: neighbours in the store are of one workload."""

_TEXTS: Final = 2048
"""Texts that are known at a time: types and states of conditions, names of managers, addresses of a node."""

_REPEATED: Final = frozenset(
    [
        "type",
        "status",
        "reason",
        "manager",
        "operation",
        "api_version",
        "fields_type",
        "subresource",
        "image",
        "image_id",
        "host_ip",
        "pod_ip",
        "ip",
        "qos_class",
        "phase",
        "driver",
        "request",
        "kind",
        "node_name",
        "pool",
        "key",
        "operator",
    ]
)
"""Fields whose texts are often equal, in objects whose other parts differ."""

_EMPTY: Final = b"[]"

_Cut = dict[str, msgspec.Raw]
_CUT: Final = msgspec.json.Decoder(_Cut)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])


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


class SharedParts:
    """Decoder of a store's objects, which share equal parts.

    Most of a pod is the same as in the next pod of its workload: containers, tolerations, field managers. Decoded one
    by one, 100,000 pods take 900 MB; with shared parts they take 330 MB. Parts are equal if their bytes are, so each
    object keeps what was written. Parts that are hardly ever equal, as statuses, share their texts and empty mappings
    alone. The decoder is discarded when all objects are read.
    """

    def __init__(self) -> None:
        self._texts = SharedTexts()
        self._readers: dict[Any, Callable[[Any], Any]] = {}

    def read(self, kind: type[K], body: bytes) -> K:
        """Decode an object as `cathedra.api.struct.decode` does.

        Raises:
            msgspec.ValidationError: a value has the wrong type; the text names the path.
            msgspec.DecodeError: it is no JSON, no UTF-8, or nested too deeply.
        """
        check_nesting(body, WRAPPED_DEPTH)
        try:
            # Claims are small. Cut into parts they take three times as long to decode, for a fifth of their memory.
            if kind is not ResourceClaim:
                read: K = self._reader(kind)(body)
                return read
            read = reader_of(kind)(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return decode(kind, body)  # its error has positions in the whole body, and it removes nulls from it
        self._texts.share(read)
        return read

    def _reader(self, kind: Any) -> Callable[[Any], Any]:
        found = self._readers.get(kind)
        if found is None:
            # Schemas of custom kinds contain schemas: the reader of a type is found while it is being made.
            self._readers[kind] = lambda raw: self._readers[kind](raw)
            found = self._readers[kind] = self._made(kind)
        return found

    def _made(self, kind: Any) -> Callable[[Any], Any]:
        """Return the reader of parts of a type, which finds those with known bytes."""
        plain = decoder_of(kind).decode
        # Numbers and texts are not worth finding, and statuses have times of their own. Values of custom objects are
        # plain dictionaries and lists, which are never shared: whatever changes one would change others.
        if _required(kind) in (int, bool, float, str, Any):
            return plain
        if getattr(kind, "__name__", "").endswith("Status"):
            return self._texts.shared_after(plain)
        known: dict[bytes, Any] = {}
        make = _raw_json if _required(kind) is RawJSON else self._maker(_required(kind), plain)

        def read(raw: Any) -> Any:
            data = bytes(raw)
            found = known.get(data)
            if found is None:
                found = plain(data) if data == b"null" else make(data)
                if len(known) >= _SHARED:
                    known.clear()
                known[data] = found
            return found

        return read

    def _maker(self, kind: Any, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the reader of new parts of a type. A struct, list or mapping is made of parts that may be known;
        ``plain`` decodes what contains no structs."""
        inner = _struct(kind)
        element, mapped = _contained(kind, tuple), _contained(kind, Mapping)
        if inner is not None:
            fields = {
                field.encode_name: (field.name, self._reader(field.type)) for field in msgspec.structs.fields(inner)
            }

            def struct(raw: Any) -> Any:
                cut = _CUT.decode(raw)
                made = inner(**{fields[name][0]: fields[name][1](part) for name, part in cut.items() if name in fields})
                if share is not None:
                    share(made)
                return made

            share = self._texts.of_own(inner)
            return struct
        if element is not None:
            reader = self._reader(element)

            def items(raw: Any) -> Any:
                parts = _LIST.decode(raw)
                # The decoder of the type knows what an empty list means in this field.
                return tuple(map(reader, parts)) if parts else plain(raw)

            return items
        if mapped is not None:
            reader = self._reader(mapped)
            return lambda raw: {name: reader(part) for name, part in _CUT.decode(raw).items()}
        return plain


def _raw_json(raw: Any) -> RawJSON | None:
    """Return opaque JSON as it stands in a store, without decoding it."""
    data = bytes(raw)
    return None if data == b"null" else RawJSON(data)


class SharedTexts:
    """Equal texts of objects that were just decoded become one text, and their empty mappings one mapping.

    A decoder makes a new text for every ``True`` and every ``Initialized``: 100,000 pods with five conditions hold a
    million of them, 60 bytes each. Only fields whose texts repeat (`_REPEATED`) are shared, since the look-up costs as
    much as decoding the text.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._sharing: dict[type, Callable[[Any], None] | None] = {}

    def share(self, obj: KubeStruct) -> None:
        """Share the texts of an object and of all structs in it. Nothing else may refer to them yet."""
        if len(self._known) > _TEXTS:
            self._known.clear()
        share = self._of_all(type(obj))
        if share is not None:
            share(obj)

    def shared_after(self, decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a decoder of structs whose texts are shared."""

        def read(raw: Any) -> Any:
            made = decode(raw)
            if made is not None:
                self.share(made)
            return made

        return read

    def of_own(self, kind: type[KubeStruct]) -> Callable[[Any], None] | None:
        """Return the function that shares the texts of a struct, but not those of the structs in it; None if there is
        nothing to share."""
        fields = msgspec.structs.fields(kind)
        texts = [field.name for field in fields if field.name in _REPEATED and _required(field.type) is str]
        mappings = [field.name for field in fields if _is_mapping(field.type)]
        read_texts, share_text = _values_of(texts), self._known.setdefault
        read_mappings, nothing = _values_of(mappings), _NO_ITEMS

        def share(obj: Any) -> None:
            for name, value in zip(texts, read_texts(obj), strict=False):
                if value and (found := share_text(value, value)) is not value:
                    # Frozen for its readers, which it does not have yet.
                    force_setattr(obj, name, found)

        def share_both(obj: Any) -> None:
            share(obj)
            for name, value in zip(mappings, read_mappings(obj), strict=False):
                if not value and value is not None:
                    force_setattr(obj, name, nothing)

        if mappings:
            return share_both
        return share if texts else None

    def _of_all(self, kind: type) -> Callable[[Any], None] | None:
        if kind not in self._sharing:
            self._sharing[kind] = None  # types that contain themselves, JSON schemas alone, are read as they are
            self._sharing[kind] = self._made(kind)
        return self._sharing[kind]

    def _made(self, kind: Any) -> Callable[[Any], None] | None:
        share, fields = self.of_own(kind), msgspec.structs.fields(kind)
        parts = [(field.name, _struct(_required(field.type))) for field in fields]
        lists = [(field.name, _contained(_required(field.type), tuple)) for field in fields]
        inner = [(name, one) for name, struct in parts if struct and (one := self._of_all(struct))]
        each = [(name, one) for name, element in lists if element and (one := self._of_all(element))]
        if not inner and not each:
            return share

        def share_all(obj: Any) -> None:
            if share is not None:
                share(obj)
            for name, share_one in inner:
                if (part := getattr(obj, name)) is not None:
                    share_one(part)
            for name, share_one in each:
                for part in getattr(obj, name) or ():
                    share_one(part)

        return share_all


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads fields into a tuple, which may be longer than the names."""
    # `attrgetter` returns the value of one name as it is.
    return attrgetter(*names, names[0]) if names else lambda _: ()


_NO_ITEMS: Final[dict[str, Any]] = {}


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(_required(kind))
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _required(kind: Any) -> Any:
    """Return the type of a field without its None."""
    options = [one for one in get_args(kind) if one is not NoneType]
    return options[0] if NoneType in get_args(kind) and len(options) == 1 else kind


def _contained(kind: Any, container: type) -> type[KubeStruct] | None:
    """Return the struct of which a type is a list or a mapping from strings; None if it is another type."""
    origin, arguments = get_origin(kind), get_args(kind)
    if isinstance(origin, type) and issubclass(origin, container) and len(arguments) == 2:
        return _struct(arguments[0] if container is tuple else arguments[1])
    return None


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
