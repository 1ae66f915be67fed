"""Server-side apply: an applied configuration merged into an object, and the owners of its fields.

A controller applies the same fields to object after object, and only names differ. So what was found out about one
configuration (whether it fits its kind, which fields it has) is kept with its pattern: everything about it except its
texts. A configuration with a known pattern is merged into the struct itself (`Patterns`). All others take the general
way, by documents, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import compress
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import StatusCause, StatusDetails
from cathedra.api.decoding import KINDS_WITH_SCHEMAS, DecodeError, decode_values
from cathedra.api.field import go_values, shortened_text
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.status import StatusError, bad_request, failure
from cathedra.api.struct import KubeStruct, from_dict, json_names, replace, scalars_of, to_dict
from cathedra.apiserver.ownership.documents import View, added, changes, doubtful_fields, is_plain
from cathedra.apiserver.ownership.fieldset import NOTHING, ONE_FIELD, Changes, FieldSet, FieldSets, tracked_part
from cathedra.apiserver.ownership.managers import (
    APPLY,
    BEFORE_FIRST_APPLY,
    UPDATE,
    Conflict,
    Held,
    ManagedWrite,
    Manager,
    after_apply,
    after_update,
    held_fields,
    is_applier,
)
from cathedra.apiserver.ownership.structs import fields_of
from cathedra.apiserver.ownership.tracking import (
    OtherVersions,
    changes_between,
    changes_elsewhere,
    changes_in_versions,
    ignored_fields,
    in_version,
    kept_fields,
    with_entries,
    with_kept,
)
from cathedra.apiserver.ownership.typed import check, field_set, field_shape, is_leaf, merge, remove
from cathedra.apiserver.patches.schema import Leaf, ListShape, Shape, StructShape, struct_shape, without_nulls
from cathedra.apiserver.request import Call
from cathedra.remembering import IS_ON, hold

S = TypeVar("S", bound=KubeStruct)

_TYPE: Final = frozenset({"kind", "apiVersion"})
_LARGEST: Final = 16 * 1024
"""Bytes of an object's JSON up to which a configuration is merged by its pattern."""


def applied(
    call: Call, live: Any, body: dict[str, Any], now: float, live_body: bytes = b"", other: OtherVersions | None = None
) -> Any:
    """Return the object (hub version) that an apply of ``body`` makes from ``live``, which is None if there is none.

    ``live_body`` is the JSON of ``live`` in the version of the call, where it is known; ``other`` as in
    `cathedra.apiserver.ownership.tracking.tracked`.

    Raises:
        StatusError: the body does not fit the kind, or others own what it would change.
    """
    content = body.copy()
    content.pop("kind", None)
    content.pop("apiVersion", None)
    try:
        # Another version's comparison may need a webhook, which the general way alone can wait for.
        made = _applied_by_pattern(call, live, content, now, live_body) if live_body and other is None else None
        if made is not None:
            return made
        return _applied(call, live, body, content, now, other or changes_in_versions(call, live))
    except Conflict as error:
        raise apply_conflict(error) from None


def _applied(
    call: Call, live: Any, body: dict[str, Any], content: dict[str, Any], now: float, other: OtherVersions
) -> Any:
    shape = struct_shape(call.version.type)
    _check_body(call, body, content, shape)
    old = None if live is None else in_version(call.version, with_entries(live, ()))
    view = View.of(call.version.type() if old is None else old, shape)
    held = [] if live is None else _held_before(call, live, old, now)
    manager = Manager(call.field_manager, APPLY, call.api_version, call.subresource)
    ignored = ignored_fields(call)
    fields = field_set(content, shape).without_subtrees(ignored)
    merged = _pruned(merge(view.value, content, shape), held, manager, fields, shape)

    def changes_in(api_version: str) -> Changes | None:
        try:
            new = call.version.to_hub(from_dict(call.version.type, without_nulls(merged, shape)))
        except (msgspec.ValidationError, ValueError):
            return None
        return other(api_version, new)

    write = ManagedWrite(manager, now, ignored, call.force)
    entries = after_apply(held, write, fields, changes(view.value, merged, shape), changes_in)
    kept = kept_fields(call, view, merged) if live is not None else frozenset()
    # Kubernetes merges maps, which have no order, and writes them sorted. So do opaque parts, which went through it.
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
            f"to {kind}: {_decoding_error(call, values, error)}",
        ) from None
    return with_entries(made, entries)


