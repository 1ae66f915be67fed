"""Two states of an object compared as structs: the same as comparing their JSON."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ConfigMap, Event, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import EMPTY_LIST, from_dict, replace
from cathedra.apiserver.ownership.comparison import Changes, Comparison
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.structs import struct_changes
from cathedra.apiserver.ownership.views import View, differences
from cathedra.apiserver.patches.schema import StructShape, struct_shape
from tests.unit.apiserver.ownership.test_views import NAMES, PODS

RESULTS = st.lists(
    st.fixed_dictionaries(
        {"request": NAMES, "driver": NAMES, "pool": NAMES, "device": NAMES},
        optional={"adminAccess": st.booleans(), "consumedCapacity": st.dictionaries(NAMES, st.just("1"))},
    ),
    max_size=2,
)
DEVICES = st.lists(
    st.fixed_dictionaries(
        {"driver": NAMES, "pool": NAMES, "device": NAMES},
        optional={
            "shareID": NAMES,
            "data": st.dictionaries(NAMES, st.sampled_from([1, 1.0, True]), max_size=2),
            "networkData": st.fixed_dictionaries({}, optional={"ips": st.lists(NAMES, max_size=2)}),
        },
    ),
    max_size=2,
    unique_by=lambda one: (one["driver"], one["pool"], one["device"]),
)
CLAIMS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "finalizers": st.lists(NAMES, unique=True),
                "ownerReferences": st.lists(st.fixed_dictionaries({"uid": NAMES, "name": NAMES}), max_size=2),
                "deletionTimestamp": st.sampled_from(["2026-01-01T00:00:00Z", None]),
            },
        ),
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "devices": st.fixed_dictionaries(
                    {}, optional={"requests": st.lists(st.fixed_dictionaries({"name": NAMES}), max_size=2)}
                )
            },
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "allocation": st.fixed_dictionaries(
                    {}, optional={"devices": st.fixed_dictionaries({}, optional={"results": RESULTS})}
                ),
                "reservedFor": st.lists(
                    st.fixed_dictionaries({"uid": NAMES, "name": NAMES}), max_size=3, unique_by=lambda one: one["uid"]
                ),
                "devices": DEVICES,
            },
        ),
    },
)

KEYS = st.one_of(NAMES, st.sampled_from([f"k{n}" for n in range(12)]))
CONFIG_MAPS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries(
            {},
            optional={
                "name": NAMES,
                "generateName": NAMES,
                "labels": st.dictionaries(KEYS, NAMES),
                "annotations": st.dictionaries(KEYS, NAMES),
                "finalizers": st.lists(NAMES, max_size=2, unique=True),
            },
        ),
        "data": st.dictionaries(KEYS, st.sampled_from("xy"), max_size=12),
        "binaryData": st.dictionaries(KEYS, st.sampled_from(["eA==", "eQ=="])),
        "immutable": st.booleans(),
    },
)


def both_ways(old: KubeObject, new: KubeObject) -> tuple[Changes, Changes]:
    shape = struct_shape(type(old))
    assert isinstance(shape, StructShape)
    as_json = Comparison.below(differences(View.of(old, shape), View.of(new, shape)))
    return struct_changes(old, new, shape), as_json.changes


@settings(max_examples=200)
@given(PODS, PODS)
def test_pods_differ_as_their_json_does(old: Any, new: Any) -> None:
    found, expected = both_ways(from_dict(Pod, old), from_dict(Pod, new))
    assert found == expected


@settings(max_examples=300)
@given(CLAIMS, CLAIMS)
def test_claims_differ_as_their_json_does(old: Any, new: Any) -> None:
    found, expected = both_ways(from_dict(ResourceClaim, old), from_dict(ResourceClaim, new))
    assert found == expected


@settings(max_examples=300)
@given(CONFIG_MAPS, CONFIG_MAPS)
def test_maps_of_scalars_differ_as_their_json_does(old: Any, new: Any) -> None:
    found, expected = both_ways(from_dict(ConfigMap, old), from_dict(ConfigMap, new))
    assert found == expected


def test_the_same_keys_are_the_very_same_set() -> None:
    before, after, later = (ConfigMap(data={"a": text, "b": "same"}) for text in "xyz")
    shape = struct_shape(ConfigMap)
    assert struct_changes(before, after, shape)[0] is struct_changes(after, later, shape)[0]


def test_what_is_empty_is_left_out_also_where_it_was_spelled_out() -> None:
    claim = ResourceClaim()
    empty = replace(claim, metadata=replace(claim.metadata, labels={}))
    spelled = replace(claim, metadata=replace(claim.metadata, finalizers=EMPTY_LIST))
    for old, new in ((claim, empty), (empty, claim)):
        found, expected = both_ways(old, new)
        assert found == expected
    for old, new in ((claim, spelled), (spelled, claim)):
        assert struct_changes(old, new, struct_shape(ResourceClaim)) == (FieldSet(), FieldSet())


def test_what_was_decoded_twice_does_not_differ() -> None:
    values = {"message": "m", "involvedObject": {"uid": "u"}, "eventTime": "2026-01-01T00:00:00.000000Z"}
    found, expected = both_ways(from_dict(Event, values), from_dict(Event, values))
    assert found == expected == (FieldSet(), FieldSet())
