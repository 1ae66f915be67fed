"""What the creator of an object owns, worked out part by part, is what a comparison with an empty one gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import ConfigMap, Event, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import Time, from_dict
from cathedra.apiserver.ownership.creation import REMEMBERED_PART, created
from cathedra.apiserver.ownership.fieldset import FieldSet
from cathedra.apiserver.ownership.managers import UPDATE, ManagedFields, Manager
from cathedra.apiserver.ownership.plainwrites import Entries
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import StructShape, struct_shape
from tests.unit.apiserver.ownership.test_structs import CONFIG_MAPS

MANAGER = Manager("ann", UPDATE, "v1")
IGNORED = field_set(("status",))
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
PODS = st.fixed_dictionaries(
    {"metadata": METADATA},
    optional={
        "spec": st.fixed_dictionaries({"containers": CONTAINERS}, optional={"nodeSelector": TEXTS}),
        "status": st.just({"phase": "Pending"}),
    },
)


def compared_with_empty(obj: KubeObject, ignored: FieldSet = IGNORED) -> ManagedFields:
    kind, shape = type(obj), struct_shape(type(obj))
    views = View.of(kind(), shape), View.of(obj, shape)
    return ManagedFields({}).update(MANAGER, *views, Time(7), ignored, lambda *_: None)


def taken_apart(obj: KubeObject, ignored: FieldSet = IGNORED) -> Entries:
    shape = struct_shape(type(obj))
    assert isinstance(shape, StructShape)
    return created(MANAGER, obj, shape, Time(7), ignored)


@settings(max_examples=150)
@given(PODS, st.booleans())
def test_a_creator_owns_what_a_comparison_with_an_empty_one_says(values: dict[str, Any], large: bool) -> None:
    if large:
        values["metadata"]["annotations"] = {f"k{n}": "x" * 40 for n in range(REMEMBERED_PART // 40)}
    pod = from_dict(Pod, values)
    for _ in range(2):
        assert taken_apart(pod) == compared_with_empty(pod).entries()


@given(st.sampled_from(["", "m"]), st.sampled_from([None, "2026-01-01T00:00:00.000000Z"]), TEXTS)
def test_what_is_always_written_is_owned_if_it_says_something(message: str, time: str | None, labels: Any) -> None:
    involved = {"uid": message} if message else {}
    values = {"message": message, "eventTime": time, "involvedObject": involved, "metadata": {"labels": labels}}
    event = from_dict(Event, values)
    assert taken_apart(event) == compared_with_empty(event).entries()


def test_objects_of_one_form_are_owned_by_the_very_same_set() -> None:
    first, second = (from_dict(Event, {"message": text, "involvedObject": {"uid": text}}) for text in "ab")
    (one,), (other,) = taken_apart(first), taken_apart(second)
    assert one.fields_v1 is other.fields_v1


@settings(max_examples=300)
@given(CONFIG_MAPS, st.sampled_from([IGNORED, field_set(()), field_set(("data",))]))
def test_a_creator_owns_the_keys_of_maps_of_scalars(values: dict[str, Any], ignored: FieldSet) -> None:
    config = from_dict(ConfigMap, values)
    assert taken_apart(config, ignored) == compared_with_empty(config, ignored).entries()


def test_objects_of_maps_with_the_same_keys_are_owned_by_the_very_same_set() -> None:
    first, second = (from_dict(ConfigMap, {"metadata": {"labels": {"a": x}}, "data": {"b": x}}) for x in "xy")
    (one,), (other,) = taken_apart(first, field_set(())), taken_apart(second, field_set(()))
    assert one.fields_v1 is other.fields_v1


def test_an_object_of_a_name_alone_has_no_owner() -> None:
    assert taken_apart(from_dict(ConfigMap, {"metadata": {"name": "n"}}), field_set(())) == ()


def test_claims_of_different_pods_have_their_own_owners() -> None:
    for uid in ("1", "2"):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        claim = from_dict(
            ResourceClaim, {"metadata": {"generateName": "p-", "ownerReferences": [owner]}, "spec": {"devices": {}}}
        )
        assert taken_apart(claim) == compared_with_empty(claim).entries()


def test_what_nothing_is_spelled_of_has_no_owner() -> None:
    assert taken_apart(from_dict(Pod, {"metadata": {"name": "n"}, "status": {"phase": "Pending"}})) == ()


def test_what_every_object_of_a_kind_has_is_not_taken_itself() -> None:
    claim = from_dict(ResourceClaim, {"spec": {"devices": {"requests": [{"name": "r"}]}}})
    (entry,) = taken_apart(claim)
    assert entry.fields_v1 is not None
    assert entry.fields_v1.load() == {"f:spec": {"f:devices": {"f:requests": {}}}}
