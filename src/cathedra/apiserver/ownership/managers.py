"""The managed fields of an object: which manager owns which fields, and how writes move ownership.

Here is what any write may do; most are of a plain sort that takes less work
(`cathedra.apiserver.ownership.plainwrites`). See docs/spec/apimachinery.md §6.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, Final, NamedTuple

import msgspec

from cathedra.api.boundedcache import LONGEST_KEY
from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.field import MAX_TEXT, shortened_text
from cathedra.api.status import MAX_CAUSES
from cathedra.api.struct import RawJSON, Time
from cathedra.apiserver.ownership.comparison import Comparison, Outline, compare, outline
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.typed import field_set, merge, remove, shown_element
from cathedra.apiserver.ownership.views import View, differences
from cathedra.apiserver.patches.schema import ANYTHING, Shape
from cathedra.remembering import remembered

__all__ = [
    "Conflict",
    "ManagedFields",
    "Manager",
    "OtherViews",
    "VersionedSet",
    "after_first_apply",
    "in_order",
    "manager_of",
    "never_tracked",
    "new_entry",
    "tracked_part",
]

UPDATE: Final = "Update"
APPLY: Final = "Apply"
ANCIENT: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
UPDATE_LIMIT: Final = 10
REMEMBERED_SIZE: Final = 16 * 1024
"""Bytes of both states of an object up to which it is remembered what follows from a write of that outline."""


class Manager(NamedTuple):
    """Who writes how: one entry of the managed fields."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def same_applier(self, other: Manager) -> bool:
        """Whether both stand for one applier."""
        return (self.operation, self.name, self.subresource) == (APPLY, other.name, other.subresource)


_known_manager: Final = remembered("apiserver.ownership.managers.Manager", size=512)(Manager)


def manager_of(name: str, operation: str, api_version: str, subresource: str = "") -> Manager:
    """Return the manager of these facts; they are few, and come with each write."""
    short = len(name) + len(api_version) + len(subresource) <= LONGEST_KEY
    return (_known_manager if short else Manager)(name, operation, api_version, subresource)


class VersionedSet(msgspec.Struct, frozen=True):
    """A manager's fields and the time of its last change; ``entry`` is where both were read from, if they were."""

    fields: FieldSet
    time: Time | None
    entry: ManagedFieldsEntry | None = None

    def entry_of(self, manager: Manager) -> ManagedFieldsEntry:
        """As the manager's entry of ``managedFields``."""
        found = self.entry
        if found is not None and found.fields_v1 is not None and found.fields_v1.data == self.fields.raw.data:
            return found
        return new_entry(manager, self.fields, self.time)


def new_entry(manager: Manager, fields: FieldSet, time: Time | None) -> ManagedFieldsEntry:
    """An entry of ``managedFields``; the next write will read its fields again."""
    return ManagedFieldsEntry(
        manager=manager.name,
        operation=manager.operation,
        api_version=manager.api_version,
        time=time,
        fields_type="FieldsV1",
        fields_v1=fields.expect_reading(),
        subresource=manager.subresource,
    )


OtherViews = Callable[[str, dict[str, Any]], tuple[View, View] | None]
"""Another API version and the new values in the request's one → both states in that version; None if it is served no
more."""


class Conflict(Exception):
    """Other managers own fields that an apply would change; ``fields`` by manager."""

    def __init__(self, fields: Mapping[Manager, FieldSet]) -> None:
        self.fields = dict(fields)
        super().__init__(self.message)

    def causes(self) -> list[tuple[str, str]]:
        """Manager's words and field path of each conflict, of as many as a Status shows of errors."""
        shown: list[tuple[str, str]] = []
        room = MAX_TEXT
        for manager, path in islice(self._all(), MAX_CAUSES):
            cause = _words(manager), "".join(shortened_text(shown_element(element), room) for element in path)
            shown.append(cause)
            room -= sum(map(len, cause))
            if room <= 0:
                break
        return shown

    def _all(self) -> Iterator[tuple[Manager, tuple[str, ...]]]:
        return ((manager, path) for manager in sorted(self.fields) for path in self.fields[manager].paths())

    @property
    def message(self) -> str:
        """The text for people, a line per manager."""
        causes = self.causes()
        count = sum(1 for _ in self._all())
        if count == 1:
            return f"Apply failed with 1 conflict: conflict with {causes[0][0]}: {causes[0][1]}"
        lines: list[str] = []
        previous = ""
        for words, path in causes:
            if words != previous:
                lines.append(f"conflicts with {words}:")
                previous = words
            lines.append(f"- {path}")
        if count > len(causes):
            lines.append(f"and {count - len(causes)} more")
        return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _words(manager: Manager) -> str:
    words = f'"{manager.name}"'
    if manager.subresource:
        words += f' with subresource "{manager.subresource}"'
    if manager.operation == UPDATE:
        words += f" using {manager.api_version}"
    return words