def _held_before(call: Call, live: Any, old: Any, now: float) -> list[Held]:
    """Return the managers of the live object. If it has none, one manager gets all of its fields (KEP-555)."""
    held = held_fields(live.metadata.managed_fields)
    if held:
        return held
    before = Manager(BEFORE_FIRST_APPLY, UPDATE, call.api_version)
    write = ManagedWrite(before, now, ignored_fields(call))
    return held_fields(after_update((), write, changes_between(call.version, None, old)) or ())


def _pruned(
    merged: dict[str, Any], held: list[Held], manager: Manager, fields: FieldSet, shape: Shape
) -> dict[str, Any]:
    """Return the merged object without what the manager applied before, applies no more, and no other manager owns."""
    last = next((owned for entry, owned in held if is_applier(entry, manager)), None)
    if last is None or last.empty:
        return merged
    previous = last.with_named_parents()
    pruned = remove(merged, previous, shape)
    owned = fields
    for entry, others in held:
        if not is_applier(entry, manager):
            owned = owned.union(others)
    # Removing a parent may remove what others own below it, so that is put back; then only what was applied before
    # may be missing (structured-merge-diff, merge.Updater.prune).
    merged_set = field_set(merged, shape).with_named_parents()
    pruned_set = field_set(pruned, shape).with_named_parents()
    pruned = remove(merged, merged_set.difference(pruned_set).difference(owned.with_named_parents()), shape)
    pruned_set = field_set(pruned, shape).with_named_parents()
    result: dict[str, Any] = remove(merged, merged_set.difference(pruned_set).intersection(previous), shape)
    return result


def _check_body(call: Call, body: dict[str, Any], content: dict[str, Any], shape: Shape) -> None:
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    if problems := check(content, shape):
        raise failure(500, "", f"failed to create typed patch object ({_named(call, body)}): {_in_one(problems)}")


def _in_one(problems: list[str]) -> str:
    return problems[0] if len(problems) == 1 else shortened_text("errors:\n  " + "\n  ".join(problems))


def _named(call: Call, body: dict[str, Any]) -> str:
    """Return ``namespace/name; group/version, Kind=kind`` of the body, as Kubernetes' messages have it."""
    metadata = body.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    group_version = call.api_version if call.definition.group else f"/{call.version.name}"
    return f"{known.get('namespace', '')}/{known.get('name', '')}; {group_version}, Kind={call.definition.kind}"


def _made(call: Call, values: dict[str, Any], kept: frozenset[str], live: Any) -> Any:
    """Return the object of the request's version with merged values and the kept fields of the live one."""
    if call.gvk.kind in KINDS_WITH_SCHEMAS:
        return decode_values(call.version.type, call.gvk, values, call.release).object
    made = from_dict(call.version.type, values, scalars_of(call.release))
    return with_kept(made, kept, call.version.from_hub(live)) if kept else made


def _decoding_error(call: Call, values: dict[str, Any], error: Exception) -> str:
    """Return the text of Kubernetes' decoder for values that cannot be decoded."""
    try:
        decode_values(call.version.type, call.gvk, values, call.release)
    except DecodeError as refusal:
        return str(refusal)
    return str(error)


def apply_conflict(error: Conflict) -> StatusError:
    """Return the answer to an apply that would change fields of others."""
    causes = tuple(
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {manager}", field=path)
        for manager, path in error.causes()
    )
    return failure(409, "Conflict", error.message, StatusDetails(causes=causes))


