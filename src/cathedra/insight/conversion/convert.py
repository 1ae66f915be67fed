"""`convert`: manifests in, manifests out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.decoding import DecodeError, decode_values
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.scheme import GroupVersionKind
from cathedra.claims import VERSIONS
from cathedra.insight.conversion.deviceplugin import DevicePluginChange
from cathedra.insight.conversion.edits import (
    SourceDocument,
    SourcePart,
    TextEdit,
    Unconvertible,
    changed_values,
    documents_of,
    edited,
    json_of,
    json_written,
    parts_in,
    unwrap,
    wrap,
)
from cathedra.insight.manifests import Written, YAMLNode, written_files
from cathedra.insight.reading.dumps import definition_of
from cathedra.insight.rendering import API_VERSION


class _Change(Protocol):
    changes: list[str]
    notes: list[str]

    def rewritten(self, name: str, text: str) -> str: ...


def convert(given: Written, to: str = "v1") -> Conversion:
    """Return the manifests with every object of resource.k8s.io in version ``to``; the rest stays byte for byte.

    ``given`` is a text, a file or directory, or several; ``Path("-")`` is standard input.

    Raises:
        InvalidInput: there is no such version; a file is not there, is no YAML, or is written in a way that cannot be
            changed without changing more.
        OSError: a file cannot be read.
    """
    if to not in VERSIONS:
        raise InvalidInput(
            f"there is no version {to!r} of resource.k8s.io to convert to; there are {', '.join(VERSIONS)}"
        )
    return _converted(given, VersionChange(to))


def convert_device_plugin(given: Written, resources: Iterable[str] = ()) -> Conversion:
    """Return the manifests with claims in place of extended resources; by choice of some resources only.

    Raises:
        InvalidInput: a file is not there, is no YAML, or is written in a way that cannot be changed without changing
            more.
        OSError: a file cannot be read.
    """
    return _converted(given, DevicePluginChange(tuple(resources)))


def _converted(given: Written, change: _Change) -> Conversion:
    found = []
    for file in written_files(given):
        try:
            text = change.rewritten(file.name, file.text)
        except Unconvertible as error:
            raise InvalidInput(f"{file.name}: it cannot be converted as it is written: {error}") from error
        found.append(ConvertedFile(file.name, file.mark + text, tuple(change.changes), tuple(change.notes)))
    return Conversion(tuple(found))


class ConvertedFile(msgspec.Struct, frozen=True, rename="camel"):
    """One file, as it is to be."""

    file: str
    text: str
    changes: tuple[str, ...] = ()
    """The changes, object by object; empty if the text is unchanged."""
    notes: tuple[str, ...] = ()
    """Notes on what is not known, or was left unchanged."""

    @property
    def changed(self) -> bool:
        """True if anything was changed."""
        return bool(self.changes)


class Conversion(msgspec.Struct, frozen=True, rename="camel"):
    """All files, in order."""

    files: tuple[ConvertedFile, ...]

    def to_dict(self) -> JSONObject:
        """Return the answer as plain values."""
        found: JSONObject = msgspec.to_builtins(self)
        return {"apiVersion": API_VERSION, "kind": "Conversion", **found}


# --- versions


_GROUP: Final = "resource.k8s.io"


class VersionChange:
    """Rewrites texts to one version, and remembers what was changed in the last one."""

    def __init__(self, to: str) -> None:
        self._to = to
        self.changes: list[str] = []
        self.notes: list[str] = []

    def rewritten(self, name: str, text: str) -> str:
        """Return the text in the version.

        Raises:
            InvalidInput: it is no YAML.
            Unconvertible: it cannot be changed without changing more.
        """
        self.changes, self.notes = [], []
        plain = json_of(name, text)
        if plain is not None:
            made = changed_values(plain, self._converted)
            return json_written(made, text) if made != plain else text
        documents = documents_of(name, text)
        expected = [changed_values(one.value, self._converted) for one in documents]
        if not self.changes:
            return text
        # Positions are those before an edit, so edits of overlapping ranges need two passes.
        first = edited(text, [edit for one in documents for edit in self._capacities(one)])
        if first != text:
            documents = documents_of(name, first)
        made_text = edited(first, [edit for one in documents for edit in self._edits(first, one)])
        # The edited text is decoded again. An edit that changed anything else is never written.
        if [one.value for one in documents_of(name, made_text)] != expected:
            raise Unconvertible("anchors or unusual indentation")
        return made_text

    def _converted(self, value: Mapping[str, Any], gvk: GroupVersionKind) -> JSONObject:
        """Return the values of one object, converted if its version allows it. Changes and problems are recorded."""
        if gvk.group != _GROUP or gvk.version == self._to:
            return {**value}
        where = _title(value, gvk)
        if gvk.version not in CONVERTIBLE:
            self.notes.append(f"{where} stays in {gvk.version}: from there no conversion leads to {self._to}")
            return {**value}
        if not self._exists(gvk):
            self.notes.append(f"{where} stays in {gvk.version}: {gvk.kind} has no version {self._to}")
            return {**value}
        self.changes.append(f"{where}: {gvk.version} → {self._to}")
        made = in_version(value, gvk.kind, gvk.version, self._to)
        self.notes += [f"{where}: {problem} in {self._to}" for problem in _unknown(made, gvk, self._to)]
        return made

    def _exists(self, gvk: GroupVersionKind) -> bool:
        if gvk.version not in CONVERTIBLE:
            return False
        definition = definition_of(gvk.group, gvk.kind.removesuffix("List"))
        return definition is not None and any(one.name == self._to for one in definition.versions)

    def _parts(self, document: SourceDocument) -> Iterator[SourcePart]:
        seen: set[int] = set()
        for part in parts_in(document):
            if part.gvk.group == _GROUP and part.gvk.version != self._to and self._exists(part.gvk):
                # Anchors and aliases refer to one node, which must be edited once.
                if id(part.node) not in seen:
                    yield part
                seen.add(id(part.node))

    def _capacities(self, document: SourceDocument) -> Iterator[TextEdit]:
        """v1alpha3 has bare quantities as capacities."""
        for part in self._parts(document):
            if part.gvk.version != "v1alpha3" or part.gvk.kind != "ResourceSlice":
                continue
            for device in _elements(part.node, part.gvk.kind):
                basic = device.get(WRAPPED)
                capacity = basic.get("capacity") if basic is not None else None
                for _, value in capacity.entries if capacity is not None else ():
                    if value.kind == "scalar":
                        yield TextEdit(value.start, value.start, "{value: ")
                        yield TextEdit(value.end, value.end, "}")

    def _edits(self, text: str, document: SourceDocument) -> Iterator[TextEdit]:
        told: set[int] = set()
        for part in self._parts(document):
            entry = part.node.entry("apiVersion")
            if entry is not None and id(entry[1]) not in told:
                told.add(id(entry[1]))
                node = entry[1]
                written = text[node.start : node.end]
                old = f"{_GROUP}/{part.gvk.version}"
                yield TextEdit(node.start, node.end, written.replace(old, f"{_GROUP}/{self._to}"))
            if (part.gvk.version in FLAT) is (self._to in FLAT):
                continue
            for element in _elements(part.node, part.gvk.kind):
                if id(element) not in told:
                    told.add(id(element))
                    yield from self._element(text, element, part.gvk.kind)

    def _element(self, text: str, element: YAMLNode, kind: str) -> Iterator[TextEdit]:
        is_slice, flat = kind == "ResourceSlice", self._to in FLAT
        name, kept = (WRAPPED, KEPT_OF_DEVICES) if is_slice else (EXACTLY, KEPT_OF_REQUESTS)
        if is_slice is not flat:
            yield from unwrap(text, element, name)
            return
        yield from wrap(text, element, kept, name)
        if is_slice and all(key.text in kept for key, _ in element.entries):
            # A device without properties has an empty ``basic``.
            yield from _empty(text, element, name)


def _unknown(value: Mapping[str, Any], gvk: GroupVersionKind, version: str) -> tuple[str, ...]:
    """Return the fields that the version does not have. They are kept, because the author must decide what to do with
    them."""
    definition = definition_of(gvk.group, gvk.kind)
    if definition is None:
        return ()
    try:
        kind = definition.version(version).type
        return decode_values(kind, GroupVersionKind(gvk.group, version, gvk.kind), value).problems
    except (DecodeError, msgspec.MsgspecError, TypeError):
        return ()


def _empty(text: str, element: YAMLNode, name: str) -> Iterator[TextEdit]:
    if not element.entries:
        return
    key, value = element.entries[-1]
    if element.is_flow:
        quoted = f'"{name}"' if key.style == '"' else name
        yield TextEdit(value.end, value.end, f", {quoted}: {{}}")
        return
    column = key.start - text.rfind("\n", 0, key.start) - 1
    newline = "\r\n" if "\r\n" in text else "\n"
    at = text.find("\n", value.end)
    if at < 0:
        yield TextEdit(len(text), len(text), f"{newline}{' ' * column}{name}: {{}}")
    else:
        yield TextEdit(at + 1, at + 1, f"{' ' * column}{name}: {{}}{newline}")


def _elements(node: YAMLNode, kind: str) -> Iterator[YAMLNode]:
    """Yield the requests or devices of an object."""
    found: YAMLNode | None = node
    for step in parts_of(kind):
        found = found.get(step) if found is not None else None
    if found is not None:
        yield from (item for item in found.items if item.kind == "mapping")


def _title(value: Mapping[str, Any], gvk: GroupVersionKind) -> str:
    metadata = value.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    names = (known.get("namespace"), known.get("name") or known.get("generateName"))
    return "/".join((gvk.kind, *(str(one) for one in names if one)))


# --- values


CONVERTIBLE: Final = frozenset((*VERSIONS, "v1alpha3"))
"""The versions that are read: those of today's generation."""
EXACTLY: Final = "exactly"
WRAPPED: Final = "basic"
FLAT: Final = frozenset(("v1beta1", "v1alpha3"))
"""Versions in which requests are flat and devices wrapped."""
KEPT_OF_REQUESTS: Final = frozenset(("name", "firstAvailable"))
KEPT_OF_DEVICES: Final = frozenset(("name",))
_REQUESTS: Final = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
_DEVICES: Final = ("spec", "devices")


