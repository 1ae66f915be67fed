"""Decoding of bodies, with Kubernetes' error texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api import resource
from cathedra.api.core import apps_v1, core_v1
from cathedra.api.decoding import (
    Decoded,
    DecodeError,
    _bodies,
    decode_json,
    decode_sound,
    decode_values,
    has_known_fields,
    written_keys,
)
from cathedra.api.decoding.envelope import read_envelope
from cathedra.api.scheme import GroupVersionKind, kind_of, type_of
from cathedra.api.struct import EMPTY_LIST, to_dict

CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")


def read(values: Any, release: str = "1.37") -> Decoded[resource.ResourceClaim]:
    body = values if isinstance(values, bytes) else msgspec.json.encode(values)
    return decode_json(resource.ResourceClaim, CLAIM, body, release)


def spec(**devices: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c"}, "spec": {"devices": devices}}


def test_a_right_body_has_no_problems() -> None:
    decoded = read(spec(requests=[{"name": "r", "exactly": {"deviceClassName": "c"}}]))
    assert decoded.problems == ()
    assert to_dict(decoded.object)["spec"]["devices"]["requests"][0]["name"] == "r"


def test_unknown_and_repeated_fields_are_named_in_order_and_once() -> None:
    body = b'{"metadata":{"name":"x"},"foo":1,"foo":2,"spec":{"devices":{"requests":[{"name":"r","name":"s"}]}}}'
    assert read(body).problems == ('unknown field "foo"', 'duplicate field "spec.devices.requests[0].name"')


def test_names_of_unknown_fields_are_quoted() -> None:
    assert read(b'{"a\\nb":1}').problems == ('unknown field "a\\nb"',)


def test_a_field_of_a_newer_release_is_unknown_to_an_older_one() -> None:
    body = spec(requests=[{"name": "r", "exactly": {"derivedAttributes": [{"name": "a/b", "expression": "1"}]}}])
    assert read(body).problems == ()
    assert read(body, "1.36").problems == ('unknown field "spec.devices.requests[0].exactly.derivedAttributes"',)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (spec(requests="x"), "ResourceClaim.spec.devices.requests of type []v1.DeviceRequest"),
        (spec(requests=[{"name": 1}]), "DeviceRequest.spec.devices.requests.name of type string"),
        (
            spec(config=[{"opaque": []}]),
            "DeviceClaimConfiguration.spec.devices.config.DeviceConfiguration.opaque of type "
            "v1.OpaqueDeviceConfiguration",
        ),
    ],
)
def test_wrong_types_are_told_with_the_path_and_the_type(body: Any, text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body)
    assert text.rpartition(" of type ")[2] in str(caught.value)
    assert text.partition(" of type ")[0].rpartition(".")[2] in str(caught.value)


def test_half_a_character_becomes_the_replacement_character() -> None:
    body = rb'{"metadata":{"annotations":{"a":"\ud800","b":"\ud83d\ude00","c":"\\ud800"}}}'
    found = read(body).object.metadata.annotations
    assert found == {"a": "\ufffd", "b": "😀", "c": "\\ud800"}


def test_a_null_kind_counts_as_none() -> None:
    envelope = read_envelope(b'{"apiVersion":null,"kind":null}', "ResourceClaim")
    assert (envelope.api_version, envelope.kind) == ("", "")
    with pytest.raises(DecodeError, match=r"cannot unmarshal number into Go struct field \.kind of type string"):
        read_envelope(b'{"kind":1}', "ResourceClaim")


def test_opaque_parameters_keep_their_bytes() -> None:
    body = b'{"spec":{"devices":{"config":[{"opaque":{"driver":"d","parameters":{ "a" : 1.0 }}}]}}}'
    parameters = read(body).object.spec.devices.config[0].opaque
    assert parameters is not None
    assert parameters.parameters is not None
    assert parameters.parameters.data == b'{ "a" : 1.0 }'


def test_an_empty_list_is_told_from_none_where_kubernetes_does() -> None:
    gvk = kind_of(resource.ResourceSlice)
    body = b'{"spec":{"devices":[{"name":"d","bindingConditions":[],"bindingFailureConditions":["a"]}]}}'
    device = decode_json(resource.ResourceSlice, gvk, body).object.spec.devices[0]
    assert device.binding_conditions is EMPTY_LIST
    both = b'{"spec":{"devices":[{"name":"d","bindingConditions":[],"bindingFailureConditions":[]}]}}'
    device = decode_json(resource.ResourceSlice, gvk, both).object.spec.devices[0]
    assert device.binding_conditions is not EMPTY_LIST
    pod = b'{"spec":{"containers":[],"resources":{"claims":[]}}}'
    resources = decode_json(core_v1.Pod, kind_of(core_v1.Pod), pod).object.spec.resources
    assert resources is not None
    assert resources.claims is EMPTY_LIST


def test_numbers_of_any_size_in_opaque_parts_do_not_disturb_the_look_for_empty_lists() -> None:
    config = b'[{"opaque":{"driver":"d","parameters":{"a":1e999,"b":1' + b"0" * 5_000 + b"}}}]"
    body = (
        b'{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"x"},'
        b'"spec":{"devices":{"requests":[],"config":' + config + b"}}}"
    )
    claim = read(body).object
    assert b"1e999" in claim.spec.devices.config[0].opaque.parameters.data


_NAMES = st.sampled_from(["app", "kind", "metadata", "bogus", "labels", 'a":b', "key"])
_TEXTS = st.dictionaries(_NAMES, st.text('ab":\\ ', max_size=4), max_size=3)
_BODIES = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.text("ab", max_size=2), "labels": _TEXTS})},
    optional={
        "data": _TEXTS,
        "immutable": st.booleans(),
        "bogus": _TEXTS,
        "kind": st.just("ConfigMap"),
    },
)


@given(body=_BODIES, spaced=st.booleans())
def test_unknown_fields_are_found_beside_maps_of_texts(body: dict[str, Any], spaced: bool) -> None:
    """Unknown fields above all: maps of texts have none below them, whatever their keys are."""
    raw = json.dumps(body, separators=(", ", " : ") if spaced else (",", ":")).encode()
    gvk = GroupVersionKind("", "v1", "ConfigMap")
    decoded = decode_json(core_v1.ConfigMap, gvk, raw)
    assert decoded.problems == (('unknown field "bogus"',) if "bogus" in body else ())
    assert decoded.object.data == body.get("data", {})
    assert decoded.object.metadata.labels == body["metadata"]["labels"]
    assert has_known_fields(body, gvk) is ("bogus" not in body)


def _pod() -> Any:
    return {
        "metadata": {"name": "p", "labels": {"a": "b"}, "ownerReferences": [{"uid": "1"}, {"uid": "2"}]},
        "spec": {
            "nodeSelector": {"a": "b"},
            "containers": [{"name": "c", "args": ["a"], "resources": {"limits": {"cpu": 1}}, "env": [{"name": "E"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        },
        "status": {"conditions": [{"type": "Ready"}], "podIPs": []},
    }


_STRUCTS: Sequence[tuple[str | int, ...]] = (
    (),
    ("metadata",),
    ("metadata", "ownerReferences", 1),
    ("spec",),
    ("spec", "containers", 0),
    ("spec", "containers", 0, "resources"),
    ("spec", "containers", 0, "env", 0),
    ("spec", "volumes", 0, "emptyDir"),
    ("status", "conditions", 0),
)


@given(places=st.sets(st.sampled_from(_STRUCTS)))
def test_unknown_fields_are_found_in_every_struct(places: set[tuple[str | int, ...]]) -> None:
    pod, gvk = _pod(), kind_of(core_v1.Pod)
    for place in places:
        reduce(getitem, place, pod)["bogus"] = {"name": "x"}
    body = json.dumps(pod).encode()
    assert has_known_fields(pod, gvk) is not bool(places)
    assert len(decode_json(core_v1.Pod, gvk, body).problems) == len(places)
    assert (decode_sound(core_v1.Pod, gvk, body) is None) is bool(places)


@pytest.mark.parametrize("labels", [None, 1, "a", [], ["a"], [{"a": 1}], {"a": {"b": 1}}])
def test_values_of_the_wrong_sort_have_no_unknown_fields(labels: Any) -> None:
    assert has_known_fields({"metadata": {"labels": labels}}, kind_of(core_v1.Pod))


@given(body=_BODIES, spaced=st.booleans())
def test_a_sound_body_is_decoded_as_any_other(body: dict[str, Any], spaced: bool) -> None:
    raw = json.dumps(body, separators=(", ", " : ") if spaced else (",", ":")).encode()
    gvk = GroupVersionKind("", "v1", "ConfigMap")
    found, decoded = decode_sound(core_v1.ConfigMap, gvk, raw), decode_json(core_v1.ConfigMap, gvk, raw)
    assert found is None or not decoded.problems
    assert found is None or "bogus" not in body
    assert found is None or found == decoded.object
    texts = (*body["metadata"]["labels"].values(), *body.get("data", {}).values())
    # A text that begins with a colon looks as if it were a key: then the body is read closely, which is as good.
    if spaced is False and "bogus" not in body and b'\\"' not in raw and not any(":" in text for text in texts):
        assert found is not None


@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"Secret"}',
        b'{"kind":null}',
        b'{"apiVersion":null}',
        b'{"apiVersion":"v2","kind":"ConfigMap"}',
        b'{"data":{"a":"1","a":"2"}}',
        b'{"data":{"a":1}}',
        b'{"odd":1}',
        b'{"data":{}',
        b'{"metadata":{"name":"\xff"}}',
        b"null",
        b"[]",
        b"[" * 300,
        b'{"odd":' * 500 + b"1" + b"}" * 500,
    ],
)
def test_a_body_in_which_something_may_be_wrong_is_not_sound(body: bytes) -> None:
    assert decode_sound(core_v1.ConfigMap, GroupVersionKind("", "v1", "ConfigMap"), body) is None


def test_half_a_character_is_replaced_in_a_sound_body() -> None:
    found = decode_sound(core_v1.ConfigMap, GroupVersionKind("", "v1", "ConfigMap"), rb'{"data":{"a":"\ud800"}}')
    assert found is not None
    assert found.data == {"a": "\ufffd"}


def test_a_kind_with_schemas_is_always_read_closely() -> None:
    gvk = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert decode_sound(core_v1.ConfigMap, gvk, b"{}") is None


_PAIRS = st.lists(st.tuples(st.text('k":\\ ', max_size=5), st.text('v":\\ ', max_size=5)), max_size=5)


@given(pairs=_PAIRS, colon=st.sampled_from([":", " :", ": "]))
def test_no_key_that_is_written_goes_uncounted(pairs: list[tuple[str, str]], colon: str) -> None:
    """However texts look, and also where a key is written twice."""
    body = "{" + ",".join(f"{json.dumps(key)}{colon}{json.dumps(text)}" for key, text in pairs) + "}"
    assert json.loads(body) == dict(pairs)
    assert written_keys(body.encode()) >= len(pairs)


def test_a_body_whose_field_owners_name_elements_of_lists_is_read_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {"f:metadata": {"f:ownerReferences": {'k:{"uid":"1"}': {}}}}
    entry = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": owners}
    monkeypatch.setattr(_bodies, "_read", None)
    body = json.dumps({"metadata": {"name": "c", "managedFields": [entry]}, "spec": {"devices": {}}}).encode()
    found = decode_sound(resource.ResourceClaim, CLAIM, body)
    assert found is not None
    assert found.metadata.managed_fields[0].fields_v1.load() == owners


def test_a_field_that_is_said_twice_is_found_beside_such_owners() -> None:
    body = b'{"metadata":{"name":"c","annotations":{"k:{\\"a\\":1}":"x"}},"spec":{},"spec":{}}'
    assert read(body).problems == ('duplicate field "spec"',)


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1alpha1", "ResourceClaim"),
        ("v1alpha1", "ResourceClaimTemplate"),
        ("v1alpha2", "ResourceClaim"),
        ("v1alpha2", "ResourceClaimTemplate"),
        ("v1alpha2", "ResourceSlice"),
    ],
)
def test_empty_lists_in_the_classic_versions_mean_nothing(version: str, kind: str) -> None:
    gvk = GroupVersionKind("resource.k8s.io", version, kind)
    decoded = decode_values(type_of(gvk), gvk, {"metadata": {"finalizers": []}}, "1.30")
    assert decoded.object == type_of(gvk)()


def test_a_hundred_unknown_fields_are_named_and_their_paths_are_cut() -> None:
    fields = ",".join(f'"n{number}":1' for number in range(5000))
    device = f'{{"name":"d","attributes":{{"{"k" * 500_000}":{{{fields}}}}}}}'
    body = f'{{"spec":{{"devices":[{device}]}}}}'.encode()
    problems = decode_json(
        resource.ResourceSlice, GroupVersionKind("resource.k8s.io", "v1", "ResourceSlice"), body
    ).problems
    assert len(problems) == 100
    assert problems[0].startswith('unknown field "spec.devices[0].attributes.kkk')
    assert max(map(len, problems)) < 5000


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1])
def test_a_number_beyond_32_bits_is_no_number_or_text(value: int) -> None:
    body = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": value}}}}
    gvk = GroupVersionKind("apps", "v1", "Deployment")
    assert decode_sound(apps_v1.Deployment, gvk, json.dumps(body).encode()) is None