_NEVER: Final = (
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
    ("metadata", "creationTimestamp"),
    ("metadata", "selfLink"),
    ("metadata", "uid"),
    ("metadata", "clusterName"),
    ("metadata", "generation"),
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
)


def never_tracked() -> FieldSet:
    """The fields that have no owner."""
    fields = FieldSet()
    for path in _NEVER:
        fields.insert(f"f:{name}" for name in path)
    return fields


_NEVER_TRACKED: Final = never_tracked()
_METADATA: Final = "f:metadata"
_NEVER_BELOW_METADATA: Final = _NEVER_TRACKED.children[_METADATA].children.keys()


def tracked_part(fields: FieldSet) -> FieldSet:
    """Without the fields that have no owner; itself, if it has none of them, as most sets."""
    if fields.is_tracked:
        return fields
    children = fields.children
    metadata = children.get(_METADATA)
    has_some = metadata is not None and (metadata.member or not _NEVER_BELOW_METADATA.isdisjoint(metadata.children))
    if has_some or "f:kind" in children or "f:apiVersion" in children:
        return fields.difference(_NEVER_TRACKED)
    fields.is_tracked = True
    return fields


def in_order(entries: list[ManagedFieldsEntry]) -> tuple[ManagedFieldsEntry, ...]:
    """Entries as ``managedFields``: Apply first, then by time, then by name."""
    if len(entries) < 2:
        return tuple(entries)
    places = [(e.operation, e.time.micros if e.time else 0, e.manager, e.api_version, e.subresource) for e in entries]
    if sorted(places) != places:  # nearly always they are in order
        entries = [entry for _, entry in sorted(zip(places, entries, strict=True), key=itemgetter(0))]
    return tuple(entries)