def parts_of(kind: str) -> tuple[str, ...]:
    """Return the path of the list whose elements differ in v1beta1: requests or devices; empty if there is none."""
    return _DEVICES if kind == "ResourceSlice" else _REQUESTS.get(kind, ())


def in_version(value: Mapping[str, Any], kind: str, old: str, new: str) -> JSONObject:
    """Return the object in version ``new`` of the group; ``value`` is unchanged."""
    made: JSONObject = {**value}
    if "apiVersion" in made:
        made["apiVersion"] = f"resource.k8s.io/{new}"
    path = parts_of(kind)
    if path and (old in FLAT) is not (new in FLAT):
        change = _change(kind, flat=new in FLAT)
        made = _at(made, path, change)
    if path == _DEVICES and old == "v1alpha3":
        made = _at(made, path, _with_capacities(wrapped=new in FLAT))
    return made


def _change(kind: str, *, flat: bool) -> Callable[[JSONObject], JSONObject]:
    if kind == "ResourceSlice":
        return (lambda one: _wrapped(one, KEPT_OF_DEVICES, WRAPPED, always=True)) if flat else _unwrapper(WRAPPED)
    return _unwrapper(EXACTLY) if flat else lambda one: _wrapped(one, KEPT_OF_REQUESTS, EXACTLY, always=False)