# --- fast path: configurations with a known pattern ---------------------------------------------------------------


def _applied_by_pattern(call: Call, live: Any, content: dict[str, Any], now: float, live_body: bytes) -> Any | None:
    """Return what `_applied` returns, if the manager applies to the object for the first time and everything that the
    configuration leaves alone would be decoded to what it is; otherwise None."""
    shape, ignored = struct_shape(call.version.type), ignored_fields(call)
    if call.definition.kind in KINDS_WITH_SCHEMAS or type(shape) is not StructShape or len(live_body) > _LARGEST:
        return None
    manager = Manager(call.field_manager, APPLY, call.api_version, call.subresource)
    held = held_fields(live.metadata.managed_fields)
    for entry, _ in held:
        if entry.operation == APPLY and is_applier(entry, manager):
            return None
    found = _PATTERNS.find(call.field_manager, content, shape, ignored) if held else None
    if found is None:
        return None
    if found.doubtful:
        view = View(live_body, shape)
        if any(key in view.parts() and not view.is_plain(key) for key in found.doubtful):
            return None
    try:
        touched: FieldSets = {}
        merged = found.pattern.merged(in_version(call.version, live), content, (), touched)
        if merged is None:
            return None
        new = merged if type(live) is call.version.type else call.version.to_hub(merged)
        write = ManagedWrite(manager, now, ignored, call.force)
        elsewhere = partial(changes_elsewhere, call, live, new, None)
        entries = after_apply(held, write, found.fields, (FieldSet.at_paths(touched), NOTHING), elsewhere)
        return with_entries(new, entries)
    except (msgspec.ValidationError, ValueError):
        return None


class _TextPattern:
    """The pattern of any text."""

    added: FieldSet = ONE_FIELD

    def fits(self, value: JSONValue) -> bool:
        return type(value) is str


_TEXT: Final = _TextPattern()


