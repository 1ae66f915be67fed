"""Ownership kept along with writes: what a create, update or patch takes, and what an apply does.

A write without a field manager is not tracked: what the server does itself, and programs in its process that name
none. Over HTTP there always is one, and scheduler, controllers and nodes name theirs wherever they run.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

import msgspec

from cathedra.api.core.meta_v1 import ManagedFieldsEntry, StatusCause, StatusDetails
from cathedra.api.decoding import KINDS_WITH_SCHEMAS, DecodeError, decode_values
from cathedra.api.field import shortened_text
from cathedra.api.goform import go_values
from cathedra.api.status import StatusError, bad_request, failure
from cathedra.api.struct import KubeStruct, Time, encode, from_dict, replace
from cathedra.apiserver.ownership.comparison import Comparison
from cathedra.apiserver.ownership.creation import created
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.forms import Forms
from cathedra.apiserver.ownership.keeping import kept_fields, with_kept
from cathedra.apiserver.ownership.managers import (
    APPLY,
    BEFORE_FIRST_APPLY,
    REMEMBERED_SIZE,
    UPDATE,
    Conflict,
    ManagedFields,
    Manager,
    OtherViews,
    manager_of,
)
from cathedra.apiserver.ownership.plainwrites import Entries, PlainEntries, first_applied, plain_sets, written
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.structs import struct_changes
from cathedra.apiserver.ownership.typed import TypedError, check
from cathedra.apiserver.ownership.views import View, differences
from cathedra.apiserver.patches.schema import Shape, StructShape, struct_shape, without_nulls
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import VersionDefinition
from cathedra.remembering import remembered

__all__ = ["applied", "tracked", "untracked"]


def tracked(call: Call, live: Any, new: Any, now: float, spelled: bytes = b"", views: OtherViews | None = None) -> Any:
    """``new`` with its managed fields brought up to date; ``live`` is None on create.

    ``spelled`` is the JSON of ``live`` in the version of the call, where it is known; ``views`` shows both states in
    other versions, where the versions' own functions cannot.
    """
    if not call.field_manager:
        return new
    entries: Entries = new.metadata.managed_fields
    if entries == _FORGOTTEN:
        if live is not None:
            return _with_entries(new, ())
        entries = ()
    manager = manager_of(call.field_manager, UPDATE, call.api_version, call.subresource)
    held = plain_sets(entries, manager) if entries else []
    if not held and live is not None:
        readable = _first_readable(entries, live.metadata.managed_fields)
        if readable is None:
            return _with_entries(new, ())
        entries = readable
        held = plain_sets(entries, manager)
    write = _Write(call, manager, live, new, Time(now), spelled)
    try:
        made = _moved(write, entries, views) if held is None else _written(write, held)
    except TypedError:
        return new  # validation will say what is wrong with the list
    return _with_entries(new, made)


_FORGOTTEN: Final = (ManagedFieldsEntry(),)
"""What a client sends that wants no owners of fields any more."""


class _Write(msgspec.Struct, frozen=True, gc=False):
    """A write that is tracked: both states, and the JSON of the first in the version of the call, where it is known."""

    call: Call
    manager: Manager
    live: Any
    new: Any
    now: Time
    spelled: bytes


def _first_readable(*either: Entries) -> Entries | None:
    return next((entries for entries in either if ManagedFields.of(entries).managers), None)


def _written(write: _Write, held: PlainEntries) -> Entries:
    """The entries after a write of the plain sort; a struct need not be spelled for it."""
    call, version = write.call, write.call.version
    new, live = write.new, write.live
    shape = _shape_of(version.type)
    if type(shape) is not StructShape or (live is None and (held or call.subresource)):
        changes = Comparison.below(differences(_old_view(write), _view(version, new))).changes
        return written(held, write.manager, changes, write.now, _ignored(call))
    wanted = new if type(new) is version.type else version.from_hub(new)
    if live is None:
        return created(write.manager, wanted, shape, write.now, _ignored(call))
    old = live if type(live) is version.type else version.from_hub(live)
    return written(held, write.manager, struct_changes(old, wanted, shape), write.now, _ignored(call))


def _moved(write: _Write, entries: Entries, views: OtherViews | None) -> Entries:
    """The entries after any write."""
    call = write.call
    new, other = _view(call.version, write.new), views or _other_versions(call, write.live)
    managed = ManagedFields.of(entries)
    return managed.update(write.manager, _old_view(write), new, write.now, _ignored(call), other).entries()


def _old_view(write: _Write) -> View:
    version = write.call.version
    return _view_of(version, write.spelled) if write.spelled else _view(version, write.live)


def applied(
    call: Call, live: Any, body: dict[str, Any], now: float, spelled: bytes = b"", views: OtherViews | None = None
) -> Any:
    """The object (hub version) that an apply of ``body`` makes from ``live``, which is None if there is none;
    ``spelled`` and ``views`` as in `tracked`.

    Raises:
        StatusError: the body does not fit the kind, or others own what it would change.
    """
    made = _first_applied(call, live, body, now, spelled) if spelled and views is None else None
    return made if made is not None else _applied(call, live, body, now, views)


def _first_applied(call: Call, live: Any, body: dict[str, Any], now: float, spelled: bytes) -> Any | None:
    """What `_applied` makes, where it can be told from the form of the configuration: a manager applies to the object
    for the first time, and nothing has to be read again but what it changes. None where that is not so."""
    shape, ignored = _shape_of(call.version.type), _ignored(call)
    kind = call.definition.kind
    if kind in KINDS_WITH_SCHEMAS or type(shape) is not StructShape or len(spelled) > REMEMBERED_SIZE:
        return None
    content = {key: value for key, value in body.items() if key not in _TYPE}
    found = _FORMS.find(call.field_manager, content, shape, ignored)
    manager = manager_of(call.field_manager, APPLY, call.api_version, call.subresource)
    held = plain_sets(live.metadata.managed_fields, manager)
    if found is None or not held:
        return None
    form, fields, doubts = found
    if doubts:
        view = _view_of(call.version, spelled)
        if any(key in view.parts() and not view.is_plain(key) for key in doubts):
            return None
    try:
        old = live if type(live) is call.version.type else call.version.from_hub(live)
        made = form.applied(old, content)
        if made is None:
            return None
        entries = first_applied(held, manager, fields, made[1], Time(now), ignored, call.force)
    except Conflict as error:
        raise _conflict(error) from None
    except (msgspec.ValidationError, ValueError):
        return None
    if entries is None:
        return None
    new = made[0] if type(live) is call.version.type else call.version.to_hub(made[0])
    return _with_entries(new, entries)


_FORMS: Final = Forms()
_TYPE: Final = frozenset({"kind", "apiVersion"})


def _applied(call: Call, live: Any, body: dict[str, Any], now: float, views: OtherViews | None) -> Any:
    shape = _shape_of(call.version.type)
    _check_body(call, body, shape)
    live_view = _view(call.version, None if live is None else _with_entries(live, ()))
    managed = ManagedFields.of(live.metadata.managed_fields) if live is not None else ManagedFields({})
    if live is not None and not managed.managers:
        before = Manager(BEFORE_FIRST_APPLY, UPDATE, call.api_version)
        empty = _empty(call.version.type)
        managed = managed.update(before, empty, live_view, Time(now), _ignored(call), lambda *_: None)
    manager = manager_of(call.field_manager, APPLY, call.api_version, call.subresource)
    content = {key: value for key, value in body.items() if key not in _TYPE}
    try:
        merged, managed = managed.apply(
            manager,
            live_view,
            content,
            Time(now),
            _ignored(call),
            views or _other_versions(call, live),
            force=call.force,
        )
    except Conflict as error:
        raise _conflict(error) from None
    kept = kept_fields(call, live_view, merged) if live is not None else frozenset()
    # What was applied went through maps in Kubernetes, opaque parts included.
    values = go_values(without_nulls({key: merged[key] for key in merged if key not in kept}, shape))
    try:
        made = call.version.to_hub(_made(call, values, kept, live))
    except (msgspec.ValidationError, ValueError) as error:
        named = _named(call, body)
        kind = named.partition("; ")[2]
        raise failure(
            500,
            "",
            f"failed to convert new object ({named}) to proper version: unable to convert unstructured object "
            f"to {kind}: {_in_words(call, values, error)}",
        ) from None
    return _with_entries(made, managed.entries())


def untracked(obj: Any) -> Any:
    """The object without managed fields."""
    return _with_entries(obj, ())


@remembered("apiserver.ownership.tracking.shape_of", size=256)
def _shape_of(kind: type[KubeStruct]) -> Shape:
    """The shape of a version's type; asked for at every write."""
    return struct_shape(kind)


