"""The managers of an object's fields, and how writes move fields between them (docs/spec/apimachinery.md §6.5).

Each entry of ``metadata.managedFields`` is one manager with the set of its fields. A write takes what it changed from
all other managers. An update gives it to the writer; an apply gives the applier all fields of its configuration, and is
refused if it would take fields from others by changing them (`Conflict`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.field import MAX_TEXT, shortened_text
from cathedra.api.status import MAX_CAUSES
from cathedra.api.struct import RawJSON, Time, replace
from cathedra.apiserver.ownership.fieldset import (
    Changes,
    FieldSet,
    FilledTemplate,
    InvalidElement,
    OwnJSON,
    tracked_part,
)
from cathedra.apiserver.ownership.typed import shown_element
from cathedra.remembering import remembered

UPDATE: Final = "Update"
APPLY: Final = "Apply"
_OPERATIONS: Final = frozenset({UPDATE, APPLY})
ANCIENT: Final = "ancient-changes"
BEFORE_FIRST_APPLY: Final = "before-first-apply"
UPDATE_LIMIT: Final = 10

Entries = tuple[ManagedFieldsEntry, ...]
Held = tuple[ManagedFieldsEntry, FieldSet]
"""An entry and its fields; the entry's JSON is that of the set."""
ChangesIn = Callable[[str], Changes | None]
"""API version → the changes of a write as it shows them; None if that version is no longer served."""


