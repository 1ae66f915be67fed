"""A plain write leaves the same entries as one that is worked out with all that any write may need."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ManagedFieldsEntry
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import RawJSON, Time, encode, from_dict, replace
from cathedra.apiserver.ownership.comparison import Comparison
from cathedra.apiserver.ownership.managers import APPLY, UPDATE, UPDATE_LIMIT, ManagedFields, Manager
from cathedra.apiserver.ownership.plainwrites import Entries, plain_sets, written
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.structs import struct_changes
from cathedra.apiserver.ownership.views import View, differences
from cathedra.apiserver.patches.schema import StructShape, struct_shape

SHAPE = struct_shape(Pod)
TEXTS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(["", "x", "y"]), max_size=3)
UIDS = st.lists(st.sampled_from(["1", "2"]), unique=True)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["n", "m"])},
            optional={
                "labels": TEXTS,
                "finalizers": st.just(["f"]),
                "ownerReferences": UIDS.map(lambda uids: [{"uid": uid} for uid in uids]),
            },
        )
    },
    optional={
        "spec": st.fixed_dictionaries({}, optional={"nodeName": st.sampled_from("ab"), "nodeSelector": TEXTS}),
        "status": st.fixed_dictionaries({}, optional={"phase": st.sampled_from("ab")}),
    },
)
REFERENCES = UIDS.map(lambda uids: [{"uid": uid} for uid in uids])
CLAIMS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries({"name": st.just("n")}, optional={"ownerReferences": REFERENCES}),
        "status": st.fixed_dictionaries(
            {}, optional={"reservedFor": REFERENCES, "allocation": st.just({"devices": {"results": []}})}
        ),
    }
)
MANAGERS = st.builds(
    Manager, st.sampled_from(["ann", "bob"]), st.just(UPDATE), st.just("v1"), st.sampled_from(["", "status"])
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


def worked_out(entries: Entries, manager: Manager, old: Any, new: Any, now: int, ignored: Any) -> Entries:
    shape = struct_shape(type(new))
    views = View(encode(old), shape), View(encode(new), shape)
    return ManagedFields.of(entries).update(manager, *views, Time(now), ignored, lambda *_: None).entries()


@settings(max_examples=200)
@given(
    st.lists(st.tuples(MANAGERS, PODS), min_size=1, max_size=5),
    st.sampled_from([(), ("status",), ("spec", "metadata.labels")]),
    st.sampled_from([(), APPLIED]),
)
def test_plain_writes_leave_the_entries_that_any_write_would(
    writes: list[tuple[Manager, dict[str, Any]]], resets: tuple[str, ...], entries: Entries
) -> None:
    ignored, old = field_set(resets), Pod()
    assert isinstance(SHAPE, StructShape)
    for now, (manager, value) in enumerate(writes):
        new = from_dict(Pod, value)
        held = plain_sets(entries, manager)
        assert held is not None
        expected = worked_out(entries, manager, old, new, now, ignored)
        entries = written(held, manager, struct_changes(old, new, SHAPE), Time(now), ignored)
        assert entries == expected
        by_json = Comparison.below(differences(View(encode(old), SHAPE), View(encode(new), SHAPE)))
        assert written(held, manager, by_json.changes, Time(now), ignored) == expected
        old = new


@settings(max_examples=300)
@given(st.lists(st.tuples(MANAGERS, CLAIMS), min_size=1, max_size=5), st.sampled_from([(), ("metadata",)]))
def test_sets_that_share_a_form_are_moved_as_those_that_do_not(
    writes: list[tuple[Manager, dict[str, Any]]], resets: tuple[str, ...]
) -> None:
    """Claims have owners and consumers, both found by uids: the same one or another, in one entry or several."""
    ignored, old, entries = field_set(resets), ResourceClaim(), APPLIED
    shape = struct_shape(ResourceClaim)
    assert isinstance(shape, StructShape)
    for now, (manager, value) in enumerate(writes):
        new = from_dict(ResourceClaim, value)
        held = plain_sets(entries, manager)
        assert held is not None
        expected = worked_out(entries, manager, old, new, now, ignored)
        entries = written(held, manager, struct_changes(old, new, shape), Time(now), ignored)
        assert entries == expected
        old = new


def test_an_entry_that_a_write_leaves_alone_stays_the_very_same() -> None:
    manager = Manager("ann", UPDATE, "v1")
    old, new = Pod(), from_dict(Pod, {"metadata": {"finalizers": ["f"]}})
    held = plain_sets(APPLIED, manager)
    assert held is not None
    assert isinstance(SHAPE, StructShape)
    after = written(held, manager, struct_changes(old, new, SHAPE), Time(9), field_set(()))
    assert after[0] is APPLIED[0]
    assert [entry.manager for entry in after] == ["cy", "ann"]


@pytest.mark.parametrize(
    "entries",
    [
        (replace(APPLIED[0], api_version="v0"),),
        (replace(APPLIED[0], fields_type="FieldsV2"),),
        (replace(APPLIED[0], fields_v1=None),),
        (replace(APPLIED[0], fields_v1=RawJSON(b"[]")),),
        (replace(APPLIED[0], fields_v1=RawJSON(b'{".":{}}')),),
        (replace(APPLIED[0], fields_v1=RawJSON(b'{"f:a": {}}')),),
        (APPLIED[0], replace(APPLIED[0], time=Time(6))),
        tuple(replace(APPLIED[0], manager=f"m{n}") for n in range(UPDATE_LIMIT)),
    ],
)
def test_entries_of_any_other_sort_are_not_for_plain_writes(entries: Entries) -> None:
    assert plain_sets(entries, Manager("ann", UPDATE, "v1")) is None
