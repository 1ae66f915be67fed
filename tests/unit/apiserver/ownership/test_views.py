"""Two states of an object compared as JSON: the same as comparing their values, whatever is remembered."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.decoding import has_known_fields
from cathedra.api.goform import go_values
from cathedra.api.resource import ResourceClaim
from cathedra.api.scheme import kind_of
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.ownership.comparison import outline
from cathedra.apiserver.ownership.typed import field_shape
from cathedra.apiserver.ownership.views import REMEMBERED_PART, View, _plain, differences, is_plain
from cathedra.apiserver.patches.schema import struct_shape, without_nulls
from cathedra.releases import NEWEST

SHAPE = struct_shape(Pod)
NAMES = st.sampled_from(["a", "b", 'c"\u00e9', "a-bcdfg", "a-b2456"])
TEXTS = st.dictionaries(NAMES, NAMES, max_size=2)
AMOUNTS = st.dictionaries(NAMES, st.sampled_from(["1", "1000m", "1.5Gi"]), max_size=2)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES},
        optional={
            "tty": st.booleans(),
            "args": st.lists(NAMES, max_size=2),
            "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS}),
        },
    ),
    max_size=3,
    unique_by=lambda container: container["name"],
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"labels": TEXTS, "finalizers": st.lists(NAMES, unique=True)}),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": CONTAINERS, "nodeSelector": TEXTS, "activeDeadlineSeconds": st.integers(0, 2)}
        ),
        "status": st.fixed_dictionaries({}, optional={"startTime": st.just("2026-01-01T00:00:00Z"), "phase": NAMES}),
    },
)


@settings(max_examples=100)
@given(PODS, PODS, st.booleans())
def test_the_parts_are_those_of_the_outline(old: Any, new: Any, large: bool) -> None:
    if large:
        new = {**new, "spec": {"nodeName": "n" * REMEMBERED_PART}}
    _, whole = outline(old, new, SHAPE) or ("", ())
    assert differences(View.of(old, SHAPE), View.of(new, SHAPE)) == dict(whole)


@settings(max_examples=100)
@given(PODS)
def test_what_is_plain_is_spelled_the_same_after_a_way_through_plain_values(values: Any) -> None:
    pod = from_dict(Pod, values)
    view = View.of(pod, SHAPE)
    again = to_dict(from_dict(Pod, go_values(without_nulls(view.value, SHAPE))))
    for key, value in view.value.items():
        assert json.dumps(again[key]) == json.dumps(value) or not view.is_plain(key)


def test_maps_out_of_order_are_not_plain() -> None:
    view = View.of({"spec": {"nodeSelector": {"b": "", "a": ""}}, "status": {"phase": "", "hostIP": ""}}, SHAPE)
    assert not view.is_plain("spec")
    assert view.is_plain("status")


def test_opaque_parts_are_not_plain() -> None:
    opaque = {"config": [{"opaque": {"driver": "d", "parameters": {"b": 1.0, "a": 2}}}]}
    claim = View.of({"spec": {"devices": opaque}, "status": {"devices": []}}, struct_shape(ResourceClaim))
    assert not claim.is_plain("spec")
    assert claim.is_plain("status")


@settings(max_examples=100)
@given(st.lists(PODS, max_size=5), st.booleans())
def test_a_part_is_judged_by_all_but_the_names_that_the_server_has_made_up(pods: list[Any], unknown: bool) -> None:
    gvk = kind_of(Pod)
    for values in pods:
        if unknown and "spec" in values:
            values = {**values, "spec": {**values["spec"], "nodeSelector-bcdfg": "a-bcdfg"}}
        view = View.of(values, SHAPE)
        for key, value in values.items():
            assert view.is_plain(key) == is_plain(value, field_shape(SHAPE, key))
            assert view.has_known_fields(key, gvk, NEWEST) == has_known_fields({key: value}, gvk)


def test_the_specs_of_pods_that_differ_in_a_name_of_the_servers_making_are_judged_once() -> None:
    def view(name: str) -> View:
        return View.of({"spec": {"volumes": [{"name": name}]}}, SHAPE)

    assert view("kube-api-access-bcdfg").is_plain("spec")
    before = _plain.cache_info().misses
    assert view("kube-api-access-zxwvt").is_plain("spec")
    assert _plain.cache_info().misses == before
