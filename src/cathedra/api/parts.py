"""Objects decoded part by part: a part whose bytes are unchanged stays the same object.

In one process, parts pass frozen objects by reference, and a change leaves most fields of an object the same; many
memos depend on that (`cathedra.remembering`). An object that arrives as bytes would be new in all its fields. Its JSON
is therefore cut at its fields, and at those of the structs in them, which costs a microsecond or two. A field is
decoded only if its bytes differ from those of an earlier state of the object. New objects of a kind share equal specs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache, partial
from itertools import repeat
from types import GenericAlias, NoneType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin

import msgspec
from msgspec.structs import force_setattr

from cathedra.api.nesting import WRAPPED_DEPTH, check_nesting
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, RawJSON, decode, decode_scalar, decoder_of, json_reader, replace
from cathedra.api.timestamp import MicroTime, Time
from cathedra.remembering import IS_ON, TEMPLATES, hold

K = TypeVar("K", bound=KubeStruct)

LIMIT: Final = TEMPLATES
"""Specs that are known by their bytes at a time."""
LARGEST: Final = 8 * 1024
"""Bytes up to which a spec is known by them."""

FEW: Final = 16
"""Objects of a kind that are decoded as they are before readers of its parts are made, which takes 25 ms for pods."""

_SHARED: Final = 256
"""Parts of a type that are known at a time: neighbours in the store are of one workload."""

_TEXTS: Final = 2048
"""Texts that are known at a time: types and states of conditions, names of managers, addresses of a node."""

_WORTHWHILE: Final = 2
"""Parts that are read for each new one, from which on it pays to look for them."""

_PAUSE: Final = 2048
"""Parts that are decoded without being looked for, where it did not pay."""

_OWN: Final = frozenset(["metadata", "spec", "status"])
"""Fields whose values differ from object to object."""

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
        hold(self._specs, objects=True)

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
        if spec and len(spec) <= LARGEST and IS_ON:
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
    by one, 100,000 pods take 900 MB; with shared parts they take 300 MB. Parts are equal if their bytes are, so each
    object keeps what was written. Parts with times, as conditions, are hardly ever equal: their texts are shared alone.
    The decoder is discarded when all objects are read.
    """

    def __init__(self) -> None:
        self._readers: dict[type, _KindReaders] = {}
        self._seen: Counter[type] = Counter()
        """Objects by kind, as long as these are few."""

    def read(self, kind: type[K], body: bytes) -> K:
        """Decode an object as `cathedra.api.struct.decode` does.

        Raises:
            msgspec.ValidationError: a value has the wrong type; the text names the path.
            msgspec.DecodeError: it is no JSON, no UTF-8, or nested too deeply.
        """
        readers = self._readers.get(kind)
        if readers is None:
            self._seen[kind] += 1
            if self._seen[kind] <= FEW:
                return decode(kind, body)
            readers = self._readers[kind] = _KindReaders(kind)
        try:
            made: K = readers.read(body)
            return made
        # A decoder recurses as deeply as Python permits, and `decode` reports the depth as an error of the body.
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return decode(kind, body)  # its error has positions in the whole body, and it removes nulls from it


class _Outline(msgspec.Struct, frozen=True):
    """A struct as it is decoded at once, and what is then done to complete it."""

    kind: Any
    """The type to decode: the struct itself, or a subclass in which parts stay raw."""
    complete: Callable[[Any], None] | None
    """Decode the raw parts, share texts, and make it an instance of the struct itself; None: nothing is missing."""


