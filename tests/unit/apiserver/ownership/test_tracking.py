"""Owners after creates, updates and patches, also across versions, and what a patch leaves as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import ManagedFieldsEntry, ObjectMeta
from cathedra.api.decoding import decode_values
from cathedra.api.decoding.gotypes import GoType, go_type_of
from cathedra.api.status import failure
from cathedra.api.struct import RawJSON, encode, from_dict, replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.custom.objects import content, with_content
from cathedra.apiserver.ownership.documents import View
from cathedra.apiserver.ownership.managers import UPDATE_LIMIT
from cathedra.apiserver.ownership.tracking import (
    _has_fields_of,
    keeps_metadata,
    kept_fields,
    tracked,
    with_kept,
    with_other_versions,
)
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.request import Call
from cathedra.kinds.served import all_definitions
from cathedra.releases import RELEASES, FeatureGates
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.apiserver.custom.things import call as call_of
from tests.unit.apiserver.custom.things import kind, thing, version

# --- empty lists in requests
# Kubernetes compares Go values, in which an empty list with omitempty does not exist: no verb makes anyone own it
# (structured-merge-diff, value/reflectcache.go, CanOmit). An apply compares documents: its manager owns it.

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
DEVICES = [{"name": "gpu-0"}]


def slice_of(devices: Any, generation: int = 1) -> dict[str, Any]:
    pool = {"name": "p", "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n", "pool": pool}
    if devices is not None:
        spec["devices"] = devices
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s", "labels": {"a": "b"}},
        "spec": spec,
    }


async def created(asgi: ASGIClient, devices: Any, *, managers: int = 0) -> None:
    """Create a slice as manager ``first``; each further manager owns a label of its own."""
    assert (await asgi("POST", f"{SLICES}?fieldManager=first", slice_of(devices))).status == 201
    for number in range(managers):
        patch = {"metadata": {"labels": {f"l{number}": "x"}}}
        merge = "application/merge-patch+json"
        assert (await asgi("PATCH", f"{SLICES}/s?fieldManager=m{number}", patch, content_type=merge)).status == 200


def owners_of_devices(answer: Any) -> list[str]:
    assert answer.status < 300, answer.json
    entries = answer.json["metadata"]["managedFields"]
    return [entry["manager"] for entry in entries if "f:devices" in entry["fieldsV1"].get("f:spec", {})]


@pytest.mark.parametrize("devices", [[], None, DEVICES])
async def test_the_creator_of_a_slice_owns_its_devices_unless_there_are_none(devices: Any) -> None:
    body = slice_of(devices)
    entry = {"manager": "other", "operation": "Update", "apiVersion": "resource.k8s.io/v1", "fieldsType": "FieldsV1"}
    kept = {**body["metadata"], "name": "t", "managedFields": [{**entry, "fieldsV1": {"f:spec": {"f:driver": {}}}}]}
    async with open_asgi() as asgi:
        for one in (body, {**body, "metadata": kept}):
            made = await asgi("POST", f"{SLICES}?fieldManager=me", one)
            assert owners_of_devices(made) == (["me"] if devices else [])


@pytest.mark.parametrize(("data", "fields"), [({"a": "b"}, [{"f:data": {".": {}, "f:a": {}}}]), ({}, [])])
async def test_a_new_object_belongs_to_its_creator(data: dict[str, str], fields: list[Any]) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}
    async with open_asgi() as asgi:
        made = await asgi("POST", "/api/v1/namespaces/default/configmaps?fieldManager=me", body)
    entries = made.json["metadata"].get("managedFields", [])
    assert [(entry["manager"], entry["operation"]) for entry in entries] == [("me", "Update")] * len(fields)
    assert [entry["fieldsV1"] for entry in entries] == fields


@pytest.mark.parametrize("managers", [0, UPDATE_LIMIT + 1])
@pytest.mark.parametrize("before", [[], None, DEVICES])
@pytest.mark.parametrize("after", [[], None])
async def test_an_update_without_devices_leaves_them_without_owner(before: Any, after: Any, managers: int) -> None:
    async with open_asgi() as asgi:
        await created(asgi, before, managers=managers)
        assert owners_of_devices(await asgi("PUT", f"{SLICES}/s?fieldManager=me", slice_of(after, 2))) == []


@pytest.mark.parametrize("managers", [0, UPDATE_LIMIT + 1])
@pytest.mark.parametrize("before", [[], None, DEVICES])
@pytest.mark.parametrize("form", ["merge-patch", "strategic-merge-patch", "json-patch"])
async def test_a_patch_to_no_devices_leaves_them_without_owner(before: Any, form: str, managers: int) -> None:
    patch: Any = {"spec": {"devices": []}}
    if form == "json-patch":
        patch = [{"op": "add", "path": "/spec/devices", "value": []}]
    async with open_asgi() as asgi:
        await created(asgi, before, managers=managers)
        content_type = f"application/{form}+json"
        assert (
            owners_of_devices(await asgi("PATCH", f"{SLICES}/s?fieldManager=me", patch, content_type=content_type))
            == []
        )


async def test_an_update_in_another_version_leaves_an_empty_list_without_owner() -> None:
    entry = {"manager": "old", "operation": "Update", "apiVersion": "resource.k8s.io/v1beta1", "fieldsType": "FieldsV1"}
    owned = [{**entry, "fieldsV1": {"f:spec": {"f:devices": {}, "f:driver": {}}}}]
    body = slice_of([], 2)
    body["metadata"]["managedFields"] = owned
    config = ServerConfig(runtime_config={"resource.k8s.io/v1beta1": True})
    async with open_asgi(config) as asgi:
        await created(asgi, DEVICES)
        after = await asgi("PUT", f"{SLICES}/s?fieldManager=me", body)
        assert owners_of_devices(after) == []
        assert [one["manager"] for one in after.json["metadata"]["managedFields"]] == ["old", "me"]


async def test_an_apply_owns_the_empty_list_that_it_wrote() -> None:
    async with open_asgi() as asgi:
        await created(asgi, None)
        content_type = "application/apply-patch+yaml"
        path = f"{SLICES}/s?fieldManager=me&force=true"
        assert owners_of_devices(await asgi("PATCH", path, slice_of([], 2), content_type=content_type)) == ["me"]


# --- fields that a patch leaves as they are

PODS_DEFINITION = next(one for one in all_definitions(FeatureGates.for_release()) if one.plural == "pods")
CALL = Call.on(
    PODS_DEFINITION,
    PODS_DEFINITION.versions[0],
    user=UserInfo("ann"),
    verb="patch",
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
def test_kept_and_decoded_fields_make_the_object_of_all_values(
    values: dict[str, Any], status: dict[str, Any], patch: dict[str, Any]
) -> None:
    pod, view = live(values | {"status": status})
    after = merge_patch(view.value, patch)
    kept = kept_fields(CALL, view, after)
    rest = {key: value for key, value in after.items() if key not in kept}
    made = with_kept(decode_values(Pod, CALL.gvk, rest).object, kept, pod)
    assert made == decode_values(Pod, CALL.gvk, after).object
    assert encode(made) == encode(decode_values(Pod, CALL.gvk, after).object)


def test_a_field_that_the_patch_leaves_alone_stays_the_same_object() -> None:
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
def test_kept_metadata_are_those_of_their_values(values: dict[str, Any], patch: dict[str, Any]) -> None:
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


def test_metadata_that_would_be_encoded_otherwise_are_decoded() -> None:
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


def test_maps_out_of_order_are_decoded() -> None:
    _, view = live({"spec": {"nodeSelector": {"b": "", "a": ""}}})
    assert kept_fields(CALL, view, view.value) == {"status"}


def test_a_field_of_a_later_release_is_unknown() -> None:
    pod = Pod(status=from_dict(Pod, {"status": {"extendedResourceClaimStatus": {"resourceClaimName": "c"}}}).status)
    view = View(encode(pod), struct_shape(Pod))
    assert view.has_known_fields("status", CALL.gvk, "1.37")
    assert not view.has_known_fields("status", CALL.gvk, "1.30")


# --- kinds whose versions a webhook converts

THINGS = kind(version("v1"), version("v2"))


class Doubling:
    """In v1 sizes are counted in halves; requests are of v2."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.fails = False

    async def between(self, obj: Any, api_version: str, wanted: str) -> Any:
        self.asked.append(wanted)
        if self.fails:
            raise failure(500, "", "no")
        if not wanted.endswith("/v1"):
            raise KeyError(wanted)
        made = THINGS.version("v1").type
        return with_content(made, obj.metadata, {"spec": {"size": 2 * content(obj)["spec"]["size"]}})

    async def seen(self, entries: Sequence[Any], api_version: str) -> list[Any]:
        return list(entries)

    async def stored(self, obj: Any, api_version: str) -> Any:
        return obj


