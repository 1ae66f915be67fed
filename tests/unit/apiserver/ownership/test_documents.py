"""Two documents compared along the shape of their kind: the fields that are set and removed, whatever is remembered."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.decoding import has_known_fields
from cathedra.api.field import go_values
from cathedra.api.resource import ResourceClaim
from cathedra.api.scheme import kind_of
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.ownership.documents import (
    REMEMBERED_PART,
    View,
    _is_plain,
    changes,
    differences,
    is_plain,
)
from cathedra.apiserver.ownership.fieldset import NOTHING, FieldSet
from cathedra.apiserver.ownership.typed import field_shape
from cathedra.apiserver.patches.schema import (
    LEAF,
    NUMERIC,
    STRING,
    DocumentShape,
    ListShape,
    MapShape,
    struct_shape,
    without_nulls,
)
from tests.requirements import with_memos

ELEMENT = DocumentShape({"n": STRING, "v": NUMERIC})
SHAPE = DocumentShape(
    {
        "a": STRING,
        "labels": MapShape(STRING),
        "keyed": ListShape(ELEMENT, list_type="map", keys=("n",)),
        "tags": ListShape(STRING, list_type="set"),
        "whole": ListShape(LEAF, list_type="atomic"),
    }
)
NAMES = st.sampled_from(["x", "y", "z"])
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "a": NAMES,
        "labels": st.dictionaries(NAMES, NAMES),
        "keyed": st.lists(st.fixed_dictionaries({"n": NAMES, "v": st.integers(0, 2)}), unique_by=lambda e: e["n"]),
        "tags": st.lists(NAMES, unique=True),
        "whole": st.lists(st.integers(0, 2)),
    },
)


def paths(found: FieldSet) -> list[tuple[str, ...]]:
    return list(found.paths())


@given(VALUES)
def test_a_value_does_not_differ_from_itself(value: dict[str, Any]) -> None:
    assert changes(value, dict(value), SHAPE) == (NOTHING, NOTHING)


@given(VALUES, VALUES)
def test_what_one_direction_removes_the_other_sets(old: dict[str, Any], new: dict[str, Any]) -> None:
    touched, removed = changes(old, new, SHAPE)
    back_touched, back_removed = changes(new, old, SHAPE)
    assert set(paths(removed)) <= set(paths(back_touched))
    assert set(paths(touched)) - set(paths(back_removed)) == set(paths(back_touched)) - set(paths(removed))


def test_an_element_of_a_keyed_list_is_known_by_its_key() -> None:
    old = {"keyed": [{"n": "x", "v": 1}, {"n": "y", "v": 1}]}
    touched, removed = changes(old, {"keyed": [{"n": "y", "v": 2}]}, SHAPE)
    assert paths(touched) == [("f:keyed", 'k:{"n":"y"}', "f:v")]
    assert ("f:keyed", 'k:{"n":"x"}') in paths(removed)


def test_an_atomic_list_changes_as_a_whole() -> None:
    touched, removed = changes({"whole": [1, 2]}, {"whole": [1, 3]}, SHAPE)
    assert (paths(touched), removed.empty) == ([("f:whole",)], True)


def test_a_number_that_becomes_a_boolean_is_modified() -> None:
    assert paths(changes(1, True, LEAF)[0]) == [()]
    touched, _ = changes({"x": {"y": [1]}}, {"x": {"y": [True]}}, DocumentShape({"x": MapShape(LEAF)}))
    assert paths(touched) == [("f:x", "f:y")]
    assert changes({"x": 1}, {"x": 1.0}, MapShape(LEAF)) == (NOTHING, NOTHING)


def test_a_list_that_becomes_null_changes_as_one_field() -> None:
    assert paths(changes({"tags": []}, {"tags": None}, SHAPE)[0]) == [("f:tags",)]


@given(st.dictionaries(NAMES, NAMES), st.dictionaries(NAMES, NAMES))
def test_fields_of_a_map_differ_if_their_values_do(old: dict[str, str], new: dict[str, str]) -> None:
    touched, removed = changes({"labels": {**old, "k": "v"}}, {"labels": {**new, "k": "v"}}, SHAPE)
    wanted = {key for key in new if old.get(key) != new[key]}
    assert set(paths(touched)) == {("f:labels", f"f:{name}") for name in wanted}
    assert set(paths(removed)) == {("f:labels", f"f:{name}") for name in old.keys() - new.keys()}


POD_SHAPE = struct_shape(Pod)
TEXTS = st.sampled_from(["a", "b", 'c"\u00e9', "a-bcdfg", "a-b2456"])
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=2)
AMOUNTS = st.dictionaries(TEXTS, st.sampled_from(["1", "1000m", "1.5Gi"]), max_size=2)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": TEXTS},
        optional={
            "tty": st.booleans(),
            "args": st.lists(TEXTS, max_size=2),
            "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS}),
        },
    ),
    max_size=3,
    unique_by=lambda container: container["name"],
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": MAPS, "finalizers": st.lists(TEXTS, unique=True)}),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": CONTAINERS, "nodeSelector": MAPS, "activeDeadlineSeconds": st.integers(0, 2)}
        ),
        "status": st.fixed_dictionaries({}, optional={"startTime": st.just("2026-01-01T00:00:00Z"), "phase": TEXTS}),
    },
)


@settings(max_examples=100)
@given(PODS, PODS, st.booleans())
def test_the_differences_of_parts_are_those_of_the_whole(old: Any, new: Any, large: bool) -> None:
    if large:
        new = {**new, "spec": {"nodeName": "n" * REMEMBERED_PART}}
    assert differences(View.of(old, POD_SHAPE), View.of(new, POD_SHAPE)) == changes(old, new, POD_SHAPE)


@settings(max_examples=100)
@given(PODS)
def test_a_plain_field_keeps_its_json_when_it_is_decoded_to_plain_values_and_encoded(values: Any) -> None:
    pod = from_dict(Pod, values)
    view = View.of(pod, POD_SHAPE)
    again = to_dict(from_dict(Pod, go_values(without_nulls(view.value, POD_SHAPE))))
    for key, value in view.value.items():
        assert json.dumps(again[key]) == json.dumps(value) or not view.is_plain(key)


def test_maps_out_of_order_are_not_plain() -> None:
    view = View.of({"spec": {"nodeSelector": {"b": "", "a": ""}}, "status": {"phase": "", "hostIP": ""}}, POD_SHAPE)
    assert not view.is_plain("spec")
    assert view.is_plain("status")


def test_opaque_parts_are_not_plain() -> None:
    opaque = {"config": [{"opaque": {"driver": "d", "parameters": {"b": 1.0, "a": 2}}}]}
    claim = View.of({"spec": {"devices": opaque}, "status": {"devices": []}}, struct_shape(ResourceClaim))
    assert not claim.is_plain("spec")
    assert claim.is_plain("status")


@settings(max_examples=100)
@given(st.lists(PODS, max_size=5), st.booleans())
def test_generated_suffixes_do_not_matter_to_the_checks_of_a_part(pods: list[Any], unknown: bool) -> None:
    gvk = kind_of(Pod)
    for values in pods:
        if unknown and "spec" in values:
            values = {**values, "spec": {**values["spec"], "nodeSelector-bcdfg": "a-bcdfg"}}
        view = View.of(values, POD_SHAPE)
        for key, value in values.items():
            assert view.is_plain(key) == is_plain(value, field_shape(POD_SHAPE, key))
            assert view.has_known_fields(key, gvk, "1.37") == has_known_fields({key: value}, gvk)


@with_memos
def test_specs_of_pods_that_differ_in_a_generated_suffix_are_checked_once() -> None:
    def view(name: str) -> View:
        return View.of({"spec": {"volumes": [{"name": name}]}}, POD_SHAPE)

    assert view("kube-api-access-bcdfg").is_plain("spec")
    before = _is_plain.cache_info().misses
    assert view("kube-api-access-zxwvt").is_plain("spec")
    assert _is_plain.cache_info().misses == before