def _wrapped(one: JSONObject, kept: frozenset[str], name: str, *, always: bool) -> JSONObject:
    inner = {key: value for key, value in one.items() if key not in kept}
    outer = {key: value for key, value in one.items() if key in kept}
    return {**outer, name: inner} if inner or always else outer


def _unwrapper(name: str) -> Callable[[JSONObject], JSONObject]:
    def unwrapped(one: JSONObject) -> JSONObject:
        inner = one.get(name)
        outer = {key: value for key, value in one.items() if key != name}
        return {**outer, **inner} if isinstance(inner, dict) else outer

    return unwrapped


def _with_capacities(*, wrapped: bool) -> Callable[[JSONObject], JSONObject]:
    """v1alpha3 has bare quantities as capacities."""

    def change(device: JSONObject) -> JSONObject:
        holder: Any = device.get(WRAPPED) if wrapped else device
        capacity: Any = holder.get("capacity") if isinstance(holder, dict) else None
        if not isinstance(capacity, dict):
            return device
        changed: JSONObject = {name: one if isinstance(one, dict) else {"value": one} for name, one in capacity.items()}
        return {**device, WRAPPED: {**holder, "capacity": changed}} if wrapped else {**device, "capacity": changed}

    return change


def _at(value: JSONObject, path: Sequence[str], change: Callable[[JSONObject], JSONObject]) -> JSONObject:
    """``value`` with the elements of the list under ``path`` changed; what is no such list is left alone."""
    inner: Any = value.get(path[0])
    if len(path) > 1:
        return {**value, path[0]: _at(inner, path[1:], change)} if isinstance(inner, dict) else value
    if not isinstance(inner, list):
        return value
    return {**value, path[0]: [change(one) if isinstance(one, dict) else one for one in inner]}