def owned(api_version: str, size: int) -> Any:
    """A thing whose size belongs to a manager in another version."""
    entry = ManagedFieldsEntry(
        manager="other",
        operation="Update",
        api_version=api_version,
        fields_type="FieldsV1",
        fields_v1=RawJSON(b'{"f:spec":{"f:size":{}}}'),
    )
    made = thing(THINGS, spec={"size": size})
    return replace(made, metadata=replace(made.metadata, managed_fields=(entry,)))


def in_call(conversion: Doubling | None) -> Any:
    made = call_of(msgspec.structs.replace(THINGS, conversion=conversion))
    return made.but(field_manager="me")


async def written(conversion: Doubling, api_version: str, size: int) -> list[str]:
    """Return the managers after a write of ``size``."""
    live = owned(api_version, 1)
    new = replace(thing(THINGS, spec={"size": size}), metadata=live.metadata)
    made = await tracked(in_call(conversion), live, new, 0)
    return [entry.manager for entry in made.metadata.managed_fields]


async def test_a_manager_in_another_version_keeps_what_the_write_leaves_alone_there() -> None:
    conversion = Doubling()
    assert await written(conversion, "example.com/v1", 1) == ["other"]
    assert conversion.asked == ["example.com/v1", "example.com/v1"]


async def test_a_manager_loses_what_changes_in_its_version() -> None:
    assert await written(Doubling(), "example.com/v1", 2) == ["me"]


