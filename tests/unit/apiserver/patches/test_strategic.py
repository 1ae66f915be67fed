"""Strategic merge patch: lists merge by key, directives, and the errors of what cannot be merged."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.decoding.gotypes import go_type_of
from cathedra.api.scheme import GroupVersionKind
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.patches.strategic import (
    ListOfListsError,
    PatchFormatError,
    StrategicPatchError,
    strategic_patch,
    unrestorable,
)
from tests.costs import costs_less_than

SHAPE = struct_shape(Pod)


def patched(original: Any, patch: Any) -> Any:
    return strategic_patch(original, patch, SHAPE)


def containers(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "image": "old"} for name in names]


def test_elements_merge_by_key_and_new_ones_come_first() -> None:
    after = patched(
        {"spec": {"containers": containers("a", "b")}},
        {"spec": {"containers": [{"name": "c"}, {"name": "b", "image": "new"}]}},
    )
    assert [(item["name"], item.get("image")) for item in after["spec"]["containers"]] == [
        ("c", None),
        ("a", "old"),
        ("b", "new"),
    ]


def test_elements_are_deleted_and_lists_replaced() -> None:
    original = {"spec": {"containers": containers("a", "b")}}
    assert patched(original, {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}) == {
        "spec": {"containers": containers("b")}
    }
    assert patched(original, {"spec": {"containers": [{"name": "n"}, {"$patch": "replace"}]}}) == {
        "spec": {"containers": [{"name": "n"}]}
    }


def test_the_order_of_a_list_can_be_set() -> None:
    order = [{"name": "b"}, {"name": "a"}]
    after = patched(
        {"spec": {"containers": containers("a", "b", "c")}}, {"spec": {"$setElementOrder/containers": order}}
    )
    assert [item["name"] for item in after["spec"]["containers"]] == ["b", "a", "c"]


def test_primitive_lists_merge_and_lose_what_is_named() -> None:
    original = {"metadata": {"finalizers": ["a", "b"]}}
    assert patched(original, {"metadata": {"finalizers": ["c"]}}) == {"metadata": {"finalizers": ["c", "a", "b"]}}
    assert patched(original, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}) == {
        "metadata": {"finalizers": ["b"]}
    }


@pytest.mark.parametrize(
    ("patch", "error"),
    [
        ({"metadata": {"finalizers": [[1]]}}, ListOfListsError),
        ({"metadata": {"finalizers": [1]}}, StrategicPatchError),
        ({"metadata": {"finalizers": [None]}}, StrategicPatchError),
        ({"metadata": {"finalizers": [{"a": 1}]}}, StrategicPatchError),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": 1}}, PatchFormatError),
        ({"$patch": []}, StrategicPatchError),
        ({"$patch": {}}, StrategicPatchError),
        ({"spec": {"containers": [{"name": "a", "$patch": [1]}]}}, StrategicPatchError),
        ({"spec": {"containers": [{"image": "x"}]}}, StrategicPatchError),
        ({"spec": {"$retainKeys": 1}}, PatchFormatError),
        ({"spec": {"$retainKeys": [], "nodeName": "x"}}, PatchFormatError),
    ],
)
def test_what_cannot_be_merged(patch: Any, error: type[Exception]) -> None:
    original = {"metadata": {"finalizers": ["a"]}, "spec": {"containers": containers("a")}}
    with pytest.raises(error):
        patched(original, patch)


def test_keys_of_elements_that_are_no_scalars_are_compared_all_the_same() -> None:
    odd = [{"name": [1]}, {"name": {"a": 1}}, {"name": True}, {"name": 1}]
    after = patched({"spec": {"containers": odd}}, {"spec": {"containers": [{"name": [1], "image": "x"}]}})
    assert len(after["spec"]["containers"]) == 4
    assert {"name": [1], "image": "x"} in after["spec"]["containers"]


def test_large_lists_merge_within_two_seconds() -> None:
    many = containers(*map(str, range(40_000)))
    order = [{"name": str(number)} for number in reversed(range(40_000))]
    finalizers = [f"f{number}" for number in range(100_000)]
    with costs_less_than(2.0):
        patched(
            {"metadata": {"finalizers": finalizers}, "spec": {"containers": many}},
            {
                "metadata": {"finalizers": finalizers[::-1], "$deleteFromPrimitiveList/finalizers": finalizers[::2]},
                "spec": {"containers": many[::-1], "$setElementOrder/containers": order},
            },
        )


POD = go_type_of(GroupVersionKind("", "v1", "Pod"))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"metadata": {"labels": {"a": "b"}}, "spec": {"priority": 3}}, ""),
        ({"metadata": "x"}, "cannot restore struct from: string"),
        ({"metadata": {"labels": []}}, "cannot restore map from slice"),
        ({"metadata": {"labels": {"a": 5}}}, "cannot convert int64 to string"),
        ({"metadata": {"labels": {"a": True}}}, "unrecognized type: string"),
        ({"spec": {"containers": {}}}, "cannot restore slice from map"),
        ({"spec": {"hostNetwork": "yes"}}, "unrecognized type: bool"),
        ({"spec": {"priority": "high"}}, "unrecognized type: int32"),
        ({"spec": {"priority": 1.5}}, "cannot convert float64 to int32"),
        ({"spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}}, ""),
    ],
)
def test_the_first_misfit_is_told(value: dict[str, Any], why: str) -> None:
    """Values with a decoder of their own (the last case) are JSON's business."""
    assert unrestorable(value, POD) == why
