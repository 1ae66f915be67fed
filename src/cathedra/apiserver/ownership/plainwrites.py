"""The managed fields after a plain write: all managers wrote in the version of the request, and there are not too many.

Nearly all writes are so. Then each entry loses what the write touched, by itself, and the writer's own gains it; so one
pass over the entries will do, and those that lose nothing stay the very same. All else is worked out by
`cathedra.apiserver.ownership.managers`, with the same result.
"""

from __future__ import annotations

from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.struct import Time
from cathedra.apiserver.ownership.comparison import Changes, Outline
from cathedra.apiserver.ownership.fieldset import FieldSet
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
    managers = set()
    for entry in entries:
        raw = entry.fields_v1
        if raw is None or entry.fields_type != "FieldsV1" or entry.api_version != manager.api_version:
            return None
        fields = FieldSet.from_own_spelling(raw)
        if fields is None:
            return None
        found.append((entry, fields))
        managers.add((entry.manager, entry.operation, entry.subresource))
    return found if len(managers) == len(found) else None


def written(held: PlainEntries, manager: Manager, changes: Changes, now: Time, ignored: FieldSet) -> Entries:
    """The entries of ``held`` after a plain write that made these changes."""
    touched, removed = changes
    if ignored.children:
        touched, removed = touched.without_subtrees(ignored), removed.without_subtrees(ignored)
    taken = tracked_part(touched)
    after: list[ManagedFieldsEntry] = []
    for entry, fields in held:
        rest = tracked_part(fields.difference(touched))
        if removed.children:
            rest = rest.difference(removed)
        if taken.children and _is_of(entry, manager):
            taken = rest.union(taken)
        elif rest is fields and rest.children:
            after.append(entry)
        elif rest.children:
            its = manager_of(entry.manager, entry.operation, entry.api_version, entry.subresource)
            after.append(new_entry(its, rest, entry.time))
    if taken.children:
        after.append(new_entry(manager, taken, now))
    return in_order(after)


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
    entries = {manager_of(e.manager, e.operation, e.api_version, e.subresource): (e, owned) for e, owned in held}
    if manager in entries:
        return None
    spelled = tuple([(one, owned.raw.data) for one, (_, owned) in entries.items()])
    after: list[ManagedFieldsEntry] = []
    for one, owned, taken in after_first_apply(spelled, manager, fields.raw.data, outlined, ignored.raw.data, force):
        before = entries.get(one)
        if before is None or taken:
            after.append(new_entry(one, owned, now if taken else None))
        else:
            entry, was = before
            after.append(entry if owned.raw.data == was.raw.data else new_entry(one, owned, entry.time))
    return in_order(after)


def _is_of(entry: ManagedFieldsEntry, manager: Manager) -> bool:
    """Whether it is the manager's entry; of which version is known."""
    return (
        entry.manager == manager.name
        and entry.subresource == manager.subresource
        and entry.operation == manager.operation
    )