class Manager(msgspec.Struct, frozen=True, order=True, gc=False):
    """The identity of an entry: the name of a writer, how and in which version it writes."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""


def _manager_of_entry(entry: ManagedFieldsEntry) -> Manager:
    return Manager(entry.manager, entry.operation, entry.api_version, entry.subresource)


def is_applier(entry: ManagedFieldsEntry, manager: Manager) -> bool:
    """Return True if an entry is that of an applier, which is the same one in whatever version it applies."""
    return entry.operation == APPLY and entry.manager == manager.name and entry.subresource == manager.subresource


class ManagedWrite(msgspec.Struct, frozen=True, gc=False):
    """A write that moves fields."""

    manager: Manager
    now: float
    """Seconds since the epoch."""
    ignored: FieldSet
    """Fields that the write cannot change (a sub-resource's strategy resets them), so it does not own them."""
    force: bool = False

    def visible(self, changes: Changes) -> Changes:
        """Return changes without the ignored fields."""
        if not self.ignored.children:
            return changes
        touched, removed = changes
        return touched.without_subtrees(self.ignored), removed.without_subtrees(self.ignored)


class Conflict(Exception):
    """Other managers own fields that an apply would change; ``fields`` by manager."""

    def __init__(self, fields: Mapping[Manager, FieldSet]) -> None:
        self.fields = dict(fields)
        super().__init__(self.message)

    def causes(self) -> list[tuple[str, str]]:
        """Return manager and field path of each conflict, of as many as a Status may list."""
        shown: list[tuple[str, str]] = []
        room = MAX_TEXT
        for manager, path in islice(self._all(), MAX_CAUSES):
            cause = _described(manager), "".join(shortened_text(shown_element(element), room) for element in path)
            shown.append(cause)
            room -= sum(map(len, cause))
            if room <= 0:
                break
        return shown

    def _all(self) -> Iterator[tuple[Manager, tuple[str, ...]]]:
        return ((manager, path) for manager in sorted(self.fields) for path in self.fields[manager].paths())

    @property
    def message(self) -> str:
        """Kubernetes' text, with a line for each manager and field."""
        causes = self.causes()
        count = sum(1 for _ in self._all())
        if count == 1:
            return f"Apply failed with 1 conflict: conflict with {causes[0][0]}: {causes[0][1]}"
        lines: list[str] = []
        previous = ""
        for manager, path in causes:
            if manager != previous:
                lines.append(f"conflicts with {manager}:")
                previous = manager
            lines.append(f"- {path}")
        if count > len(causes):
            lines.append(f"and {count - len(causes)} more")
        return f"Apply failed with {count} conflicts: " + "\n".join(lines)


def _described(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == UPDATE:
        text += f" using {manager.api_version}"
    return text


# --- entries ------------------------------------------------------------------------------------------------------


def held_fields(entries: Entries) -> list[Held]:
    """Return entries with their fields, those of the same manager joined; none if one of them is invalid."""
    held: list[Held] = []
    for entry in entries:
        raw = entry.fields_v1
        # One invalid entry discards all (``DecodeManagedFields`` upstream): half of them would give fields to managers
        # that share them with one that was left out.
        if entry.fields_type != "FieldsV1" or entry.operation not in _OPERATIONS or not entry.api_version:
            return []
        if raw is None:
            continue
        fields = raw.fields if type(raw) is OwnJSON else FieldSet.from_own_json(raw)
        if fields is None:
            # Another client may have sent it with blanks or in another order: it is encoded anew.
            fields = _decoded(raw)
            if fields is None:
                return []
            entry = replace(entry, fields_v1=fields.expect_reading())
        held.append((entry, fields))
    # Nearly always the names differ already.
    if len(held) > 1 and len({*map(_name, entries)}) < len(entries) > len({*map(_identity, entries)}):
        return _joined(held)
    return held


_name: Final = attrgetter("manager", "subresource")
_identity: Final = attrgetter("manager", "operation", "api_version", "subresource")
"""The fields of an entry that are those of its `Manager`, in order."""


def _decoded(raw: RawJSON) -> FieldSet | None:
    try:
        return FieldSet.from_raw(raw)
    except (msgspec.DecodeError, AttributeError, InvalidElement):
        return None


def _joined(held: Iterable[Held]) -> list[Held]:
    joined: dict[Manager, Held] = {}
    for entry, fields in held:
        key = _manager_of_entry(entry)
        if key in joined:
            fields = joined[key][1].union(fields)
            entry = replace(entry, fields_v1=fields.expect_reading())
        joined[key] = entry, fields
    return list(joined.values())


def new_entry(manager: Manager, fields: FieldSet, time: Time | None) -> ManagedFieldsEntry:
    """Return the entry of a manager that owns these fields."""
    return ManagedFieldsEntry(
        manager=manager.name,
        operation=manager.operation,
        api_version=manager.api_version,
        time=time,
        fields_type="FieldsV1",
        fields_v1=fields.expect_reading(),
        subresource=manager.subresource,
    )


def _in_order(entries: list[ManagedFieldsEntry]) -> Entries:
    """Sort entries, and return them as ``managedFields``: Apply first, then by time, then by name."""
    # Nearly always they are in order: to find that out takes half of the instructions of a sort.
    for one, other in pairwise(entries):
        if one.time is other.time and one.operation == other.operation and one.manager < other.manager:
            continue  # as most pairs, for an object is often written several times within a second
        if not (one.time and other.time) or (
            (one.operation, one.time.micros, one.manager, one.api_version, one.subresource)
            > (other.operation, other.time.micros, other.manager, other.api_version, other.subresource)
        ):
            entries.sort(key=lambda entry: (entry.operation, _micros(entry), _identity(entry)))
            break
    return tuple(entries)


def _micros(entry: ManagedFieldsEntry) -> int:
    return entry.time.micros if entry.time else 0


# --- updates ------------------------------------------------------------------------------------------------------


def after_update(held: Sequence[Held], write: ManagedWrite, changes: Changes, others: Entries = ()) -> Entries | None:
    """Return the entries after a create, update or patch that made these changes in the version of the request; None if
    some managers wrote in other versions (`after_update_across_versions`).

    Each entry loses what the write touched or removed, and the writer's own gains what it touched. An entry that loses
    nothing stays the same object. ``others`` are entries that lose nothing more.
    """
    manager, own = write.manager, WRITER
    sets = [*changes]
    for entry, fields in held:
        if entry.api_version != manager.api_version:
            return None
        if (
            entry.manager == manager.name
            and entry.operation == manager.operation
            and entry.subresource == manager.subresource
        ):
            own = len(sets) - len(changes)
        sets.append(fields)
    outcome = _outcome(sets, own, write.ignored)
    if outcome is None or (outcome.equal_elements and not outcome.holds_for(sets)):
        moves: Iterable[_Move] = [(position, fields, None) for position, fields in _moves(sets, own, write.ignored)]
    else:
        moves = outcome.moves
    after = [*others]
    for position, moved, source in moves:
        if moved is None:
            after.append(held[position][0])
            continue
        if source is None:
            owned = moved
        elif sets[source].number == moved.number:
            owned = sets[source]
        else:
            owned = FilledTemplate(moved, sets[source].element)
        if position == WRITER:
            after.append(new_entry(manager, owned, Time(write.now)))
        else:
            after.append(replace(held[position][0], fields_v1=owned.expect_reading()))
    return _in_order(after if len(after) <= UPDATE_LIMIT else _capped(after))


def after_update_across_versions(
    held: Sequence[Held], write: ManagedWrite, changes: Changes, changes_in: ChangesIn
) -> Entries:
    """Return what `after_update` does if some managers wrote in other versions, whose sets name the fields of those
    versions."""
    others: list[ManagedFieldsEntry] = []
    same: list[Held] = []
    known: dict[str, Changes | None] = {}
    for entry, fields in held:
        if entry.api_version == write.manager.api_version:
            same.append((entry, fields))
            continue
        there = _visible_in(entry.api_version, write, changes_in, known)
        if there is not None and (rest := _remaining(entry, fields, there)):
            others.append(rest)
    return after_update(same, write, changes, tuple(others)) or ()


def _visible_in(
    api_version: str, write: ManagedWrite, changes_in: ChangesIn, known: dict[str, Changes | None]
) -> Changes | None:
    """Return the visible changes in another API version. ``known`` has those of the versions that came before."""
    if api_version not in known:
        seen = changes_in(api_version)
        known[api_version] = None if seen is None else write.visible(seen)
    return known[api_version]


def _remaining(entry: ManagedFieldsEntry, fields: FieldSet, changes: Changes) -> ManagedFieldsEntry | None:
    """Return an entry without what others changed; the entry itself if that is nothing, None if that is all."""
    touched, removed = changes
    rest = tracked_part(fields.difference(touched))
    if removed.children:
        rest = rest.difference(removed)
    if rest is fields:
        return entry
    return replace(entry, fields_v1=rest.expect_reading()) if rest.children else None


WRITER: Final = -1
"""Position of the entry of the manager that writes, which may not exist yet."""

_Move = tuple[int, FieldSet | None, int | None]
"""Position of an entry; its new fields, None if it keeps them; and, if they are a template, the position of the set
whose element fills it."""


class _KeyedMoves(NamedTuple):
    """The moves of all writes whose sets have the same numbers, if certain elements are equal."""

    moves: Sequence[_Move]
    equal_elements: Sequence[tuple[int, int]]
    """Pairs of sets with the placeholder at the same path. Only with equal elements do they have those paths in
    common, as the templates do."""

    def holds_for(self, sets: Sequence[FieldSet]) -> bool:
        """Return True if the elements are equal in these sets."""
        for one, other in self.equal_elements:  # noqa: SIM110  # a generator costs as much as the rest
            if sets[one].element != sets[other].element:
                return False
        return True


def _numbers(sets: Sequence[FieldSet], own: int, ignored: FieldSet) -> tuple[int, ...]:
    numbers = [own, ignored.number]
    for one in sets:
        numbers.append(one.number)
    return tuple(numbers)


# The sets of most writes have numbers, and there are few combinations: a kubelet, a scheduler and a controller each
# write the same fields of pod after pod. Without the memo ownership takes as long as the rest of a write.
@remembered("apiserver.ownership.managers.outcome", size=1024, key=_numbers, keep=bool)
def _outcome(sets: Sequence[FieldSet], own: int, ignored: FieldSet) -> _KeyedMoves | None:
    """Work out the moves on templates; None if a set has no number, or the result would have none."""
    if not (ignored.number and all(one.number for one in sets)):
        return None
    sources: dict[tuple[str, ...], int] = {}
    equal_elements = []
    for source, one in enumerate(sets):
        first = sources.setdefault(one.placeholder, source) if one.placeholder else source
        if first != source:
            equal_elements.append((first, source))
    moves: list[_Move] = []
    for position, fields in _moves([one.template for one in sets], own, ignored):
        shared = None if fields is None else fields.numbered()
        if shared is not None and not shared.number:
            return None
        moves.append((position, shared, sources.get(shared.placeholder) if shared is not None else None))
    return _KeyedMoves(moves, equal_elements)


def _moves(sets: Sequence[FieldSet], own: int, ignored: FieldSet) -> list[tuple[int, FieldSet | None]]:
    touched, removed, *held = sets
    if ignored.children:
        touched, removed = touched.without_subtrees(ignored), removed.without_subtrees(ignored)
    taken = tracked_part(touched)
    found: list[tuple[int, FieldSet | None]] = []
    for position, fields in enumerate(held):
        rest = tracked_part(fields.difference(touched))
        if removed.children:
            rest = rest.difference(removed)
        if taken.children and position == own:
            taken = rest.union(taken)
        elif rest.children:
            found.append((position, None if rest is fields else rest))
    if taken.children:
        found.append((WRITER, taken))
    return found


def _capped(entries: list[ManagedFieldsEntry]) -> list[ManagedFieldsEntry]:
    """Return entries with at most ten updaters: the oldest are joined, by version, under one name."""
    held = {_manager_of_entry(entry): (entry, fields) for entry, fields in held_fields(tuple(entries))}
    updaters = [manager for manager in held if manager.operation == UPDATE]
    if len(updaters) <= UPDATE_LIMIT:
        return entries
    updaters.sort(key=lambda manager: (_micros(held[manager][0]), manager.name))
    for manager in updaters:
        if sum(1 for one in held if one.operation == UPDATE) <= UPDATE_LIMIT:
            break
        if manager.name == ANCIENT:
            continue
        entry, fields = held.pop(manager)
        joined = Manager(ANCIENT, UPDATE, manager.api_version)
        known = held.get(joined)
        fields = fields if known is None else known[1].union(fields)
        held[joined] = new_entry(joined, fields, entry.time), fields
    return [entry for entry, _ in held.values()]


# --- applies ------------------------------------------------------------------------------------------------------


def after_apply(
    held: Sequence[Held], write: ManagedWrite, fields: FieldSet, changes: Changes, changes_in: ChangesIn
) -> Entries:
    """Return the entries after an apply of a configuration with these fields, which made these changes.

    Raises:
        Conflict: others own what would change, and the apply is not forced.
    """
    manager = write.manager
    visible = touched, removed = write.visible(changes)
    known: dict[str, Changes | None] = {}
    conflicts: dict[Manager, FieldSet] = {}
    after: list[ManagedFieldsEntry] = []
    last: ManagedFieldsEntry | None = None
    for entry, owned in held:
        if entry.operation == APPLY and is_applier(entry, manager):
            last = last or entry
            continue
        is_same_version = entry.api_version == manager.api_version
        there = visible if is_same_version else _visible_in(entry.api_version, write, changes_in, known)
        if there is None:
            continue
        rest = _remaining(entry, owned, there)
        if rest is not None:
            after.append(rest)
        if rest is not entry and not (lost := owned.intersection(there[0])).empty:
            conflicts[_manager_of_entry(entry)] = lost
    if conflicts and not write.force:
        raise Conflict(conflicts)
    fields = tracked_part(fields)
    if fields.children:
        # An apply that changes nothing keeps the time of the last one.
        last_time = last.time if last is not None else None
        time = Time(write.now) if touched.children or removed.children else last_time
        after.insert(0, new_entry(manager, fields, time))  # appliers come first
    return _in_order(after)
