"""What a patch leaves alone is taken over as it is, and the object is the same as if it had been read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.decoding import decode_values
from cathedra.api.decoding.gotypes import GoType, go_type_of
from cathedra.api.gates import RELEASES, FeatureGates
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.ownership.keeping import _has_fields_of, keeps_metadata, kept_fields, with_kept
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


OWNED = {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:nodeName": {}}}
ENTRIES = st.fixed_dictionaries(
    {
        "manager": st.just("m"),
        "operation": st.just("Update"),
        "apiVersion": st.just("v1"),
        "fieldsType": st.just("FieldsV1"),
        "fieldsV1": st.sampled_from([OWNED, dict(reversed(OWNED.items())), {"f:metadata": {"f:name": {}, ".": {}}}]),
    }
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("p")},
    optional={
        "labels": st.sampled_from([{"a": "1"}, {"a": "1", "b": ""}, {"b": "", "a": "1"}]),
        "annotations": st.sampled_from([{"c": "<&>"}, {"d": "", "c": ""}]),
        "creationTimestamp": st.sampled_from(["2026-01-02T03:04:05Z", "2026-01-02T05:04:05+02:00"]),
        "finalizers": st.just(["example.com/f"]),
        "managedFields": st.lists(ENTRIES, max_size=2),
    },
)


@settings(max_examples=150)
@given(METADATA, st.one_of(st.just({}), st.just({"metadata": {}}), st.just({"metadata": {"labels": {"z": "1"}}})))
def test_kept_metadata_are_those_that_their_values_describe(values: dict[str, Any], patch: dict[str, Any]) -> None:
    pod, view = live({"metadata": values})
    after = merge_patch(view.value, patch)
    if keeps_metadata(CALL, pod.metadata, view, after):
        read = decode_values(Pod, CALL.gvk, after).object
        assert read.metadata == pod.metadata
        assert encode(read) == encode(pod)


def test_metadata_that_a_patch_leaves_alone_are_kept() -> None:
    pod, view = live({"metadata": {"name": "p", "labels": {"a": "", "b": ""}, "managedFields": [{"fieldsV1": OWNED}]}})
    assert keeps_metadata(CALL, pod.metadata, view, merge_patch(view.value, {"status": {"phase": "Running"}}))
    assert not keeps_metadata(CALL, pod.metadata, view, merge_patch(view.value, {"metadata": {"labels": {"a": "1"}}}))


def test_metadata_that_would_be_spelled_anew_are_read() -> None:
    for values in (
        {"labels": {"b": "", "a": ""}},
        {"annotations": {"b": "", "a": ""}},
        {"managedFields": [{"manager": "m"}]},
        {"managedFields": [{"fieldsV1": dict(reversed(OWNED.items()))}]},
    ):
        pod, view = live({"metadata": {"name": "p"} | values})
        assert not keeps_metadata(CALL, pod.metadata, view, view.value)


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_keeps_metadata(release: str) -> None:
    pod, view = live({"metadata": {"name": "p", "managedFields": [{"fieldsV1": OWNED}]}})
    assert keeps_metadata(CALL.but(release=release), pod.metadata, view, view.value)


def test_metadata_are_read_if_the_release_lacks_a_field_of_them() -> None:
    known = go_type_of(CALL.gvk, "1.36").fields["metadata"]
    shape = struct_shape(ObjectMeta)
    assert _has_fields_of(known, shape)
    for missing in ("labels", "ownerReferences"):
        assert not _has_fields_of(
            GoType(known.form, known.name, {k: v for k, v in known.fields.items() if k != missing}), shape
        )
    owners = known.fields["ownerReferences"]
    assert owners.element is not None
    element = GoType(owners.form, owners.element.name, {"uid": owners.element.fields["uid"]})
    fields = known.fields | {"ownerReferences": GoType(owners.form, owners.name, element=element)}
    assert not _has_fields_of(GoType(known.form, known.name, fields), shape)


def test_maps_out_of_order_are_read() -> None:
    _, view = live({"spec": {"nodeSelector": {"b": "", "a": ""}}})
    assert kept_fields(CALL, view, view.value) == {"status"}


def test_what_the_release_does_not_know_is_no_field_of_it() -> None:
    pod = Pod(status=from_dict(Pod, {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}}).status)
    view = View(encode(pod), struct_shape(Pod))
    assert view.has_known_fields("status", CALL.gvk, "1.37")
    assert not view.has_known_fields("status", CALL.gvk, "1.30")