def _view(version: VersionDefinition, obj: Any) -> View:
    if obj is None:
        return _empty(version.type)
    return _view_of(version, encode(obj if type(obj) is version.type else version.from_hub(obj)))


def _view_of(version: VersionDefinition, body: bytes) -> View:
    return View(body, struct_shape(version.type))


def _empty(kind: type[Any]) -> View:
    """What an object without anything spells."""
    return _EMPTY.get(kind) or _EMPTY.setdefault(kind, View(encode(kind()), struct_shape(kind)))


_EMPTY: Final[WeakKeyDictionary[type[Any], View]] = WeakKeyDictionary()


def _other_versions(call: Call, live: Any) -> OtherViews:
    def both(api_version: str, values: dict[str, Any]) -> tuple[View, View] | None:
        group, _, version = api_version.rpartition("/")
        if group != call.definition.group:
            return None
        try:
            new = call.version.to_hub(
                from_dict(call.version.type, without_nulls(values, struct_shape(call.version.type)))
            )
            seen_in = call.definition.version(version)
            return _view(seen_in, live), _view(seen_in, new)
        except (KeyError, msgspec.ValidationError, ValueError):
            return None

    return both


def _ignored(call: Call) -> FieldSet:
    if call.subresource:
        return field_set(call.strategy.reset_fields)
    return field_set(("status",) if "status" in call.definition.subresources else ())


