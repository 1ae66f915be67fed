"""Managed fields after writes: the ways that most writes go give the same as the long one."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.struct import Time, encode
from cathedra.apiserver.ownership import managers
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.managers import (
    APPLY,
    REMEMBERED_SIZE,
    UPDATE,
    Conflict,
    ManagedFields,
    Manager,
)
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.remembering import statistics

SHAPE = struct_shape(ConfigMap)
IGNORED = field_set(("status",))
TEXTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), max_size=3)
VALUES = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({}, optional={"labels": TEXTS, "finalizers": st.just(["f"])})},
    optional={"data": TEXTS, "immutable": st.booleans()},
)
WRITES = st.lists(st.tuples(st.sampled_from(["ann", "bob"]), VALUES), min_size=1, max_size=5)


def no_other_version(*_: Any) -> None:
    raise AssertionError("nobody wrote in another version")


def books_after(writes: list[tuple[str, dict[str, Any]]], *, size: int) -> ManagedFields:
    managed, old = ManagedFields({}), View(_spelled({"metadata": {}}, size), SHAPE)
    for now, (name, value) in enumerate(writes):
        new = View(_spelled(value, size), SHAPE)
        managed = managed.update(Manager(name, UPDATE, "v1"), old, new, Time(now), IGNORED, no_other_version)
        old = new
    return managed


def _spelled(value: dict[str, Any], size: int) -> bytes:
    """The JSON with so many blanks that it is too large to be remembered, if it is to be."""
    return encode(value) + b" " * size


def test_an_entry_that_a_write_leaves_alone_stays_the_very_same() -> None:
    managed = books_after([("ann", {"metadata": {}, "data": {"a": "1"}})], size=0)
    (entry,) = managed.entries()
    after = ManagedFields.of((entry,)).update(
        Manager("bob", UPDATE, "v1"),
        View(encode({"metadata": {}}), SHAPE),
        View(encode({"metadata": {"finalizers": ["f"]}}), SHAPE),
        Time(9),
        IGNORED,
        no_other_version,
    )
    assert after.entries()[0] is entry


def first_apply(live: dict[str, Any], wanted: dict[str, Any], *, force: bool, size: int) -> Any:
    managed = books_after([("ann", live), ("bob", {**live, "data": {"a": "z"}})], size=size)
    view = View(_spelled({**live, "data": {"a": "z"}}, size), SHAPE)
    try:
        merged, after = managed.apply(
            Manager("cy", APPLY, "v1"), view, wanted, Time(9), IGNORED, no_other_version, force=force
        )
    except Conflict as conflict:
        return conflict.message
    return merged, after.entries()


@settings(max_examples=60)
@given(VALUES, VALUES, st.booleans())
def test_a_remembered_first_apply_ends_as_one_that_is_worked_out(
    live: dict[str, Any], wanted: dict[str, Any], force: bool
) -> None:
    worked_out = first_apply(live, wanted, force=force, size=REMEMBERED_SIZE + 1)
    for _ in range(2):
        assert first_apply(live, wanted, force=force, size=0) == worked_out


def test_a_write_that_repeats_an_outline_has_its_own_time() -> None:
    first = books_after([("ann", {"metadata": {}, "data": {"a": "1"}})], size=0)
    again = books_after(
        [("bob", {"metadata": {}}), ("ann", {"metadata": {}, "data": {"a": "2"}})],
        size=0,
    )
    assert [entry.time for entry in first.entries()] == [Time(0)]
    assert [(entry.manager, entry.time) for entry in again.entries()] == [("ann", Time(1))]


def test_what_no_client_may_set_is_not_taken() -> None:
    managed = books_after([("ann", {"metadata": {"name": "n", "uid": "u"}, "data": {"a": "1"}})], size=0)
    assert [versioned.fields for versioned in managed.managers.values()] == [
        FieldSet.from_json({"f:data": {".": {}, "f:a": {}}})
    ]


def test_five_hundred_conflicts_are_told_and_the_rest_are_counted() -> None:
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


def test_what_follows_from_a_large_first_apply_is_not_remembered() -> None:
    fields = FieldSet.from_json({f"f:n{number}": {} for number in range(5000)})
    before = statistics()
    managers.after_first_apply((), Manager("ann", APPLY, "v1"), fields.raw.data, None, b"{}", False)
    name = "apiserver.ownership.managers.after_first_apply"
    assert statistics()[name] == before[name]