async def test_a_version_that_is_no_longer_served_loses_its_managers() -> None:
    assert await written(Doubling(), "example.com/v0", 1) == []


async def test_nothing_has_an_owner_after_a_failed_conversion() -> None:
    conversion = Doubling()
    conversion.fails = True
    assert await written(conversion, "example.com/v1", 1) == []


def test_without_a_webhook_the_result_is_there_at_once() -> None:
    assert with_other_versions(in_call(None), None, lambda other: other) is None


@pytest.mark.parametrize("wrong", [{"operation": "Foo"}, {"fieldsType": "X"}, {"apiVersion": ""}, {"fieldsV1": 3}])
async def test_invalid_managed_fields_in_a_patch_are_ignored(wrong: dict[str, Any]) -> None:
    entry = {"manager": "m", "operation": "Update", "apiVersion": "resource.k8s.io/v1", "fieldsType": "FieldsV1"}
    valid = {**entry, "fieldsV1": {"f:spec": {"f:driver": {}}}}
    async with open_asgi() as asgi:
        await created(asgi, DEVICES)
        before = (await asgi("GET", f"{SLICES}/s")).json["metadata"]["managedFields"]
        patch = {"metadata": {"managedFields": [valid, {**entry, "manager": "n", "fieldsV1": {}, **wrong}]}}
        media = "application/merge-patch+json"
        after = await asgi("PATCH", f"{SLICES}/s?fieldManager=me", patch, content_type=media)
        assert (after.status, after.json["metadata"]["managedFields"]) == (200, before)
