"""What the creator of an object owns, worked out part by part, is what a comparison with an empty one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import Time, encode, from_dict
from cathedra.apiserver.ownership.creation import REMEMBERED_PART, created
from cathedra.apiserver.ownership.managers import REMEMBERED_SIZE, UPDATE, ManagedFields, Manager
from cathedra.apiserver.ownership.resets import field_set
from cathedra.apiserver.ownership.typed import TypedError
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.schema import struct_shape

SHAPE = struct_shape(ResourceClaim)
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


def empty(kind: type[Any]) -> View:
    return View(encode(kind()), struct_shape(kind))


def compared_with_empty(kind: type[Any], view: View) -> ManagedFields:
    return ManagedFields({}).update(MANAGER, empty(kind), view, Time(7), IGNORED, lambda *_: None)


def taken_apart(kind: type[Any], view: View) -> ManagedFields:
    return created(MANAGER, empty(kind), view, Time(7), IGNORED)


@settings(max_examples=150)
@given(PODS, st.booleans())
def test_a_creator_owns_what_a_comparison_with_an_empty_one_says(values: dict[str, Any], large: bool) -> None:
    if large:
        values["metadata"]["annotations"] = {f"k{n}": "x" * 40 for n in range(REMEMBERED_SIZE // 40)}
    for body in (encode(values), encode(from_dict(Pod, values))):
        view = View(body, struct_shape(Pod))
        for _ in range(2):
            assert taken_apart(Pod, view).entries() == compared_with_empty(Pod, view).entries()


def test_a_large_field_is_worked_out_each_time() -> None:
    values = {"metadata": {"labels": {f"k{n}": "x" * 40 for n in range(REMEMBERED_PART // 40)}}}
    view = View(encode(values), struct_shape(Pod))
    assert taken_apart(Pod, view).entries() == compared_with_empty(Pod, view).entries()


def test_claims_of_different_pods_have_their_own_owners() -> None:
    for uid in ("1", "2"):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        claim = {"metadata": {"generateName": "p-", "ownerReferences": [owner]}, "spec": {"devices": {}}}
        view = View(encode(from_dict(ResourceClaim, claim)), struct_shape(ResourceClaim))
        assert taken_apart(ResourceClaim, view).entries() == compared_with_empty(ResourceClaim, view).entries()


def test_what_nothing_is_spelled_of_has_no_owner() -> None:
    view = View(b'{"metadata":{"name":"n"},"status":{"phase":"Pending"}}', struct_shape(Pod))
    assert taken_apart(Pod, view).managers == {}


def test_an_element_without_its_key_is_refused_as_in_a_comparison() -> None:
    view = View(b'{"metadata":{"ownerReferences":["x"]}}', struct_shape(Pod))
    for work_out in (compared_with_empty, taken_apart):
        with pytest.raises(TypedError):
            work_out(Pod, view)


def test_what_every_object_of_a_kind_has_is_not_taken_itself() -> None:
    view = View(encode(from_dict(ResourceClaim, {"spec": {"devices": {"requests": [{"name": "r"}]}}})), SHAPE)
    (entry,) = taken_apart(ResourceClaim, view).entries()
    assert entry.fields_v1 is not None
    assert entry.fields_v1.load() == {"f:spec": {"f:devices": {"f:requests": {}}}}
