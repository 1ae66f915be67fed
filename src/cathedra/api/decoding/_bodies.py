"""A body becomes an object: fast where everything is right, telling where it is not."""

from __future__ import annotations

import re
from types import GenericAlias
from typing import Any, Final, Generic, TypeVar

import msgspec

from cathedra.api.decoding._opaque import restore_empty_lists, restore_opaque
from cathedra.api.decoding.gotypes import GoType, ValueForm, go_type_of
from cathedra.api.decoding.reader import DecodeError, Reader, parse, well_formed
from cathedra.api.nesting import TOO_DEEP, check_nesting
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import KubeStruct, decoder_of, from_dict, replace, scalars_of
from cathedra.releases import NEWEST
from cathedra.remembering import remembered

__all__ = [
    "KINDS_WITH_SCHEMAS",
    "Decoded",
    "decode_json",
    "decode_sound",
    "decode_values",
    "decode_written",
    "has_known_fields",
    "written_keys",
]

T = TypeVar("T", bound=KubeStruct)


class Decoded(msgspec.Struct, Generic[T], frozen=True):
    """An object, without kind and apiVersion, and what its body had that it should not have had."""

    object: T
    problems: tuple[str, ...] = ()
    """As ``unknown field "spec.foo"`` and ``duplicate field "metadata"``, in order of appearance."""


def decode_sound(kind: type[T], gvk: GroupVersionKind, body: bytes, release: str = NEWEST) -> T | None:
    """Decode a JSON body that has no errors and names its kind, as most do. Return None for any other body;
    `read_envelope` and `decode_json` report what is wrong."""
    # Their schemas are read value by value; counting keys would take them for unknown fields.
    if gvk.kind in KINDS_WITH_SCHEMAS:
        return None
    try:
        check_nesting(body)
        body = well_formed(body)
        # Decoded twice: into plain values, whose keys are counted, and into the struct. msgspec drops unknown keys
        # silently, and two passes of its C code are faster than one strict pass in Python.
        values = msgspec.json.decode(body)
        obj = decoder_of(kind, scalars_of(release)).decode(body)
    except (RecursionError, msgspec.DecodeError, ValueError):
        return None
    if values.get("kind", gvk.kind) != gvk.kind:
        return None
    if "apiVersion" in values and values["apiVersion"] != gvk.api_version:
        return None
    return _with_known_keys(obj, values, body, go_type_of(gvk, release))


def decode_json(kind: type[T], gvk: GroupVersionKind, body: bytes, release: str = NEWEST) -> Decoded[T]:
    """Return the object of a JSON body in which something may be wrong, read value by value; most have come out of
    `decode_sound`. ``gvk`` is the version it was sent in, whose types errors speak of.

    How deeply the body is nested has been checked when its envelope was read.

    Raises:
        DecodeError: the body is no JSON, or some value has the wrong type or form.
    """
    return _read(kind, gvk, well_formed(body), release)


def _with_known_keys(obj: T, values: Any, body: bytes, shape: GoType) -> T | None:
    """Return the decoded object; None if the body has an unknown key, or may have a repeated one."""
    keys = _known_keys(values, shape)
    # The last of two equal keys wins in JSON. Kubernetes reports the repetition, and only the text still shows it: more
    # keys in the text than in the values.
    if keys < 0 or written_keys(body) != keys:
        return None
    found: T = _finished(restore_opaque(obj, body), body)
    return found


def decode_values(kind: type[T], gvk: GroupVersionKind, values: Any, release: str = NEWEST) -> Decoded[T]:
    """Return the object that plain values describe, as a patch or YAML yields them.

    Raises:
        DecodeError: some value has the wrong type or form.
    """
    try:
        body = msgspec.json.encode(values)  # of bounded depth: bodies, and what patches make of them, are checked
    except RecursionError as error:
        raise DecodeError(TOO_DEEP) from error
    if gvk.kind in KINDS_WITH_SCHEMAS or _known_keys(values, go_type_of(gvk, release)) < 0:
        return _read(kind, gvk, body, release)
    try:
        obj = decoder_of(kind, scalars_of(release)).decode(body)
    except (msgspec.DecodeError, ValueError):
        return _read(kind, gvk, body, release)
    # No field appears twice, and opaque parts have no other form than the one they are decoded to.
    return Decoded(_finished(obj, body))