class ManagedFields:
    """All managers of one object with their fields. Immutable: a write gives new ones."""

    def __init__(self, managers: Mapping[Manager, VersionedSet]) -> None:
        self.managers = dict(managers)

    @staticmethod
    def of(entries: tuple[ManagedFieldsEntry, ...]) -> ManagedFields:
        """From an object's ``managedFields``; entries that cannot be read are left out."""
        managers: dict[Manager, VersionedSet] = {}
        for entry in entries:
            if entry.fields_v1 is None or entry.fields_type != "FieldsV1":
                continue
            try:
                fields = FieldSet.from_raw(entry.fields_v1)
            except (msgspec.DecodeError, AttributeError):
                continue
            key = manager_of(entry.manager, entry.operation, entry.api_version, entry.subresource)
            known = managers.get(key)
            managers[key] = (
                VersionedSet(fields, entry.time, entry)
                if known is None
                else VersionedSet(known.fields.union(fields), entry.time)
            )
        return ManagedFields(managers)

    def entries(self) -> tuple[ManagedFieldsEntry, ...]:
        """As ``managedFields``: Apply first, then by time, then by name."""
        return in_order([versioned.entry_of(manager) for manager, versioned in self.managers.items()])

    def update(
        self, manager: Manager, old: View, new: View, now: Time, ignored: FieldSet, other: OtherViews
    ) -> ManagedFields:
        """After a write that replaced the object. ``other`` shows both states in another API version."""
        managers, comparison = self._moved(
            None, manager.api_version, Comparison.below(differences(old, new)), new, ignored, other, force=True
        )
        return ManagedFields(_stripped(_capped(_taken(managers, manager, comparison, now, ignored))))

    def apply(
        self,
        manager: Manager,
        live: View,
        applied: dict[str, Any],
        now: Time,
        ignored: FieldSet,
        other: OtherViews,
        *,
        force: bool,
    ) -> tuple[dict[str, Any], ManagedFields]:
        """After an apply: the merged object and the new managed fields.

        Raises:
            Conflict: others own what would change, and ``force`` is not given.
        """
        value, shape = live.value, live.shape
        merged = merge(value, applied, shape)
        # An applier is the same one whatever version he applies in.
        others = {m: v for m, v in self.managers.items() if not m.same_applier(manager)}
        last = next((v for m, v in self.managers.items() if m.same_applier(manager)), None)
        fields = field_set(applied, shape).without_subtrees(ignored)
        if last is None and len(live.body) <= REMEMBERED_SIZE and self._all_in(manager.api_version):
            return merged, self.first_applied(manager, fields, outline(value, merged, shape), now, ignored, force)
        managed = ManagedFields({**others, manager: VersionedSet(fields, last.time if last else None)})
        merged = managed._pruned(manager, merged, last, shape)
        seen = View.of(merged, shape)
        managers, comparison = managed._moved(
            manager, manager.api_version, compare(value, merged, shape), seen, ignored, other, force=force
        )
        stripped = _stripped(managers)
        if not comparison.same and manager in stripped:
            stripped[manager] = VersionedSet(stripped[manager].fields, now)
        return merged, ManagedFields(stripped)

    def first_applied(
        self, manager: Manager, fields: FieldSet, outlined: Outline | None, now: Time, ignored: FieldSet, force: bool
    ) -> ManagedFields:
        """After a first apply of such ``fields``, by which the object changes as outlined.

        Raises:
            Conflict: others own what would change, and ``force`` is not given.
        """
        held = tuple([(one, versioned.fields.raw.data) for one, versioned in self.managers.items()])
        settled = after_first_apply(held, manager, fields.raw.data, outlined, ignored.raw.data, force)
        after: dict[Manager, VersionedSet] = {}
        for one, owned, taken in settled:
            before = self.managers.get(one)
            after[one] = VersionedSet(owned, now if taken else before.time if before is not None else None)
        return ManagedFields(after)

    def _all_in(self, api_version: str) -> bool:
        """Whether all wrote in that version."""
        return {one.api_version for one in self.managers} <= {api_version}

    def _moved(
        self,
        current: Manager | None,
        version: str,
        comparison: Comparison,
        new: View,
        ignored: FieldSet,
        other: OtherViews,
        *,
        force: bool,
    ) -> tuple[dict[Manager, VersionedSet], Comparison]:
        """The managers without what the others lost, and the comparison (in the request's version) of what counts."""
        comparison = comparison.without(ignored)
        by_version: dict[str, Comparison | None] = {version: comparison}
        conflicts: dict[Manager, FieldSet] = {}
        managers = dict(self.managers)
        for manager, versioned in self.managers.items():
            if manager == current:
                continue
            if manager.api_version not in by_version:
                views = other(manager.api_version, new.value)
                by_version[manager.api_version] = (
                    None if views is None else compare(views[0].value, views[1].value, views[1].shape).without(ignored)
                )
            seen = by_version[manager.api_version]
            if seen is None:
                del managers[manager]
                continue
            lost = versioned.fields.intersection(seen.modified.union(seen.added))
            if not lost.empty:
                conflicts[manager] = lost
            if lost.empty and versioned.fields.intersection(seen.removed).empty:
                continue
            rest = versioned.fields.difference(lost).difference(seen.removed)
            if rest.empty:
                del managers[manager]
            else:
                managers[manager] = VersionedSet(rest, versioned.time)
        if conflicts and not force:
            raise Conflict(conflicts)
        return managers, comparison

    def _pruned(
        self, manager: Manager, merged: dict[str, Any], last: VersionedSet | None, shape: Shape
    ) -> dict[str, Any]:
        """Without what the manager applied before, applies no more, and no other manager owns."""
        if last is None or last.fields.empty:
            return merged
        previous = last.fields.with_named_parents()
        pruned = remove(merged, previous, shape)
        owned = FieldSet()
        for versioned in self.managers.values():
            owned = owned.union(versioned.fields)
        merged_set = field_set(merged, shape).with_named_parents()
        pruned_set = field_set(pruned, shape).with_named_parents()
        pruned = remove(merged, merged_set.difference(pruned_set).difference(owned.with_named_parents()), shape)
        pruned_set = field_set(pruned, shape).with_named_parents()
        result: dict[str, Any] = remove(merged, merged_set.difference(pruned_set).intersection(previous), shape)
        return result


