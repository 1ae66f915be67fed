"""The managed fields after a plain write: all managers wrote in the version of the request, and there are not too many.

Nearly all writes are so. Then each entry loses what the write touched, by itself, and the writer's own gains it; so one
pass over the entries will do, and those that lose nothing stay the very same. What comes of it is remembered by the
numbers of the sets. All else is worked out by `cathedra.apiserver.ownership.managers`, with the same result.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.struct import Time, replace
from cathedra.apiserver.ownership.comparison import Changes, Outline
from cathedra.apiserver.ownership.fieldset import FieldSet, Filled
from cathedra.apiserver.ownership.managers import (
    UPDATE_LIMIT,
    Manager,
    after_first_apply,
    in_order,
    manager_of,
    new_entry,
    tracked_part,
)

__all__ = ["Entries", "PlainEntries", "first_applied", "plain_sets", "written"]

Entries = tuple[ManagedFieldsEntry, ...]
PlainEntries = list[tuple[ManagedFieldsEntry, FieldSet]]
"""Entries that plain writes can go by, each with its fields."""


def plain_sets(entries: Entries, manager: Manager) -> PlainEntries | None:
    """The entries with their fields, if a write of that manager is of the plain sort."""
    if len(entries) >= UPDATE_LIMIT:
        return None
    found: PlainEntries = []
    for entry in entries:
        raw = entry.fields_v1
        if raw is None or entry.fields_type != "FieldsV1" or entry.api_version != manager.api_version:
            return None
        fields = FieldSet.from_own_spelling(raw)
        if fields is None:
            return None
        found.append((entry, fields))
    if len(found) > 1 and len({(one.manager, one.operation, one.subresource) for one, _ in found}) < len(found):
        return None
    return found


def written(held: PlainEntries, manager: Manager, changes: Changes, now: Time, ignored: FieldSet) -> Entries:
    """The entries of ``held`` after a plain write that made these changes."""
    name, operation, _, subresource = manager
    own = WRITER
    for position, (entry, _) in enumerate(held):
        if entry.manager == name and entry.subresource == subresource and entry.operation == operation:
            own = position
    sets = (*changes, *[fields for _, fields in held])
    after: list[ManagedFieldsEntry] = []
    for position, fields, source in _settled(sets, own, ignored):
        if fields is None:
            after.append(held[position][0])
            continue
        owned = fields if source is None else Filled(fields, sets[source].place)
        if position == WRITER:
            after.append(new_entry(manager, owned, now))
        else:
            after.append(replace(held[position][0], fields_v1=owned.expect_reading()))
    return in_order(after)


WRITER: Final = -1
"""Stands for the entry of the manager that writes, which need not have one."""
KNOWN: Final = 1024
"""Outcomes of writes that are remembered; the first give way."""

_Settled = tuple[int, FieldSet | None, int | None]
"""Which entry gets which fields, None if it stays as it is; and the set from which the fields have the element in their
opening, if they are a form."""


def _settled(sets: tuple[FieldSet, ...], own: int, ignored: FieldSet) -> Sequence[_Settled]:
    """What becomes of entries by a write: ``sets`` are what it set, what it removed, and what the entries have. Where
    all have numbers, these decide that together with which elements in their openings are the same."""
    key = (own, ignored.number, *map(_number, sets))
    if key not in _SETTLED and 0 not in key[1:]:
        if len(_SETTLED) >= KNOWN:
            _SETTLED.popitem(last=False)
        _SETTLED[key] = _settled_forms(sets, own, ignored)
    found = _SETTLED.get(key)
    if found is not None:
        for one, other in found.meeting:
            if sets[one].place != sets[other].place:
                break
        else:
            return found.settled
    return [(position, fields, None) for position, fields in _worked_out(sets, own, ignored)]


class _Outcome(NamedTuple):
    """What becomes of entries by a write, if those sets that have their openings at one place have the same element
    there."""

    settled: Sequence[_Settled]
    meeting: Sequence[tuple[int, int]]


_SETTLED: Final[OrderedDict[tuple[int, ...], _Outcome | None]] = OrderedDict()
_number: Final = attrgetter("number")


def _settled_forms(sets: tuple[FieldSet, ...], own: int, ignored: FieldSet) -> _Outcome | None:
    """What becomes of all sets of these forms; None if something comes of it that is known by no number."""
    sources: dict[tuple[str, ...], int] = {}
    meeting = []
    for source, one in enumerate(sets):
        first = sources.setdefault(one.opening, source) if one.opening else source
        if first != source:
            meeting.append((first, source))
    found: list[_Settled] = []
    for position, fields in _worked_out(tuple([one.form for one in sets]), own, ignored):
        form = None if fields is None else fields.numbered()
        if form is not None and not form.number:
            return None
        found.append((position, form, sources.get(form.opening) if form is not None else None))
    return _Outcome(found, meeting)


def _worked_out(sets: tuple[FieldSet, ...], own: int, ignored: FieldSet) -> list[tuple[int, FieldSet | None]]:
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


def first_applied(
    held: PlainEntries,
    manager: Manager,
    fields: FieldSet,
    outlined: Outline | None,
    now: Time,
    ignored: FieldSet,
    force: bool,
) -> Entries | None:
    """The entries of ``held`` after a manager has applied such ``fields``, by which the object changes as outlined;
    None if it has applied before.

    Raises:
        Conflict: others own what would change, and ``force`` is not given.
    """
    managers = [manager_of(e.manager, e.operation, e.api_version, e.subresource) for e, _ in held]
    if manager in managers:
        return None
    spelled = [owned.raw.data for _, owned in held]
    before = tuple(zip(managers, spelled, strict=True))
    after: list[ManagedFieldsEntry] = []
    for one, owned, taken in after_first_apply(before, manager, fields.raw.data, outlined, ignored.raw.data, force):
        if one == manager:
            after.append(new_entry(manager, owned, now if taken else None))
            continue
        position, raw = managers.index(one), owned.expect_reading()
        entry = held[position][0]
        after.append(entry if raw.data == spelled[position] else replace(entry, fields_v1=raw))
    return in_order(after)