def decode_written(kind: type[T], gvk: GroupVersionKind, body: bytes, release: str = NEWEST) -> Decoded[T] | None:
    """Decode a JSON body, as `decode_values` decodes its values. Return None if a field is unknown or has an error.

    Dumps of clusters are hundreds of megabytes of plain values, of which the structs keep a tenth. Two passes of
    msgspec, without plain values between them, take a third of the time of `decode_values`.

    How deeply the body is nested has been checked.
    """
    if gvk.kind in KINDS_WITH_SCHEMAS or b"\\u" in body:
        return None
    known = _known_fields_of(gvk, release)
    if known is None:
        return None
    try:
        known.decode(body)
        obj = decoder_of(kind, scalars_of(release)).decode(body)
    except (msgspec.DecodeError, ValueError):
        return None
    return Decoded(_finished(obj, body))


def has_known_fields(values: Any, gvk: GroupVersionKind, release: str = NEWEST) -> bool:
    """Return True if a release knows all fields of plain values of a kind."""
    return _known_keys(values, go_type_of(gvk, release)) >= 0


def _finished(obj: Any, body: bytes) -> Any:
    obj = restore_empty_lists(obj, body)
    kind: Any = type(obj)
    # Inside the system objects have neither: two objects that differ in the version of the request alone must be equal.
    if _names_its_kind(kind) and (obj.kind or obj.api_version):
        return replace(obj, kind="", api_version="")
    return obj


def _names_its_kind(kind: Any) -> bool:
    """Return True if objects of a type have room for kind and apiVersion, which hardly any have."""
    return "kind" in kind.__struct_fields__ and "api_version" in kind.__struct_fields__


def _read(kind: type[T], gvk: GroupVersionKind, body: bytes, release: str) -> Decoded[T]:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode(errors="replace")
        body = text.encode()  # opaque parts are fetched from it
    reader = Reader()
    parsed = parse(text)
    if parsed is None:
        body = b"{}"  # null is an object without anything
    values = reader.read(parsed, go_type_of(gvk, release))
    values.pop("kind", None)
    values.pop("apiVersion", None)
    try:
        obj = from_dict(kind, values, scalars_of(release))
    except (msgspec.ValidationError, ValueError) as error:
        raise DecodeError(str(error)) from error
    if gvk.kind not in KINDS_WITH_SCHEMAS:
        obj = restore_opaque(obj, body)
    return Decoded(_finished(obj, body), tuple(reader.problems))


KINDS_WITH_SCHEMAS: Final = frozenset(("CustomResourceDefinition", "CustomResourceDefinitionList"))
"""Kinds with schemas inside, which are JSON to us and structs to Kubernetes: only the reader knows what fits them."""


def _known_keys(value: Any, shape: GoType) -> int:
    """Count the keys in ``value`` and below it. Return a negative number if one of them is unknown.

    The hot part of field validation: one pass over what holds something in plain dicts, without a call for each.
    """
    count = 0
    pending = [(value, shape)]
    # A list that grows instead of recursion: bodies nest as deeply as the limit permits, and calls are the main cost.
    for holder, held in pending:  # which grows on the way
        if type(holder) is dict:
            count += len(holder)
            if held.form is _STRUCT:
                holding = _holding(held, tuple(holder))
                if holding is None:
                    return -1
                for key, inner, texts in holding:
                    item = holder[key]
                    if texts and type(item) is dict:
                        count += len(item)
                    elif item:
                        pending.append((item, inner))
                continue
        elif type(holder) is not list:
            continue
        element = held.element or held
        if element.form is _STRING:
            continue  # what is decoded has nothing below them
        for item in holder.values() if type(holder) is dict else holder:
            kind = type(item)
            if (kind is dict or kind is list) and item:
                pending.append((item, element))
    return count


