"""What a patch leaves alone is taken over as it is, and the object is the same as if it had been read."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.decoding import decode_values
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.ownership.keeping import kept_fields, with_kept
from cathedra.apiserver.ownership.views import View
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.request import Call
from cathedra.kinds.served import all_definitions

DEFINITION = next(one for one in all_definitions(FeatureGates.for_release()) if one.plural == "pods")
CALL = Call(
    user=UserInfo("ann"),
    verb="patch",
    definition=DEFINITION,
    version=DEFINITION.versions[0],
    namespace="ns",
    name="p",
    subresource="status",
)
TEXTS = st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x"]), max_size=2)
SPEC = st.fixed_dictionaries(
    {"containers": st.just([{"name": "c", "resources": {"requests": {"memory": "1024Mi", "cpu": "100m"}}}])},
    optional={"nodeSelector": TEXTS, "nodeName": st.just("n")},
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "phase": st.sampled_from(["Pending", "Running"]),
        "nominatedNodeName": st.just("n"),
        "conditions": st.lists(st.just({"type": "Ready", "status": "True"}), max_size=1),
    },
)
PODS = st.fixed_dictionaries({"metadata": st.just({"name": "p", "labels": {"a": "b"}})}, optional={"spec": SPEC})
PATCHES = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.just({"uid": "u"}),
        "spec": st.one_of(st.none(), SPEC),
        "status": st.one_of(st.none(), STATUS),
    },
)


def live(values: dict[str, Any]) -> tuple[Pod, View]:
    pod = from_dict(Pod, values)
    return pod, View(encode(pod), struct_shape(Pod))


@settings(max_examples=150)
@given(PODS, STATUS, PATCHES)
def test_what_is_kept_and_what_is_read_make_the_object_that_all_values_describe(
    values: dict[str, Any], status: dict[str, Any], patch: dict[str, Any]
) -> None:
    pod, view = live(values | {"status": status})
    after = merge_patch(view.value, patch)
    kept = kept_fields(CALL, view, after)
    rest = {key: value for key, value in after.items() if key not in kept}
    made = with_kept(decode_values(Pod, CALL.gvk, rest).object, kept, pod)
    assert made == decode_values(Pod, CALL.gvk, after).object
    assert encode(made) == encode(decode_values(Pod, CALL.gvk, after).object)


def test_a_field_that_the_patch_leaves_alone_is_the_live_one() -> None:
    pod, view = live({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    kept = kept_fields(CALL, view, merge_patch(view.value, {"status": {"phase": "Running"}}))
    assert kept == {"spec"}
    assert with_kept(Pod(), kept, pod).spec is pod.spec


def test_maps_out_of_order_are_read() -> None:
    _, view = live({"spec": {"nodeSelector": {"b": "", "a": ""}}})
    assert kept_fields(CALL, view, view.value) == {"status"}


def test_what_the_release_does_not_know_is_no_field_of_it() -> None:
    pod = Pod(status=from_dict(Pod, {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}}).status)
    view = View(encode(pod), struct_shape(Pod))
    assert view.has_known_fields("status", CALL.gvk, "1.37")
    assert not view.has_known_fields("status", CALL.gvk, "1.30")