def after_first_apply(
    held: tuple[tuple[Manager, bytes], ...],
    manager: Manager,
    fields: bytes,
    outlined: Outline | None,
    ignored: bytes,
    force: bool,
) -> tuple[tuple[Manager, FieldSet, bool], ...]:
    """What every manager holds after the first apply of one, and whether that is what was just applied. It is
    remembered where all fields together are `REMEMBERED_SIZE` bytes at most.

    Raises:
        Conflict: others own what would change, and ``force`` is not given.
    """
    size = len(fields) + sum(len(owned) for _, owned in held)
    found = _kept_after_first_apply if size <= REMEMBERED_SIZE else _after_first_apply
    return found(held, manager, fields, outlined, ignored, force)


def _after_first_apply(
    held: tuple[tuple[Manager, bytes], ...],
    manager: Manager,
    fields: bytes,
    outlined: Outline | None,
    ignored: bytes,
    force: bool,
) -> tuple[tuple[Manager, FieldSet, bool], ...]:
    managed = ManagedFields(
        {one: VersionedSet(FieldSet.from_raw(RawJSON(owned)), None) for one, owned in (*held, (manager, fields))}
    )
    hidden = FieldSet.from_raw(RawJSON(ignored))
    compared, version = Comparison.of(outlined), manager.api_version
    managers, comparison = managed._moved(
        manager, version, compared, View(b"{}", ANYTHING), hidden, lambda *_: None, force=force
    )
    return tuple(
        (one, found.fields, one == manager and not comparison.same) for one, found in _stripped(managers).items()
    )


_kept_after_first_apply: Final = remembered("apiserver.ownership.managers.after_first_apply", size=256)(
    _after_first_apply
)


def _taken(
    managers: dict[Manager, VersionedSet], manager: Manager, comparison: Comparison, now: Time, ignored: FieldSet
) -> dict[Manager, VersionedSet]:
    """With what the writer has set."""
    taken = comparison.modified.union(comparison.added).without_subtrees(ignored).difference(_NEVER_TRACKED)
    if taken.empty:
        return managers
    known = managers.get(manager)
    fields = taken if known is None else known.fields.union(taken)
    return {**managers, manager: VersionedSet(fields, now)}


def _stripped(managers: Mapping[Manager, VersionedSet]) -> dict[Manager, VersionedSet]:
    stripped = {}
    for manager, versioned in managers.items():
        fields = tracked_part(versioned.fields)
        if fields is versioned.fields:
            if fields.children:
                stripped[manager] = versioned
        elif not fields.empty:
            stripped[manager] = VersionedSet(fields, versioned.time)
    return stripped


def _capped(managers: dict[Manager, VersionedSet]) -> dict[Manager, VersionedSet]:
    """At most ten updaters; the oldest are put together."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - UPDATE_LIMIT
    if excess <= 0:
        return managers
    updaters.sort(key=lambda m: (_micros(managers[m].time), m.name))
    capped = dict(managers)
    for manager in updaters:
        if excess < 0 or len([m for m in capped if m.operation == UPDATE]) <= UPDATE_LIMIT:
            break
        if manager.name == ANCIENT:
            continue
        old = capped.pop(manager)
        bucket = Manager(ANCIENT, UPDATE, manager.api_version)
        known = capped.get(bucket)
        capped[bucket] = old if known is None else VersionedSet(known.fields.union(old.fields), old.time)
    return capped


def _micros(time: Time | None) -> int:
    return time.micros if time else 0