@remembered("api.decoding.bodies.holding", size=4096)
def _holding(shape: GoType, keys: tuple[str, ...]) -> tuple[tuple[str, GoType, bool], ...] | None:
    """Return the keys of a struct whose values have keys of their own, each with the type of its value, and True for
    values that are texts by name, as labels and data. Return None if a key is unknown. Objects of a kind are written
    with few different sets of keys."""
    fields = shape.fields
    if not fields.keys() >= set(keys):
        return None
    holding = []
    for key in keys:
        inner = fields[key]
        of_texts = inner.element is not None and inner.element.form is ValueForm.STRING
        if inner.form in _HOLDING and not (of_texts and inner.form is ValueForm.LIST):
            holding.append((key, inner, of_texts))
    return tuple(holding)


@remembered("api.decoding.bodies.known_fields_of", size=1024)
def _known_fields_of(gvk: GroupVersionKind, release: str) -> msgspec.json.Decoder[Any] | None:
    """Return a decoder that fails at any field that the release does not know, and keeps no value. Return None if the
    type contains itself."""
    try:
        return msgspec.json.Decoder(_fields_only(go_type_of(gvk, release), ()))
    except RecursionError:
        return None


def _fields_only(shape: GoType, above: tuple[GoType, ...]) -> Any:
    """Return the annotation of a value of ``shape`` in which everything but the names of fields is raw JSON.

    Raises:
        RecursionError: the type contains itself.
    """
    if shape in above:
        raise RecursionError(shape.name)
    within = (*above, shape)
    if shape.form is _STRUCT:
        # Numbered, because not every name in JSON is one in Python.
        names = {f"f{number}": name for number, name in enumerate(shape.fields)}
        fields = [
            (attribute, _or_null(_fields_only(shape.fields[name], within)), None) for attribute, name in names.items()
        ]
        return msgspec.defstruct(shape.short or "Fields", fields, rename=names, forbid_unknown_fields=True, gc=False)
    if shape.element is None or shape.form not in _REPEATING:
        return msgspec.Raw
    inner = _fields_only(shape.element, within)
    if inner is msgspec.Raw:
        return msgspec.Raw
    return GenericAlias(list, (_or_null(inner),)) if shape.form is _LIST else GenericAlias(dict, (str, _or_null(inner)))


def _or_null(annotation: Any) -> Any:
    """Return the annotation that admits null, as raw JSON does by itself."""
    return annotation if annotation is msgspec.Raw else annotation | None


def written_keys(body: bytes) -> int:
    """Return an upper bound of the keys in the text. If it exceeds the keys of the parsed body, a key is repeated, or a
    string looks like one."""
    tight = body.count(b'":')
    if b'\\":' in body and b"\\\\" not in body:
        # Field owners name the elements of lists by JSON of their own. Where no backslash is written, one before a
        # quote is within a text.
        tight -= body.count(b'\\":')
    loose = len(_LOOSE.findall(body)) if _LOOSE.search(body) else 0
    return tight + loose


_STRUCT: Final = ValueForm.STRUCT
_STRING: Final = ValueForm.STRING
_LIST: Final = ValueForm.LIST
"""Members of an enumeration are looked up again at each use."""
_REPEATING: Final = frozenset({ValueForm.LIST, ValueForm.MAP})
_HOLDING: Final = frozenset(
    {ValueForm.STRUCT, ValueForm.LIST, ValueForm.MAP, ValueForm.OPAQUE, ValueForm.ONE_OF_SEVERAL}
)
"""Of values that may have keys below them."""
_LOOSE: Final = re.compile(rb'"\s+:')
