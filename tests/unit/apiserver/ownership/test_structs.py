"""Two states of an object compared as structs give the fields that a comparison of their JSON gives, for every kind."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ConfigMap, Event, Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import EMPTY_LIST, KubeStruct, from_dict, replace
from cathedra.apiserver.ownership.documents import View, differences
from cathedra.apiserver.ownership.fieldset import Changes, FieldSet, fields_at, tracked_part
from cathedra.apiserver.ownership.structs import REMEMBERED_PART, created_fields, struct_changes, tracked_places
from cathedra.apiserver.ownership.typed import TypedError
from cathedra.apiserver.patches.schema import StructShape, struct_shape
from tests.requirements import with_memos
from tests.unit.apiserver.ownership.objects import changed_object, kinds, random_object
from tests.unit.apiserver.ownership.test_documents import PODS

NAMES = st.sampled_from(["a", "b", 'c"\u00e9', "a-bcdfg", "a-b2456"])
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


IGNORED = fields_at(("status",))
TEXTS = st.dictionaries(st.sampled_from(["a", "b/c", 'd"e']), st.sampled_from(["", "x"]), max_size=2)
OWNERS = st.lists(
    st.fixed_dictionaries(
        {"uid": st.sampled_from(["1", "2", "ü"]), "name": st.just("o"), "kind": st.just("Pod")},
        optional={"controller": st.booleans()},
    ),
    max_size=2,
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "name": st.just("n"),
        "generateName": st.just("n-"),
        "uid": st.just("u"),
        "labels": TEXTS,
        "annotations": TEXTS,
        "ownerReferences": OWNERS,
        "finalizers": st.lists(st.sampled_from(["f", "g"]), max_size=2, unique=True),
        "deletionGracePeriodSeconds": st.just(0),
    },
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["c", "d"])},
        optional={
            "image": st.just("i"),
            "resources": st.just({"requests": {"cpu": "1"}, "claims": [{"name": "r"}]}),
            "command": st.just(["a"]),
        },
    ),
    max_size=2,
    unique_by=lambda container: container["name"],
)
NEW_PODS = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"nodeSelector": TEXTS}),
        "status": st.just({"phase": "Pending"}),
    },
)


def both_ways(old: KubeStruct, new: KubeStruct) -> tuple[Changes, Changes]:
    shape = shape_of(old)
    touched, removed = differences(View.of(old, shape), View.of(new, shape))
    return struct_changes(old, new, tracked_places(shape)), (tracked_part(touched), tracked_part(removed))


def shape_of(obj: KubeStruct) -> StructShape:
    shape = struct_shape(type(obj))
    assert isinstance(shape, StructShape)
    return shape


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}")
def test_objects_of_every_kind_differ_as_their_json_does(kind: type[KubeStruct]) -> None:
    random = Random(kind.__name__)
    for _ in range(25):
        old = random_object(kind, random)
        for new in (random_object(kind, random), changed_object(old, random)):
            try:
                found, expected = both_ways(old, new)
            except TypedError:
                continue
            assert found == expected


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}")
def test_the_creator_of_an_object_of_every_kind_owns_what_an_empty_one_lacks(kind: type[KubeStruct]) -> None:
    random = Random(kind.__name__)
    for _ in range(25):
        new = random_object(kind, random)
        for ignored in (IGNORED, fields_at(())):
            try:
                expected = compared_with_empty(new, ignored)
            except TypedError:
                continue
            for _ in range(2):
                assert created_fields(new, ignored) == expected


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


@with_memos
def test_equal_keys_share_one_set() -> None:
    before, after, later = (ConfigMap(data={"a": text, "b": "same"}) for text in "xyz")
    places = tracked_places(shape_of(before))
    assert struct_changes(before, after, places)[0] is struct_changes(after, later, places)[0]


def test_an_empty_list_or_map_has_no_owner_also_if_the_request_wrote_it() -> None:
    claim = ResourceClaim()
    empty = replace(claim, metadata=replace(claim.metadata, labels={}))
    spelled = replace(claim, metadata=replace(claim.metadata, finalizers=EMPTY_LIST))
    for old, new in ((claim, empty), (empty, claim)):
        found, expected = both_ways(old, new)
        assert found == expected
    for old, new in ((claim, spelled), (spelled, claim)):
        assert struct_changes(old, new, tracked_places(shape_of(claim))) == (FieldSet(), FieldSet())


def test_an_object_that_was_decoded_twice_does_not_differ() -> None:
    values = {"message": "m", "involvedObject": {"uid": "u"}, "eventTime": "2026-01-01T00:00:00.000000Z"}
    found, expected = both_ways(from_dict(Event, values), from_dict(Event, values))
    assert found == expected == (FieldSet(), FieldSet())


def compared_with_empty(obj: KubeStruct, ignored: FieldSet = IGNORED) -> FieldSet:
    shape = shape_of(obj)
    touched, _ = differences(View.of(type(obj)(), shape), View.of(obj, shape))
    return tracked_part(touched.without_subtrees(ignored))


def owned(obj: KubeStruct, ignored: FieldSet = IGNORED) -> FieldSet:
    return created_fields(obj, ignored)


@settings(max_examples=150)
@given(NEW_PODS, st.booleans())
def test_the_creator_of_a_pod_owns_what_an_empty_one_lacks(values: dict[str, Any], large: bool) -> None:
    if large:
        values["metadata"]["annotations"] = {f"k{n}": "x" * 40 for n in range(REMEMBERED_PART // 40)}
    pod = from_dict(Pod, values)
    for _ in range(2):
        assert owned(pod) == compared_with_empty(pod)


@given(st.sampled_from(["", "m"]), st.sampled_from([None, "2026-01-01T00:00:00.000000Z"]), TEXTS)
def test_a_field_that_is_always_written_is_owned_if_not_empty(message: str, time: str | None, labels: Any) -> None:
    involved = {"uid": message} if message else {}
    values = {"message": message, "eventTime": time, "involvedObject": involved, "metadata": {"labels": labels}}
    event = from_dict(Event, values)
    assert owned(event) == compared_with_empty(event)


@with_memos
def test_objects_with_the_same_fields_share_one_set() -> None:
    first, second = (from_dict(Event, {"message": text, "involvedObject": {"uid": text}}) for text in "ab")
    assert owned(first) is owned(second)


@settings(max_examples=300)
@given(CONFIG_MAPS, st.sampled_from([IGNORED, fields_at(()), fields_at(("data",))]))
def test_a_creator_owns_the_keys_of_maps_of_scalars(values: dict[str, Any], ignored: FieldSet) -> None:
    config = from_dict(ConfigMap, values)
    assert owned(config, ignored) == compared_with_empty(config, ignored)


@with_memos
def test_objects_with_equal_keys_in_their_maps_share_one_set() -> None:
    first, second = (from_dict(ConfigMap, {"metadata": {"labels": {"a": x}}, "data": {"b": x}}) for x in "xy")
    assert owned(first, fields_at(())) is owned(second, fields_at(()))


def test_an_object_of_a_name_alone_has_no_owner() -> None:
    assert owned(from_dict(ConfigMap, {"metadata": {"name": "n"}}), fields_at(())).empty


def test_claims_of_different_pods_have_their_own_owners() -> None:
    for uid in ("1", "2"):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        claim = from_dict(
            ResourceClaim, {"metadata": {"generateName": "p-", "ownerReferences": [owner]}, "spec": {"devices": {}}}
        )
        assert owned(claim) == compared_with_empty(claim)


def test_an_object_with_only_ignored_fields_has_no_owner() -> None:
    assert owned(from_dict(Pod, {"metadata": {"name": "n"}, "status": {"phase": "Pending"}})).empty


def test_a_field_that_every_object_of_a_kind_has_is_not_owned_itself() -> None:
    claim = from_dict(ResourceClaim, {"spec": {"devices": {"requests": [{"name": "r"}]}}})
    assert owned(claim).to_json() == {"f:spec": {"f:devices": {"f:requests": {}}}}
