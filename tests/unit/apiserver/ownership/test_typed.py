"""Errors of values that do not match the schema of a kind, with the texts of structured merge."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.core_v1 import ConfigMap, Pod
from cathedra.api.resource import ResourceSlice
from cathedra.api.struct import KubeStruct
from cathedra.apiserver.ownership.typed import check, elements, merge
from cathedra.apiserver.patches.schema import STRING, DocumentShape, ListShape, struct_shape
from tests.costs import costs_less_than

CASES: list[tuple[type[KubeStruct], Any, list[str]]] = [
    (ConfigMap, {"data": {"a": 1}}, [".data.a: expected string, got &value.valueUnstructured{Value:1}"]),
    (ConfigMap, {"data": {"a": False}}, [".data.a: expected string, got &value.valueUnstructured{Value:false}"]),
    (
        ConfigMap,
        {"data": {"a": {"b": ["c"]}}},
        [
            ".data.a: expected string, got &value.valueUnstructured"
            '{Value:map[string]interface {}{"b":[]interface {}{"c"}}}'
        ],
    ),
    (ConfigMap, {"data": [1]}, [".data: expected map, got &{[1]}"]),
    (ConfigMap, {"immutable": "yes"}, [".immutable: expected boolean, got &{yes}"]),
    (Deployment, {"spec": {"replicas": "x"}}, [".spec.replicas: expected numeric (int or float), got string"]),
    (Deployment, {"spec": {"replicas": [1]}}, [".spec.replicas: expected numeric (int or float), got []interface {}"]),
    (Deployment, {"spec": {"replicas": None}}, []),
    (
        Pod,
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": {"a": 1}, "memory": True}}}]}},
        ['.spec.containers[name="c"].resources.limits.cpu: expected any scalar, got &{map[a:1]}'],
    ),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), CASES)
def test_misfits_are_told_with_their_path(kind: type[KubeStruct], value: Any, wanted: list[str]) -> None:
    assert check(value, struct_shape(kind)) == wanted


@given(
    st.dictionaries(st.sampled_from("ab"), st.one_of(st.text(), st.integers(), st.booleans(), st.none()), min_size=1)
)
def test_elements_of_lists_are_named_by_json_without_blanks(item: dict[str, Any]) -> None:
    by_keys = ListShape(DocumentShape(), list_type="map", keys=("a", "b"))
    spelled = json.dumps(item, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    assert [element for element, _ in elements([item], by_keys)] == [f"k:{spelled}"]
    assert [element for element, _ in elements(list(item.values()), ListShape(STRING, list_type="set"))] == [
        f"v:{json.dumps(value, ensure_ascii=False)}" for value in item.values()
    ]


def test_a_hundred_misfits_are_told_and_long_keys_in_their_paths_are_cut() -> None:
    device = {"name": "d", "attributes": {"k" * 500_000: {"strings": [1] * 5000}}}
    problems = check({"spec": {"devices": [device]}}, struct_shape(ResourceSlice))
    assert len(problems) == 100
    assert max(map(len, problems)) < 1000
    assert problems[-1].startswith(".spec.devices[0].attributes.kkk")
    assert ".strings[99]: expected string" in problems[-1]


@given(st.lists(st.integers(0, 9), unique=True), st.lists(st.integers(0, 9), unique=True))
def test_the_applied_order_leads_and_nothing_is_lost(live: list[int], applied: list[int]) -> None:
    shape = ListShape(STRING, list_type="set")
    merged = merge(live, applied, shape)
    assert sorted(merged) == sorted({*live, *applied})
    assert [one for one in merged if one in applied] == applied


def test_long_lists_are_merged_in_one_pass() -> None:
    shape = ListShape(STRING, list_type="set")
    live, applied = list(range(200_000)), list(range(100_000, 300_000))
    with costs_less_than(6):
        assert len(merge(live, applied, shape)) == 300_000