class StructPattern:
    """The pattern of a configuration of a struct: its fields and their patterns."""

    __slots__ = (
        "_doubtful",
        "_is_doubtful",
        "_nested",
        "_parts",
        "_read_live",
        "_read_texts",
        "_texts",
        "added",
        "shape",
    )

    def __init__(self, shape: StructShape, parts: Mapping[str, _Pattern], fields: FieldSet) -> None:
        self.shape = shape
        self.added = fields
        """The fields that an object gains if it lacks this part."""
        names = json_names(shape.type).items()
        places = {
            key: (attribute, index, field)
            for index, ((attribute, key), field) in enumerate(zip(names, fields_of(shape), strict=True))
        }
        self._parts = {
            key: (*places[key], part, part if type(part) is StructPattern else None) for key, part in parts.items()
        }
        self._texts = [key for key, part in parts.items() if part is _TEXT]
        self._nested = [(key, part) for key, part in parts.items() if part is not _TEXT]
        is_flat = len(self._texts) > 1 and not self._nested
        # If there are only texts, all of them are compared at once.
        self._read_live = attrgetter(*(places[key][0] for key in self._texts)) if is_flat else None
        self._read_texts = itemgetter(*self._texts) if is_flat else None
        doubtful = doubtful_fields(shape).items()
        # Managed fields are worked out anew in any case.
        self._doubtful = [
            (*places[key][1:], inner) for key, inner in doubtful if key not in parts and key != "managedFields"
        ]
        places_of_doubtful = {index for index, _, _ in self._doubtful}
        self._is_doubtful = [index in places_of_doubtful for index in range(len(places))]

    def fits(self, value: JSONValue) -> bool:
        """Return True if a value has this pattern."""
        if type(value) is not dict or len(value) != len(self._parts):
            return False
        for key in self._texts:
            if type(value.get(key)) is not str:
                return False
        for key, part in self._nested:  # noqa: SIM110  # a generator costs as much as the rest
            if not part.fits(value.get(key)):
                return False
        return True

    def doubtful(self, ignored: FieldSet) -> list[str]:
        """Return the fields that the configuration leaves alone and that may not be `is_plain`.

        Those that are reset as a whole are left out: whatever the apply does to them is undone.
        """
        reset = {element for element, found in ignored.children.items() if found.member}
        return [key for key in doubtful_fields(self.shape) if key not in self._parts and f"f:{key}" not in reset]

    def merged(self, live: S, configuration: Mapping[str, Any], path: tuple[str, ...], touched: FieldSets) -> S | None:
        """Merge a configuration of this pattern; return the object, and add the fields that it changed to ``touched``.

        ``path`` is that of the struct. What is left alone stays the same object. None if a part that is left alone is
        not `is_plain`: the general way would encode it otherwise.

        Raises:
            msgspec.ValidationError, ValueError: a value cannot be decoded.
        """
        values = msgspec.structs.astuple(live)
        # What is empty is plain, whether it is written or not. Mostly all of it is. `doubtful` is for the whole object.
        if path and any(compress(values, self._is_doubtful)) and not self._are_plain(values):
            return None
        if self._read_live is not None and self._read_texts is not None:
            held = self._read_live(live)
            if held == self._read_texts(configuration) and all(held):
                return live
        new_objects: dict[str, Any] = {}
        to_decode: dict[str, Any] = {}
        for key, item in configuration.items():
            attribute, index, field, part, struct = self._parts[key]
            held, at = values[index], (*path, field.element)
            if struct is not None and type(held) is struct.shape.type:
                made = struct.merged(held, item, at, touched)
                if made is None:
                    return None
                if made is not held:
                    new_objects[attribute] = made
            elif held is field.default or (not held and field.omits(held)):
                to_decode[key] = item
                touched[at] = part.added
            elif part is _TEXT and type(held) is str:
                if held != item:
                    to_decode[key] = item
                    touched[at] = ONE_FIELD
            else:
                shape, was = self.shape.fields[key], to_dict(held)
                now = item if part is _TEXT else merge(was, item, shape)
                found = changes(was, now, shape)[0]  # merging removes nothing
                if found is not NOTHING:
                    to_decode |= go_values(without_nulls({key: now}, self.shape))
                    touched[at] = found
                elif not is_plain(was, shape):
                    return None
        if to_decode:
            decoded = from_dict(type(live), to_decode)
            for key in to_decode:
                attribute = self._parts[key][0]
                new_objects[attribute] = getattr(decoded, attribute)
        return replace(live, **new_objects) if new_objects else live

    def _are_plain(self, values: tuple[Any, ...]) -> bool:
        """Return True if everything that the configuration leaves alone is `is_plain` in a struct of these values."""
        for index, field, shape in self._doubtful:
            held = values[index]
            if held and held is not field.default and not is_plain(to_dict(held), shape):
                return False
        return True


class _ListPattern:
    """The pattern of a keyed list: its keys with their texts, and the patterns of its elements."""

    __slots__ = ("_items", "_read_keys", "added")

    def __init__(self, keys: tuple[str, ...], items: list[tuple[Any, StructPattern]], fields: FieldSet) -> None:
        self.added = fields
        self._read_keys: Callable[[Any], Any] = itemgetter(*keys)
        self._items = [(self._read_keys(item), pattern) for item, pattern in items]

    def fits(self, value: JSONValue) -> bool:
        if type(value) is not list or len(value) != len(self._items):
            return False
        for item, (keys, pattern) in zip(value, self._items):  # noqa: B905  # they are equally many
            if not pattern.fits(item) or self._read_keys(item) != keys:
                return False
        return True


_Pattern = _TextPattern | StructPattern | _ListPattern


class _Known(NamedTuple):
    """A pattern, the tracked fields of configurations that have it, and `StructPattern.doubtful`."""

    pattern: StructPattern
    fields: FieldSet
    doubtful: list[str]


