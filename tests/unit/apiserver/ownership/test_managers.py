"""Managed fields after writes: the same as moving paths between plain sets, whatever is remembered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import KubeStruct, RawJSON, Time, from_dict, replace
from cathedra.apiserver.ownership.fieldset import (
    NOTHING,
    UNTRACKED,
    Changes,
    FieldSet,
    fields_at,
)
from cathedra.apiserver.ownership.managers import (
    APPLY,
    UPDATE,
    UPDATE_LIMIT,
    ChangesIn,
    Conflict,
    Entries,
    ManagedWrite,
    Manager,
    after_apply,
    after_update,
    after_update_across_versions,
    held_fields,
)
from cathedra.apiserver.ownership.structs import struct_changes, tracked_places
from cathedra.apiserver.patches.schema import StructShape, struct_shape

Paths = set[tuple[str, ...]]
TEXTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), max_size=3)
REFERENCES = st.lists(st.sampled_from(["1", "2"]), unique=True).map(lambda uids: [{"uid": uid} for uid in uids])
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["n", "m"])},
            optional={"labels": TEXTS, "finalizers": st.just(["f"]), "ownerReferences": REFERENCES},
        )
    },
    optional={
        "spec": st.fixed_dictionaries({}, optional={"nodeName": st.sampled_from("ab"), "nodeSelector": TEXTS}),
        "status": st.fixed_dictionaries({}, optional={"phase": st.sampled_from("ab")}),
    },
)
CLAIMS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": st.just("n")}, optional={"ownerReferences": REFERENCES}),
        "status": st.fixed_dictionaries(
            {}, optional={"reservedFor": REFERENCES, "allocation": st.just({"devices": {"results": []}})}
        ),
    }
)
MANAGERS = st.builds(
    Manager, st.sampled_from(["ann", "bob"]), st.just(UPDATE), st.sampled_from(["v1", "v2"]), st.sampled_from(["", "s"])
)
APPLIED: Entries = (
    ManagedFieldsEntry(
        manager="cy",
        operation=APPLY,
        api_version="v1",
        time=Time(5),
        fields_type="FieldsV1",
        fields_v1=RawJSON(b'{"f:metadata":{"f:labels":{"f:a":{}}}}'),
    ),
)


def changes_of(old: KubeStruct, new: KubeStruct) -> Changes:
    shape = struct_shape(type(new))
    assert isinstance(shape, StructShape)
    return struct_changes(old, new, tracked_places(shape))


def paths(fields: FieldSet) -> Paths:
    return set(fields.paths())


def owners(entries: Entries) -> dict[Manager, tuple[Paths, Time | None]]:
    found = {}
    for entry in entries:
        assert entry.fields_v1 is not None
        manager = Manager(entry.manager, entry.operation, entry.api_version, entry.subresource)
        found[manager] = paths(FieldSet.from_raw(entry.fields_v1)), entry.time
    return found


def below(path: tuple[str, ...], roots: Paths) -> bool:
    return any(path[: len(root)] == root for root in roots)


def moved(
    before: dict[Manager, tuple[Paths, Time | None]], write: ManagedWrite, changes: Changes
) -> dict[Manager, tuple[Paths, Time | None]]:
    """Move paths between plain sets."""
    ignored = paths(write.ignored)
    touched, removed = ({path for path in paths(one) if not below(path, ignored)} for one in changes)
    after = {manager: (held - touched - removed, time) for manager, (held, time) in before.items()}
    taken = touched - paths(UNTRACKED)
    if taken:
        mine, _ = after.get(write.manager, (set(), None))
        after[write.manager] = mine | taken, Time(write.now)
    return {manager: found for manager, found in after.items() if found[0]}


def updated(entries: Entries, write: ManagedWrite, changes: Changes) -> Entries:
    """Return the entries after an update that has the same changes in all served versions."""
    held = held_fields(entries)
    after = after_update(held, write, changes)
    return after_update_across_versions(held, write, changes, served(changes)) if after is None else after


def served(changes: Changes) -> ChangesIn:
    return lambda version: changes if version in {"v1", "v2"} else None


@settings(max_examples=250)
@given(
    st.one_of(
        st.tuples(st.just(Pod), st.lists(st.tuples(MANAGERS, PODS), min_size=1, max_size=5)),
        st.tuples(st.just(ResourceClaim), st.lists(st.tuples(MANAGERS, CLAIMS), min_size=1, max_size=5)),
    ),
    st.sampled_from([(), ("status",), ("spec", "metadata.labels"), ("metadata",)]),
    st.sampled_from([(), APPLIED]),
)
def test_updates_move_paths_between_managers(
    writes: tuple[type[KubeStruct], list[tuple[Manager, dict[str, Any]]]], resets: tuple[str, ...], entries: Entries
) -> None:
    """Claims have owners and consumers, both with uids: equal ones or not, in one entry or several."""
    kind, values = writes
    old = kind()
    for now, (manager, value) in enumerate(values):
        new = from_dict(kind, value)
        changes = changes_of(old, new)
        write = ManagedWrite(manager, now, fields_at(resets))
        expected = moved(owners(entries), write, changes)
        after = updated(entries, write, changes)
        assert owners(after) == expected
        # The second time the outcome is remembered, and sets that do not share a tree take another way.
        own_sets: Changes = tuple(FieldSet.from_json(one.to_json()) for one in changes)  # type: ignore[assignment]
        assert updated(entries, write, changes) == after
        assert updated(entries, write, own_sets) == after
        old, entries = new, after


@settings(max_examples=150)
@given(PODS, PODS, PODS, st.booleans())
def test_an_apply_owns_its_fields_and_conflicts_with_the_owners_of_what_it_changes(
    first: dict[str, Any], second: dict[str, Any], wanted: dict[str, Any], force: bool
) -> None:
    old, live, new = (from_dict(Pod, one) for one in (first, second, wanted))
    entries = updated((), ManagedWrite(Manager("ann", UPDATE, "v1"), 1, NOTHING), changes_of(Pod(), old))
    changes = changes_of(old, live)
    entries = updated(entries, ManagedWrite(Manager("bob", UPDATE, "v2"), 2, NOTHING), changes)
    changes = changes_of(live, new)
    fields, applier = changes_of(Pod(), new)[0], Manager("cy", APPLY, "v1")
    before, touched = owners(entries), paths(changes[0])
    write = ManagedWrite(applier, 9, NOTHING, force)
    in_conflict = {manager: held & touched for manager, (held, _) in before.items() if held & touched}
    if in_conflict and not force:
        with pytest.raises(Conflict) as raised:
            after_apply(held_fields(entries), write, fields, changes, served(changes))
        assert {manager: paths(found) for manager, found in raised.value.fields.items()} == in_conflict
        return
    after = after_apply(held_fields(entries), write, fields, changes, served(changes))
    expected = {manager: (held - touched - paths(changes[1]), time) for manager, (held, time) in before.items()}
    owned = paths(fields) - paths(UNTRACKED)
    expected[applier] = owned, Time(9) if touched or paths(changes[1]) else None
    assert owners(after) == {manager: found for manager, found in expected.items() if found[0]}


def test_an_apply_that_changes_nothing_keeps_the_time_of_the_last_one() -> None:
    fields = FieldSet.from_json({"f:metadata": {"f:labels": {"f:a": {}}}})
    nothing = NOTHING, NOTHING
    assert after_apply(
        held_fields(APPLIED), ManagedWrite(Manager("cy", APPLY, "v2"), 9, NOTHING), fields, nothing, served(nothing)
    ) == (replace(APPLIED[0], api_version="v2"),)


def test_an_entry_that_a_write_leaves_alone_stays_the_same_object() -> None:
    changes = changes_of(Pod(), from_dict(Pod, {"metadata": {"finalizers": ["f"]}}))
    after = updated(APPLIED, ManagedWrite(Manager("ann", UPDATE, "v1"), 9, NOTHING), changes)
    assert after[0] is APPLIED[0]
    assert [entry.manager for entry in after] == ["cy", "ann"]


@pytest.mark.parametrize(
    "entry",
    [
        replace(APPLIED[0], fields_type="FieldsV2"),
        replace(APPLIED[0], fields_v1=None),
        replace(APPLIED[0], fields_v1=RawJSON(b"[]")),
        replace(APPLIED[0], fields_v1=RawJSON(b"{")),
    ],
)
def test_entries_that_cannot_be_decoded_are_left_out(entry: ManagedFieldsEntry) -> None:
    assert held_fields((entry,)) == []


@pytest.mark.parametrize("data", [b'{"f:a": {}}', b'{".":{},"f:a":{}}'])
def test_fields_are_written_as_the_server_writes_them(data: bytes) -> None:
    ((entry, fields),) = held_fields((replace(APPLIED[0], fields_v1=RawJSON(data)),))
    assert entry.fields_v1 == RawJSON(b'{"f:a":{}}')
    assert paths(fields) == {("f:a",)}


def test_two_entries_of_a_manager_are_joined_with_the_later_time() -> None:
    second = replace(APPLIED[0], time=Time(6), fields_v1=RawJSON(b'{"f:a":{}}'))
    ((entry, fields),) = held_fields((APPLIED[0], second))
    assert entry.time == Time(6)
    assert paths(fields) == {("f:a",), ("f:metadata", "f:labels", "f:a")}


def test_a_manager_in_a_version_that_is_no_longer_served_loses_its_fields() -> None:
    entries = (replace(APPLIED[0], api_version="v0"),)
    changes = changes_of(Pod(), from_dict(Pod, {"metadata": {"finalizers": ["f"]}}))
    after = updated(entries, ManagedWrite(Manager("ann", UPDATE, "v1"), 9, NOTHING), changes)
    assert [entry.manager for entry in after] == ["ann"]


def test_the_oldest_of_more_than_ten_updaters_are_joined() -> None:
    entries: Entries = ()
    for number in range(UPDATE_LIMIT + 3):
        changes: Changes = FieldSet.from_json({f"f:n{number}": {}}), NOTHING
        write = ManagedWrite(Manager(f"m{number}", UPDATE, "v1"), number, NOTHING)
        entries = updated(entries, write, changes)
    found = owners(entries)
    assert len(found) == UPDATE_LIMIT
    assert found[Manager("ancient-changes", UPDATE, "v1")][0] == {(f"f:n{number}",) for number in range(4)}


def test_an_entry_without_a_time_is_the_first_of_its_operation() -> None:
    timeless = replace(APPLIED[0], manager="zoe", operation=UPDATE, time=None, fields_v1=RawJSON(b'{"f:a":{}}'))
    changes = changes_of(Pod(), from_dict(Pod, {"metadata": {"finalizers": ["f"]}}))
    write = ManagedWrite(Manager("ann", UPDATE, "v1"), 9, NOTHING)
    after = updated((timeless, *APPLIED), write, changes)
    assert [entry.manager for entry in after] == ["cy", "zoe", "ann"]


def test_the_first_five_hundred_conflicts_are_listed_and_the_rest_are_counted() -> None:
    fields = FieldSet.from_json({f"f:n{number}": {} for number in range(5000)})
    conflict = Conflict({Manager("ann", UPDATE, "v1"): fields})
    assert len(conflict.causes()) == 500
    assert conflict.message.startswith("Apply failed with 5000 conflicts: conflicts with ")
    assert conflict.message.endswith("\nand 4500 more")


def test_the_paths_of_conflicts_are_cut() -> None:
    fields = FieldSet.from_json({"f:" + "k" * 1_000_000: {f"f:n{number}": {} for number in range(5000)}})
    causes = Conflict({Manager("ann", UPDATE, "v1"): fields}).causes()
    assert len(causes) == 1
    assert len(causes[0][1]) < 70_000
