"""Ownership for creates, updates and patches, and the parts that a patch does not change.

A write without a field manager is not tracked: the server's own writes, and programs in its process that set none. Over
HTTP there always is one, and scheduler, controllers and nodes set theirs wherever they run.

Built-in kinds are compared as structs, custom resources as documents. Managers may have written in several versions of
a kind; each set has the fields of its version, so both states are also compared in those versions. If a webhook
converts them, the work begins again after each conversion that it turns out to need (`with_other_versions`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary

import msgspec

from cathedra.api.core.meta_v1 import ManagedFieldsEntry, ObjectMeta
from cathedra.api.decoding import KINDS_WITH_SCHEMAS
from cathedra.api.decoding.gotypes import GoType, go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, Time, encode, json_names, replace
from cathedra.apiserver.ownership.documents import View, differences
from cathedra.apiserver.ownership.fieldset import NOTHING, Changes, FieldSet, fields_at
from cathedra.apiserver.ownership.managers import (
    UPDATE,
    Entries,
    ManagedWrite,
    Manager,
    after_update,
    after_update_across_versions,
    held_fields,
    new_entry,
)
from cathedra.apiserver.ownership.structs import created_fields, struct_changes, tracked_places
from cathedra.apiserver.ownership.typed import TypedError
from cathedra.apiserver.patches.schema import ListShape, Shape, StructShape, struct_shape
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import ObjectConversion, VersionDefinition
from cathedra.remembering import remembered

T = TypeVar("T")
K = TypeVar("K", bound=KubeStruct)

OtherVersions = Callable[[str, Any], Changes | None]
"""API version and new object (hub version) → what differs from the live one in that version; None if the kind has no
such version."""
Body = Callable[[VersionDefinition], bytes]
"""The JSON of an object in a version."""


def tracked(
    call: Call, live: Any, new: Any, now: float, body: Body | None = None, other: OtherVersions | None = None
) -> Any | Awaitable[Any]:
    """Return ``new`` with its managed fields brought up to date; ``live`` is None on create.

    ``body`` returns the JSON of ``live`` where it is kept. ``other`` compares both in other versions. Without it, the
    result is to be awaited where a webhook converts; if that fails, the object has no managed fields.
    """
    if not call.field_manager:
        return new
    if other is None and call.definition.conversion is not None:
        return _tracked(call.definition.conversion, call, live, new, now, body)
    entries: Entries = new.metadata.managed_fields
    held = held_fields(entries) if entries else []
    if not held:
        if live is not None:
            if entries == _RESET:
                return with_entries(new, ())
            # A client that sends none, or none that can be decoded, leaves them as they are.
            held = held_fields(live.metadata.managed_fields)
            if not held:
                return with_entries(new, ())
        elif not call.subresource and type(struct_shape(call.version.type)) is StructShape:
            return _tracked_creation(call, new, now)
    manager = Manager(call.field_manager, UPDATE, call.version.api_version, call.subresource)
    write = ManagedWrite(manager, now, ignored_fields(call))
    try:
        changes = changes_between(call.version, live, new, body)
        after = after_update(held, write, changes)
        if after is None:
            elsewhere = partial(changes_elsewhere, call, live, new, other)
            after = after_update_across_versions(held, write, changes, elsewhere)
        return with_entries(new, after)
    except TypedError:
        return new  # validation refuses the list, with Kubernetes' text


def _tracked_creation(call: Call, new: Any, now: float) -> Any:
    """Return a new object, which comes without managed fields, with those of its creator."""
    version = call.version
    try:
        fields = created_fields(in_version(version, new), ignored_fields(call))
    except TypedError:
        return new  # as in `tracked`
    if fields is NOTHING:
        return with_entries(new, ())
    manager = Manager(call.field_manager, UPDATE, version.api_version)
    entries = (new_entry(manager, fields, Time(now)),)
    return replace(new, metadata=replace(new.metadata, managed_fields=entries))


def changes_elsewhere(call: Call, live: Any, new: Any, other: OtherVersions | None, version: str) -> Changes | None:
    """Return the fields in which two objects differ in another version, by ``other`` where there is one."""
    return (other or changes_in_versions(call, live))(version, new)


_RESET: Final = (ManagedFieldsEntry(),)
"""The entries by which a client removes all owners: ``managedFields: [{}]`` (KEP-555)."""


def changes_between(version: VersionDefinition, old: Any, new: Any, body: Body | None = None) -> Changes:
    """Return the fields in which two objects differ in a version; an ``old`` of None is an object without anything.

    ``body`` returns the JSON of ``old`` where it is kept.

    Raises:
        TypedError: an element of a keyed list has no key.
    """
    kind = version.type
    if type(new) is not kind:
        new = version.from_hub(new)
    if old is not None and type(old) is not kind:
        old = version.from_hub(old)
    shape = struct_shape(kind)
    if type(shape) is StructShape:
        return struct_changes(kind() if old is None else old, new, tracked_places(shape))
    before = _empty_view(kind) if old is None else View(encode(old) if body is None else body(version), shape)
    return differences(before, View.of(new, shape))


def in_version(version: VersionDefinition, obj: Any) -> Any:
    """Return an object (hub version) in another version."""
    return obj if type(obj) is version.type else version.from_hub(obj)


def _empty_view(kind: type[Any]) -> View:
    return _EMPTY.get(kind) or _EMPTY.setdefault(kind, View(encode(kind()), struct_shape(kind)))


# Types of custom resources are made at run time, and go with their definitions.
_EMPTY: Final[WeakKeyDictionary[type[Any], View]] = WeakKeyDictionary()


def changes_in_versions(call: Call, live: Any) -> OtherVersions:
    """Return the comparison of ``live`` with a new object in versions that need no webhook."""

    def changes(api_version: str, new: Any) -> Changes | None:
        group, _, version = api_version.rpartition("/")
        if group != call.definition.group:
            return None
        try:
            return changes_between(call.definition.version(version), live, new)
        except TypedError:
            raise
        except (KeyError, msgspec.ValidationError, ValueError):
            return None

    return changes


def ignored_fields(call: Call) -> FieldSet:
    """Return the fields that a write cannot change, so that no manager owns them through it."""
    if call.subresource:
        return fields_at(call.strategy.reset_fields)
    return _STATUS if "status" in call.definition.subresources else NOTHING


_STATUS: Final = fields_at(("status",))


def with_entries(obj: Any, entries: Entries) -> Any:
    """Return the object with these managed fields."""
    if obj.metadata.managed_fields == entries:
        return obj
    return replace(obj, metadata=replace(obj.metadata, managed_fields=entries))


# --- kinds whose versions a webhook converts ----------------------------------------------------------------------


class _Missing(Exception):
    """The comparison in another version is needed."""

    def __init__(self, api_version: str, new: Any) -> None:
        self.api_version, self.new = api_version, new
        super().__init__(f"needed in {api_version}")


def with_other_versions(call: Call, live: Any, work: Callable[[OtherVersions | None], T]) -> T | Awaitable[T]:
    """Return the result of ``work``, which compares in other versions by its argument; None if no webhook converts.

    Without a webhook the result is there at once.

    Raises:
        StatusError: 500, the webhook could not convert.
    """
    conversion = call.definition.conversion
    return work(None) if conversion is None else _converting(conversion, call, live, work)


async def _tracked(conversion: ObjectConversion, call: Call, live: Any, new: Any, now: float, body: Body | None) -> Any:
    try:
        return await _converting(conversion, call, live, lambda other: tracked(call, live, new, now, body, other))
    except StatusError:
        return with_entries(new, ())


async def _converting(
    conversion: ObjectConversion, call: Call, live: Any, work: Callable[[OtherVersions | None], T]
) -> T:
    known: dict[str, Changes | None] = {}

    def changes(api_version: str, new: Any) -> Changes | None:
        if api_version not in known:
            raise _Missing(api_version, new)
        return known[api_version]

    # Which versions are needed shows only on the way. The work has no effects, so it can begin again.
    while True:
        try:
            return work(changes)
        except _Missing as missing:
            known[missing.api_version] = await _converted_changes(conversion, call, live, missing)


async def _converted_changes(conversion: ObjectConversion, call: Call, live: Any, missing: _Missing) -> Changes | None:
    new = in_version(call.version, missing.new)
    try:
        after = await conversion.between(new, call.api_version, missing.api_version)
        if live is None:
            before = type(after)()
        else:
            before = await conversion.between(live, call.api_version, missing.api_version)
    except KeyError:
        return None
    shape = struct_shape(type(after))
    return differences(View.of(before, shape), View.of(after, shape))


# --- fields that a patch leaves as they are -----------------------------------------------------------------------


def kept_fields(call: Call, live: View, after: dict[str, Any]) -> frozenset[str]:
    """Return the fields of the top level, except metadata, that a patch left as the same objects.

    Most patches change one field of a status. To decode the other fields would give what the live object has.
    """
    if not isinstance(live.shape, StructShape) or call.gvk.kind in KINDS_WITH_SCHEMAS:
        return frozenset()
    kept = []
    for key, value in live.value.items():
        if after.get(key) is value and key != "metadata" and live.is_plain(key):
            kept.append(key)
    return frozenset(kept)


def keeps_metadata(call: Call, metadata: ObjectMeta, live: View, after: dict[str, Any]) -> bool:
    """Return True if a patch left the metadata as the same object and to decode it would give ``metadata`` again.

    That is so if the maps are in order and the managed fields are written as the server writes them.
    """
    if after.get("metadata") is not live.value.get("metadata") or not _knows_all_metadata(call.gvk, call.release):
        return False
    for entry in metadata.managed_fields:
        raw = entry.fields_v1
        if raw is None or FieldSet.from_own_json(raw) is None:
            return False
    return _is_in_order(metadata.labels) and _is_in_order(metadata.annotations)


@remembered("apiserver.ownership.tracking.knows_all_metadata", size=1024)
def _knows_all_metadata(gvk: GroupVersionKind, release: str) -> bool:
    # A store may come from a later release. If that one added fields of metadata, decoding drops and reports them.
    return _has_fields_of(go_type_of(gvk, release).fields["metadata"], struct_shape(ObjectMeta))


def _has_fields_of(known: GoType | None, shape: Shape) -> bool:
    """Return True if a type of a release has every field that a shape has, at any depth."""
    if isinstance(shape, ListShape):
        return _has_fields_of(known and known.element, shape.element)
    if not isinstance(shape, StructShape) or known is None:
        return True
    fields = known.fields
    return all(name in fields and _has_fields_of(fields[name], inner) for name, inner in shape.fields.items())


def _is_in_order(texts: dict[str, str]) -> bool:
    return len(texts) < 2 or list(texts) == sorted(texts)


def with_kept(made: K, kept: frozenset[str], live: K) -> K:
    """Return a decoded object with the kept fields of the live one, which is of the same version."""
    if not kept:
        return made
    names = _attributes(type(made))
    return replace(made, **{names[key]: getattr(live, names[key]) for key in kept})


@remembered("apiserver.ownership.tracking.attributes", size=256)
def _attributes(kind: type[KubeStruct]) -> dict[str, str]:
    return {key: name for name, key in json_names(kind).items()}