def _with_entries(obj: Any, entries: tuple[ManagedFieldsEntry, ...]) -> Any:
    if obj.metadata.managed_fields == entries:
        return obj
    return replace(obj, metadata=replace(obj.metadata, managed_fields=entries))


def _check_body(call: Call, body: dict[str, Any], shape: Shape) -> None:
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    problems = check({key: value for key, value in body.items() if key not in _TYPE}, shape)
    if problems:
        text = problems[0] if len(problems) == 1 else shortened_text("errors:\n  " + "\n  ".join(problems))
        raise failure(500, "", f"failed to create typed patch object ({_named(call, body)}): {text}")


def _named(call: Call, body: dict[str, Any]) -> str:
    """Which object is meant, as messages put it: ``namespace/name; group/version, Kind=kind``, as the body has them."""
    metadata = body.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    group_version = call.api_version if call.definition.group else f"/{call.version.name}"
    return f"{known.get('namespace', '')}/{known.get('name', '')}; {group_version}, Kind={call.definition.kind}"


def _made(call: Call, values: dict[str, Any], kept: frozenset[str], live: Any) -> Any:
    """The object of the request's version that merged values describe, beside what is kept of the live one; schemas
    in it are checked as structs."""
    if call.gvk.kind in KINDS_WITH_SCHEMAS:
        return decode_values(call.version.type, call.gvk, values, call.release).object
    made = from_dict(call.version.type, values)
    return with_kept(made, kept, call.version.from_hub(live)) if kept else made


def _in_words(call: Call, values: dict[str, Any], error: Exception) -> str:
    """Why values cannot be read, in the words of Kubernetes' decoder."""
    try:
        decode_values(call.version.type, call.gvk, values, call.release)
    except DecodeError as refusal:
        return str(refusal)
    return str(error)


def _conflict(error: Conflict) -> StatusError:
    causes = tuple(
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {words}", field=path)
        for words, path in error.causes()
    )
    return failure(409, "Conflict", error.message, StatusDetails(causes=causes))