class _KindReaders:
    """Readers of the parts of one kind's objects.

    The decoder of a kind builds every part. Cutting an object into parts by Python, level by level, costs three times
    as much. So an object is decoded at once as an *outline*: a subclass of its type in which parts that may be known
    are `msgspec.Raw`. These are replaced by known or decoded parts, and the object becomes one of the type itself; the
    subclass has no fields of its own, so both have one layout in memory.
    """

    def __init__(self, kind: type[KubeStruct]) -> None:
        self._readers: dict[Any, Callable[[Any], Any]] = {}
        self._outlines: dict[type[KubeStruct], _Outline | None] = {}
        self._texts: dict[str, str] = {}
        self._times: dict[type, dict[str, Any]] = {Time: {}, MicroTime: {}}
        self._whole = self._new(kind)

    def read(self, body: bytes) -> Any:
        """Decode an object; equal texts of all objects become one."""
        if len(self._texts) > _TEXTS:
            self._texts.clear()
        return self._whole(body)

    def _new(self, kind: Any) -> Callable[[Any], Any]:
        """Return the reader of parts that are not known as a whole."""
        required = _required(kind)
        inner, element, mapped = _struct(required), _contained(required, tuple), _contained(required, Mapping)
        if required is RawJSON:
            return _raw_json
        if inner is not None:
            return self._new_struct(inner)
        if element is not None:
            return self._new_list(element)
        if mapped is not None:
            reader = self._known(mapped)
            return lambda raw: {name: reader(part) for name, part in _CUT.decode(raw).items()}
        return self._decoder(kind)

    def _new_struct(self, kind: type[KubeStruct]) -> Callable[[Any], Any]:
        outline = self._outline(kind)
        decode_outline, complete = self._decoder(outline.kind), outline.complete
        if complete is None:
            return decode_outline

        def read(raw: Any) -> Any:
            made = decode_outline(raw)
            complete(made)
            return made

        return read

    def _new_list(self, kind: type[KubeStruct]) -> Callable[[Any], Any]:
        outline = self._outline(kind)
        decode_all, complete = self._decoder(_list_of(outline.kind)), outline.complete
        if complete is None:
            return decode_all

        def read(raw: Any) -> Any:
            made = decode_all(raw)
            for each in made:
                complete(each)
            return made

        return read

    def _decoder(self, kind: Any) -> Callable[[Any], Any]:
        return msgspec.json.Decoder(kind, dec_hook=self._scalar).decode

    def _scalar(self, kind: type, value: Any) -> Any:
        """Decode a scalar. An object has one time many times: in its conditions, and for each of its managers."""
        known = self._times.get(kind)
        if known is None or type(value) is not str:
            return decode_scalar(kind, value)
        found = known.get(value)
        if found is None:
            if len(known) >= _TEXTS:
                known.clear()
            found = known[value] = decode_scalar(kind, value)
        return found

    def _known(self, kind: Any) -> Callable[[Any], Any]:
        """Return the reader of parts of a type, which finds those with known bytes."""
        found = self._readers.get(kind)
        if found is None:
            # Schemas of custom kinds contain schemas: the reader of a type is found while it is being made.
            self._readers[kind] = lambda raw: self._readers[kind](raw)
            found = self._readers[kind] = self._finding(kind)
        return found

    def _finding(self, kind: Any) -> Callable[[Any], Any]:
        plain = self._decoder(kind)
        if Any in _types_in(kind):
            # Values of custom objects are plain dictionaries and lists, which are never shared: whatever changes one
            # would change others. Unlike structs they may be nested at will.
            def read_plain(raw: Any) -> Any:
                check_nesting(bytes(raw), WRAPPED_DEPTH)
                return plain(raw)

            return read_plain
        new, cut = self._new(kind), self._cut(kind, plain)
        known: dict[bytes, Any] = {}
        count = 0
        """Parts since ``known`` was last empty; below zero: parts that are still to be read without it."""

        def read(raw: Any) -> Any:
            nonlocal count
            count += 1
            data = bytes(raw)
            if count <= 0 and data != b"null":
                return new(data)
            found = known.get(data)
            if found is None:
                found = plain(data) if data == b"null" else cut(data)
                if len(known) >= _SHARED:
                    known.clear()
                    # Owners of claims and devices differ from object to object, and looking for them costs as much as
                    # decoding them. They are looked for again later, since the objects there may be of one workload.
                    count = 0 if count >= _WORTHWHILE * _SHARED else -_PAUSE
                known[data] = found
            return found

        return read

    def _cut(self, kind: Any, plain: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return the reader of new parts of a type among those that are known. The elements of a list may be known."""
        element = _contained(_required(kind), tuple)
        if element is None:
            return self._new(kind)
        reader = self._known(element)

        def items(raw: Any) -> Any:
            parts = _LIST.decode(raw)
            # The decoder of the type knows what an empty list means in this field.
            return tuple(map(reader, parts)) if parts else plain(raw)

        return items

    def _outline(self, kind: type[KubeStruct]) -> _Outline:
        if kind not in self._outlines:
            self._outlines[kind] = None
            self._outlines[kind] = self._made_outline(kind)
        found = self._outlines[kind]
        assert found is not None, "what contains itself contains no times"
        return found

    def _made_outline(self, kind: type[KubeStruct]) -> _Outline:
        fields: list[tuple[str, Any, Any]] = []
        raw: list[tuple[str, Any]] = []
        inner: list[tuple[str, type, Callable[[Any], None]]] = []
        each: list[tuple[str, Callable[[Any], None]]] = []
        for field in msgspec.structs.fields(kind):
            required = _required(field.type)
            struct, element = _struct(required), _contained(required, tuple)
            if (struct or element) and (field.name in _OWN or _has_time(required)):
                outline = self._outline(struct or element)  # type: ignore[arg-type]  # one of them is
                if outline.complete is None:
                    continue
                if struct:
                    own: Any = outline.kind
                    inner.append((field.name, outline.kind, outline.complete))
                else:
                    own = _list_of(outline.kind)
                    each.append((field.name, outline.complete))
                fields.append((field.name, own if required is field.type else own | None, _same_field(field)))
            elif _is_part(required):
                raw.append((field.name, field.type))
                fields.append((field.name, msgspec.Raw, _same_field(field)))
        texts = [
            field.name
            for field in msgspec.structs.fields(kind)
            if field.name in _REPEATED and _required(field.type) is str
        ]
        if not fields and not texts:
            return _Outline(kind, None)
        # Everything but ``kw_only``, which belongs to the fields, is inherited: another way of collecting garbage, for
        # example, would be another layout in memory.
        outlined = msgspec.defstruct(kind.__name__, fields, bases=(kind,), kw_only=True) if fields else kind
        return _Outline(outlined, self._completing(kind, texts, raw, inner, each))

    def _completing(
        self,
        kind: type[KubeStruct],
        texts: list[str],
        raw: list[tuple[str, Any]],
        inner: list[tuple[str, type, Callable[[Any], None]]],
        each: list[tuple[str, Callable[[Any], None]]],
    ) -> Callable[[Any], None]:
        """Return the function that completes an outline of ``kind``.

        It is compiled from a line or two for each field. Loops over the fields of fourteen structs would double the
        time of a pod.
        """

        def resolved(position: int, part_kind: Any, part: Any) -> Any:
            """Make a reader when it is first needed: most fields of a pod are never used."""
            readers[position] = self._known(part_kind)
            return readers[position](part)

        readers: list[Callable[[Any], Any]] = [partial(resolved, *one) for one in enumerate(part for _, part in raw)]
        source = _completing_source(
            texts, [name for name, _ in raw], [name for name, _, _ in inner], [name for name, _ in each]
        )
        names: dict[str, Any] = {
            "Raw": msgspec.Raw,
            # Objects are frozen for their readers, which this one does not have yet.
            "put": force_setattr,
            "share": self._texts.setdefault,
            "kind": kind,
            "readers": readers,
            "outlines": [outline for _, outline, _ in inner],
            "inner": [complete for _, _, complete in inner],
            "each": [complete for _, complete in each],
        }
        exec(compile(source, f"<{kind.__name__}>", "exec"), names)
        complete: Callable[[Any], None] = names["complete"]
        return complete


def _completing_source(texts: list[str], raw: list[str], inner: list[str], each: list[str]) -> str:
    """Return the source of a function that completes the outline of a struct, by the names of its fields."""
    lines = ["def complete(obj):"]
    for position, name in enumerate(raw):
        lines += [f" if type(value := obj.{name}) is Raw: put(obj, {name!r}, readers[{position}](value))"]
    for name in texts:
        lines += [f" if (found := share(value := obj.{name}, value)) is not value: put(obj, {name!r}, found)"]
    for position, name in enumerate(inner):
        lines += [f" if type(part := obj.{name}) is outlines[{position}]: inner[{position}](part)"]
    for position, name in enumerate(each):
        lines += [f" for part in obj.{name} or (): each[{position}](part)"]
    if raw or inner or each:
        lines += [" put(obj, '__class__', kind)"]
    return "\n".join(lines)


def _raw_json(raw: Any) -> RawJSON | None:
    """Return opaque JSON as it stands in a store, without decoding it.

    Raises:
        NestingError: it is nested too deeply.
    """
    data = bytes(raw)
    check_nesting(data, WRAPPED_DEPTH)
    return None if data == b"null" else RawJSON(data)


def _list_of(kind: Any) -> Any:
    return GenericAlias(tuple, (kind, ...))


def _same_field(field: msgspec.structs.FieldInfo) -> Any:
    """Return the field of an outline that stands for one of its struct, under the same name in JSON."""
    make = field.default_factory
    if make is msgspec.NODEFAULT:
        return msgspec.field(default=field.default, name=field.encode_name)
    # 100,000 pods have a million fields that are absent. Their structs and mappings of texts are never changed, so all
    # of them are one; plain dictionaries of custom objects are not.
    return msgspec.field(
        default_factory=make if Any in _types_in(field.type) else repeat(make()).__next__, name=field.encode_name
    )


@cache
def _types_in(kind: Any) -> frozenset[Any]:
    """Return a type and all types within it."""
    found: set[Any] = set()
    left = [kind]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            inner = _struct(one)
            left += get_args(one) if inner is None else [field.type for field in msgspec.structs.fields(inner)]
    return frozenset(found)


def _has_time(kind: Any) -> bool:
    """Return True if a type has a time somewhere in it: values with times are hardly ever equal."""
    return not _types_in(kind).isdisjoint((Time, MicroTime))


def _is_part(kind: Any) -> bool:
    """Return True if values of a type are worth finding, unlike numbers and texts."""
    origin = get_origin(kind)
    return (
        kind in (RawJSON, Any, object)
        or _struct(kind) is not None
        or (isinstance(origin, type) and issubclass(origin, (tuple, list, Mapping)))
    )


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
    """Return the decoder of a kind."""
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