class Patterns:
    """The patterns of the configurations that managers have applied lately."""

    LIMIT: Final = 256
    """Managers with a kind and sub-resource whose patterns are kept."""
    EACH: Final = 4
    """Patterns that are kept of one of them."""
    LARGEST: Final = 4 * 1024
    """Bytes of the fields of a configuration up to which its pattern is kept."""

    def __init__(self) -> None:
        self._known: dict[object, list[_Known]] = {}
        hold(self._known, objects=False)

    def find(self, applier: str, configuration: JSONValue, shape: Shape, ignored: FieldSet) -> _Known | None:
        """Return what is known of a configuration's pattern; None if it has none or does not fit its kind."""
        key = (applier, shape, ignored.number or ignored.raw.data)
        known = self._known.get(key, [])
        for one in known:
            if one.pattern.fits(configuration):
                return one
        pattern = None if check(configuration, shape) else _pattern(configuration, shape)
        if type(pattern) is not StructPattern:
            return None
        # Without the untracked fields, and shared: otherwise each apply would take them away and encode the rest again.
        fields = tracked_part(field_set(configuration, shape).without_subtrees(ignored)).numbered()
        found = _Known(pattern, fields, pattern.doubtful(ignored))
        if len(fields.raw.data) <= self.LARGEST and IS_ON:
            if key not in self._known and len(self._known) >= self.LIMIT:
                del self._known[next(iter(self._known))]
            self._known[key] = [found, *known[: self.EACH - 1]]
        return found


_PATTERNS: Final = Patterns()


def _pattern(value: JSONValue, shape: Shape) -> _Pattern | None:
    """Return the pattern of a value made of structs, keyed lists and texts; None for any other value."""
    if isinstance(shape, Leaf):
        return _TEXT if type(value) is str else None
    if not value or is_leaf(shape):
        return None
    if isinstance(shape, ListShape):
        return _list_pattern(value, shape) if type(value) is list else None
    if type(value) is not dict or not isinstance(shape, StructShape):
        return None
    parts = {}
    for key, item in value.items():
        part = _pattern(item, field_shape(shape, key))
        if part is None:
            return None
        parts[key] = part
    return StructPattern(shape, parts, added(value, shape))


def _list_pattern(value: list[Any], shape: ListShape) -> _ListPattern | None:
    if (
        shape.list_type != "map"
        or not shape.keys
        or not all(type(item) is dict and item.keys() >= set(shape.keys) for item in value)
    ):
        return None
    items = []
    for item in value:
        pattern = _pattern(item, shape.element)
        if type(pattern) is not StructPattern:
            return None
        items.append((item, pattern))
    return _ListPattern(shape.keys, items, added(value, shape))


# --- configurations without a manager -----------------------------------------------------------------------------


class NotApplicable(ValueError):
    """A configuration does not fit its kind, or would replace an atomic value."""


def apply_configuration(live: JSONObject, configuration: JSONObject, shape: Shape) -> JSONObject:
    """Merge a configuration into plain values, as a mutating admission policy does.

    Raises:
        NotApplicable: the configuration cannot be merged.
    """
    content = {name: value for name, value in configuration.items() if name not in _TYPE}
    if problems := check(content, shape):
        raise NotApplicable(f"failed to convert patch object to typed object: {_in_one(problems)}")
    # To set a part of an atomic value would remove the rest of it.
    if atomics := list(_atomics(content, shape, "")):
        raise NotApplicable(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: " + ", ".join(atomics)
        )
    merged: JSONObject = merge(live, content, shape)
    return merged


def _atomics(value: JSONValue, shape: Shape, path: str) -> Iterator[str]:
    """Yield the paths of atomic lists, maps and structs."""
    if not isinstance(value, (dict, list)):
        return
    if is_leaf(shape):
        yield path
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _atomics(inner, field_shape(shape, name), f"{path}.{name}")
    elif isinstance(shape, ListShape):
        for position, inner in enumerate(value):
            yield from _atomics(inner, shape.element, f"{path}[{position}]")
