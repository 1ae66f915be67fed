"""Conversion webhooks over real TLS: each version as its clients know it, one object behind all."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from cathedra.api.core.apiextensions_v1 import CustomResourceConversion
from cathedra.api.field import ErrorList
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.custom.conversion import check_conversion, with_port
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.certificates.authority import Authority
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OLD = "/apis/d.x/v1/namespaces/default/pumps"
NEW = "/apis/d.x/v2/namespaces/default/pumps"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
Convert = Callable[[dict[str, Any], str], dict[str, Any]]


def split_or_joined(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    """v1 has ``spec.address`` as host:port, v2 has two fields."""
    spec = dict(obj.get("spec", {}))
    if wanted.endswith("v2") and "address" in spec:
        host, _, port = spec.pop("address").partition(":")
        spec |= {"host": host, "port": int(port)}
    elif wanted.endswith("v1") and "host" in spec:
        spec["address"] = f"{spec.pop('host')}:{spec.pop('port', 0)}"
    return {**obj, "apiVersion": wanted, "spec": spec}


class Converter:
    """A TLS server that converts, with the requests that it received."""

    def __init__(self) -> None:
        self.url = ""
        self.bundle = b""
        self.convert: Convert = split_or_joined
        self.change: dict[str, Any] = {}
        """Fields of the response that are answered instead."""
        self.asked: list[dict[str, Any]] = []

    async def answer(self, request: web.Request) -> web.Response:
        review = await request.json()
        asked = review["request"]
        self.asked.append(asked)
        wanted = asked["desiredAPIVersion"]
        response = {
            "uid": asked["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [self.convert(one, wanted) for one in asked["objects"]],
            **self.change,
        }
        answer = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return web.json_response(answer)

    @property
    def directions(self) -> list[str]:
        """The versions that objects were wanted in."""
        return [asked["desiredAPIVersion"] for asked in self.asked]


@pytest.fixture
async def converter(tmp_path: Path) -> AsyncIterator[Converter]:
    made = Converter()
    authority = Authority.make(time.time())
    pair = authority.server(("127.0.0.1",), time.time())
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    application = web.Application()
    application.router.add_post("/convert", made.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}/convert"
    made.bundle = authority.pair.certificate
    yield made
    await runner.cleanup()


def definition(converter: Converter, storage: str = "v2") -> dict[str, Any]:
    """Pumps in two versions."""
    fields = {
        "v1": {"address": {"type": "string"}},
        "v2": {"host": {"type": "string"}, "port": {"type": "integer"}, "speed": {"type": "integer", "default": 5}},
    }
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": properties},
                        "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                    },
                }
            },
        }
        for name, properties in fields.items()
    ]
    webhook = {
        "clientConfig": {"url": converter.url, "caBundle": base64.b64encode(converter.bundle).decode()},
        "conversionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pumps.d.x"},
        "spec": {
            "group": "d.x",
            "scope": "Namespaced",
            "names": {"plural": "pumps", "kind": "Pump"},
            "versions": versions,
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    }


def old(name: str = "a", address: str = "here:80") -> dict[str, Any]:
    return {"apiVersion": "d.x/v1", "kind": "Pump", "metadata": {"name": name}, "spec": {"address": address}}


def new(name: str = "a", host: str = "here", port: int = 80) -> dict[str, Any]:
    return {"apiVersion": "d.x/v2", "kind": "Pump", "metadata": {"name": name}, "spec": {"host": host, "port": port}}


@pytest.fixture
async def asgi(converter: Converter) -> AsyncIterator[ASGIClient]:
    async with open_asgi() as made:
        answer = await made("POST", CRDS, definition(converter))
        assert answer.status == 201, answer.body
        await made.settle()
        yield made


async def test_an_object_is_shown_in_the_version_that_is_asked_for(asgi: ASGIClient, converter: Converter) -> None:
    made = await asgi("POST", OLD, old())
    assert made.status == 201, made.body
    assert made.json["spec"] == {"address": "here:80"}
    shown = (await asgi("GET", f"{NEW}/a")).json
    assert (shown["apiVersion"], shown["spec"]) == ("d.x/v2", {"host": "here", "port": 80, "speed": 5})
    assert shown["metadata"]["uid"] == made.json["metadata"]["uid"]
    assert (await asgi("GET", f"{OLD}/a")).json["spec"] == {"address": "here:80"}


async def test_a_list_is_converted_in_one_call_and_each_state_once(asgi: ASGIClient, converter: Converter) -> None:
    for name in ("a", "b", "c"):
        await asgi("POST", NEW, new(name))
    assert converter.asked == []
    for _ in range(2):
        items = (await asgi("GET", OLD)).json["items"]
        assert [item["spec"]["address"] for item in items] == ["here:80"] * 3
        assert {item["apiVersion"] for item in items} == {"d.x/v1"}
    assert [len(asked["objects"]) for asked in converter.asked] == [3]


async def test_updates_and_patches_go_through_the_requests_version(asgi: ASGIClient, converter: Converter) -> None:
    await asgi("POST", NEW, new())
    changed = await asgi("PATCH", f"{OLD}/a", {"spec": {"address": "there:81"}}, content_type=MERGE)
    assert changed.status == 200, changed.body
    assert changed.json["metadata"]["generation"] == 2
    found = (await asgi("GET", f"{NEW}/a")).json
    assert found["spec"] == {"host": "there", "port": 81, "speed": 5}
    again = await asgi(
        "PUT", f"{OLD}/a", old(address="x:1") | {"metadata": (await asgi("GET", f"{OLD}/a")).json["metadata"]}
    )
    assert again.json["spec"] == {"address": "x:1"}
    status = await asgi("PATCH", f"{OLD}/a/status", {"status": {"ready": True}}, content_type=MERGE)
    assert status.json["status"] == {"ready": True}
    assert (await asgi("GET", f"{NEW}/a")).json["status"] == {"ready": True}


async def test_an_apply_in_another_version_than_the_stored_one(asgi: ASGIClient) -> None:
    body = json.dumps(old(address="y:2")).encode()
    made = await asgi("PATCH", f"{OLD}/a?fieldManager=m", body, content_type=APPLY)
    assert made.status == 201, made.body
    again = await asgi("PATCH", f"{OLD}/a?fieldManager=m", body.replace(b"y:2", b"y:3"), content_type=APPLY)
    assert again.json["spec"] == {"address": "y:3"}
    assert (await asgi("GET", f"{NEW}/a")).json["spec"]["port"] == 3


async def test_managers_in_two_versions_know_of_each_other_by_conversion(asgi: ASGIClient) -> None:
    first = await asgi("PATCH", f"{OLD}/a?fieldManager=first", json.dumps(old()).encode(), content_type=APPLY)
    assert first.status == 201, first.body
    other = await asgi("PATCH", f"{NEW}/a?fieldManager=second", json.dumps(new(port=81)).encode(), content_type=APPLY)
    assert other.status == 409, other.body
    assert 'conflict with "first": .spec.address' in other.json["message"]
    forced = await asgi(
        "PATCH", f"{NEW}/a?fieldManager=second&force=true", json.dumps(new(port=81)).encode(), content_type=APPLY
    )
    owners = {entry["manager"]: entry["apiVersion"] for entry in forced.json["metadata"]["managedFields"]}
    assert owners == {"second": "d.x/v2"}
    assert forced.json["spec"] == {"host": "here", "port": 81, "speed": 5}


async def test_a_patch_takes_fields_from_a_manager_in_another_version(asgi: ASGIClient) -> None:
    await asgi("PATCH", f"{OLD}/a?fieldManager=first", json.dumps(old()).encode(), content_type=APPLY)
    label = await asgi(
        "PATCH", f"{NEW}/a?fieldManager=second", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE
    )
    owners = {entry["manager"]: entry["apiVersion"] for entry in label.json["metadata"]["managedFields"]}
    assert owners == {"first": "d.x/v1", "second": "d.x/v2"}
    taken = await asgi("PATCH", f"{NEW}/a?fieldManager=second", {"spec": {"port": 9}}, content_type=MERGE)
    assert [entry["manager"] for entry in taken.json["metadata"]["managedFields"]] == ["second"]


async def test_managed_fields_are_given_up_where_the_webhook_fails(asgi: ASGIClient, converter: Converter) -> None:
    await asgi("PATCH", f"{NEW}/a?fieldManager=first", json.dumps(new()).encode(), content_type=APPLY)
    await asgi("PATCH", f"{OLD}/a?fieldManager=second", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    converter.change = {"result": {"status": "Failed", "message": "no way"}}
    taken = await asgi("PATCH", f"{NEW}/a?fieldManager=first", {"spec": {"port": 9}}, content_type=MERGE)
    assert taken.status == 200, taken.body
    assert "managedFields" not in taken.json["metadata"]


def policy(expression: str, **constraints: Any) -> dict[str, Any]:
    """A policy about pumps of v1."""
    rule = {"apiGroups": ["d.x"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pumps"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule], **constraints},
            "validations": [{"expression": expression}],
        },
    }


async def bound(asgi: ASGIClient, made: dict[str, Any]) -> None:
    """Put a policy in force."""
    group = "/apis/admissionregistration.k8s.io/v1"
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p", "validationActions": ["Deny"]},
    }
    for plural, obj in (("validatingadmissionpolicies", made), ("validatingadmissionpolicybindings", binding)):
        answer = await asgi("POST", f"{group}/{plural}", obj)
        assert answer.status == 201, answer.body


async def test_a_policy_about_another_version_sees_the_object_converted(asgi: ASGIClient) -> None:
    await bound(asgi, policy("object.spec.address == 'here:80' && (oldObject == null || has(oldObject.spec.address))"))
    refused = await asgi("POST", NEW, new(port=81))
    assert refused.status == 422, refused.body
    assert (await asgi("POST", NEW, new())).status == 201
    patched = await asgi("PATCH", f"{NEW}/a", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert patched.status == 200, patched.body


async def test_a_policy_that_insists_on_its_version_does_not_see_others(asgi: ASGIClient) -> None:
    await bound(asgi, policy("false", matchPolicy="Exact"))
    assert (await asgi("POST", NEW, new())).status == 201
    assert (await asgi("POST", OLD, old("b"))).status == 422


async def test_a_policy_that_cannot_see_its_version_fails_as_it_says(asgi: ASGIClient, converter: Converter) -> None:
    await bound(asgi, policy("true"))
    converter.change = {"result": {"status": "Failed", "message": "no way"}}
    refused = await asgi("POST", NEW, new())
    assert refused.status == 422, refused.body
    expected = "failed to configure binding: failed to convert object version: conversion webhook for d.x/v2, Kind=Pump"
    assert expected in refused.json["message"]


async def test_a_mutating_policy_changes_another_version_and_the_request_gets_its_own_back(asgi: ASGIClient) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    change = {"expression": "[JSONPatch{op: 'replace', path: '/spec/address', value: 'there:7'}]"}
    made = policy("true") | {"kind": "MutatingAdmissionPolicy"}
    made["spec"] = {
        "matchConstraints": made["spec"]["matchConstraints"],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": change}],
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": "b"},
        "spec": {"policyName": "p"},
    }
    for plural, obj in (("mutatingadmissionpolicies", made), ("mutatingadmissionpolicybindings", binding)):
        answer = await asgi("POST", f"{group}/{plural}", obj)
        assert answer.status == 201, answer.body
    written = await asgi("POST", NEW, new())
    assert written.status == 201, written.body
    assert written.json["spec"] == {"host": "there", "port": 7, "speed": 5}


async def test_parameters_are_seen_in_the_version_that_the_policy_names(asgi: ASGIClient) -> None:
    made = policy("params.spec.address == 'limit:1'")
    made["spec"]["paramKind"] = {"apiVersion": "d.x/v1", "kind": "Pump"}
    made["spec"]["matchConstraints"]["resourceRules"][0] |= {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    await asgi("POST", NEW, new("limits", "limit", 1))
    await bound(asgi, made)
    url = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/b"
    ref = {"spec": {"paramRef": {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}}}
    assert (await asgi("PATCH", url, ref, content_type=MERGE)).status == 200
    written = await asgi(
        "POST",
        "/api/v1/namespaces/default/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}},
    )
    assert written.status == 201, written.body


async def test_watches_show_each_change_in_their_version(asgi: ASGIClient) -> None:
    await asgi("POST", NEW, new())

    async def watched() -> Answer:
        return await asgi("GET", f"{OLD}?watch=true&timeoutSeconds=1")

    watching = asyncio.create_task(watched())
    await asgi.settle()
    await asgi("PATCH", f"{NEW}/a", {"spec": {"port": 99}}, content_type=MERGE)
    await asgi("DELETE", f"{NEW}/a")
    events = [json.loads(line) for line in (await watching).body.splitlines()]
    shown = [(event["type"], event["object"]["spec"]["address"]) for event in events]
    assert shown == [("ADDED", "here:80"), ("MODIFIED", "here:99"), ("DELETED", "here:99")]


async def test_what_is_stored_keeps_its_version_when_another_becomes_the_stored_one(
    converter: Converter, tmp_path: Path
) -> None:
    database = tmp_path / "store.db"
    async with open_asgi(store=SQLiteStorage(database)) as asgi:
        await asgi("POST", CRDS, definition(converter, storage="v1"))
        await asgi.settle()
        await asgi("POST", OLD, old())
        present = (await asgi("GET", f"{CRDS}/pumps.d.x")).json
        changed = await asgi("PUT", f"{CRDS}/pumps.d.x", present | {"spec": definition(converter)["spec"]})
        assert changed.json["status"]["storedVersions"] == ["v1", "v2"]
        await asgi.settle()
        await asgi("POST", NEW, new("b"))
        assert converter.asked == []
    async with open_asgi(store=SQLiteStorage(database)) as asgi:
        await asgi.settle()
        assert (await asgi("GET", f"{OLD}/a")).json["spec"] == {"address": "here:80"}
        assert converter.asked == []
        assert (await asgi("GET", f"{NEW}/a")).json["spec"]["host"] == "here"
        assert (await asgi("GET", f"{OLD}/b")).json["spec"] == {"address": "here:80"}
        assert converter.directions == ["d.x/v2", "d.x/v1"]


async def test_only_labels_and_annotations_of_the_metadata_may_change(asgi: ASGIClient, converter: Converter) -> None:
    def marked(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
        found = split_or_joined(obj, wanted)
        metadata = obj["metadata"] | {"annotations": {"by": "hook"}, "finalizers": ["x/y"], "generation": 77}
        return found | {"metadata": metadata}

    converter.convert = marked
    await asgi("POST", NEW, new())
    metadata = (await asgi("GET", f"{OLD}/a")).json["metadata"]
    assert metadata["annotations"] == {"by": "hook"}
    assert metadata["generation"] == 1
    assert "finalizers" not in metadata


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"result": {"status": "Failed", "message": "no way"}}, "failed: no way"),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        ({"convertedObjects": None}, "returned 0 objects, expected 1"),
        ({"uid": None}, "failed: expected response.uid="),
        ({"uid": "other"}, "failed: expected response.uid="),
        (
            {"convertedObjects": [{"apiVersion": "d.x/v3"}]},
            "returned invalid converted object at index 0: invalid groupVersion (expected d.x/v1, received d.x/v3)",
        ),
        (
            {"convertedObjects": [{"apiVersion": "d.x/v1", "kind": "Pump", "metadata": {"name": "b"}}]},
            "returned invalid converted object at index 0: must have the same name: a != b",
        ),
    ],
)
async def test_an_answer_that_makes_no_sense_fails_the_request(
    asgi: ASGIClient, converter: Converter, change: dict[str, Any], text: str
) -> None:
    await asgi("POST", NEW, new())
    converter.change = change
    answer = await asgi("GET", f"{OLD}/a")
    assert answer.status == 500
    assert answer.json["message"].startswith(f"conversion webhook for d.x/v2, Kind=Pump {text}")
    assert (await asgi("GET", f"{NEW}/a")).status == 200


async def test_a_webhook_that_is_not_there_is_named(asgi: ASGIClient, converter: Converter) -> None:
    await asgi("POST", NEW, new())
    wrong = definition(converter)
    wrong["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = "https://127.0.0.1:1/convert"
    present = (await asgi("GET", f"{CRDS}/pumps.d.x")).json
    await asgi("PUT", f"{CRDS}/pumps.d.x", present | {"spec": wrong["spec"]})
    await asgi.settle()
    message = (await asgi("GET", f"{OLD}/a")).json["message"]
    expected = 'conversion webhook for d.x/v2, Kind=Pump failed: Post "https://127.0.0.1:1/convert?timeout=30s": '
    assert message.startswith(expected)


async def test_instances_go_with_their_definition(asgi: ASGIClient, converter: Converter) -> None:
    await asgi("POST", NEW, new())
    await asgi("DELETE", f"{CRDS}/pumps.d.x")
    await asgi.gone(f"{CRDS}/pumps.d.x")
    assert (await asgi("GET", NEW)).status == 404
    assert converter.asked == []


async def test_the_webhooks_port_is_443_unless_it_is_said(converter: Converter) -> None:
    wanted = definition(converter)
    config = {"service": {"name": "s", "namespace": "n"}}
    wanted["spec"]["conversion"]["webhook"]["clientConfig"] = config
    async with open_asgi(ServerConfig()) as asgi:
        made = (await asgi("POST", CRDS, wanted)).json
        assert made["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443


SERVICE = {"namespace": "ns", "name": "hook"}


def conversion(config: dict[str, Any] | None, versions: tuple[str, ...] = ("v1",)) -> CustomResourceConversion:
    webhook: dict[str, Any] = {"conversionReviewVersions": list(versions)}
    if config is not None:
        webhook["clientConfig"] = config
    return from_dict(CustomResourceConversion, {"strategy": "Webhook", "webhook": webhook})


def complaints(checked: CustomResourceConversion) -> list[str]:
    errors = ErrorList()
    check_conversion(errors, checked)
    return [f"{error.field.removeprefix('spec.conversion.')}: {error.type.value[1]}" for error in errors]


def test_a_service_without_a_port_is_reached_at_443() -> None:
    filled = to_dict(with_port(conversion({"service": SERVICE})))
    assert filled["webhook"]["clientConfig"]["service"] == {**SERVICE, "port": 443}


@pytest.mark.parametrize(
    "given",
    [
        conversion({"service": {**SERVICE, "port": 8443}}),
        conversion({"url": "https://example.com"}),
        conversion(None),
        CustomResourceConversion(strategy="None"),
    ],
)
def test_nothing_else_is_filled_in(given: CustomResourceConversion) -> None:
    assert with_port(given) is given


@pytest.mark.parametrize(
    "given",
    [
        CustomResourceConversion(strategy="None"),
        conversion({"service": SERVICE}),
        conversion({"url": "https://example.com/convert"}, ("v2", "v1beta1")),
    ],
)
def test_what_is_right_is_not_complained_about(given: CustomResourceConversion) -> None:
    assert complaints(given) == []


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (CustomResourceConversion(strategy="Magic"), ["strategy: Unsupported value"]),
        (
            CustomResourceConversion(strategy="Webhook"),
            ["webhookClientConfig: Required value", "conversionReviewVersions: Required value"],
        ),
        (conversion(None), ["webhookClientConfig: Required value"]),
        (conversion({}), ["webhookClientConfig: Required value"]),
        (conversion({"url": "https://a", "service": SERVICE}), ["webhookClientConfig: Required value"]),
        (conversion({"url": "http://example.com"}), ["webhookClientConfig.url: Invalid value"]),
        (conversion({"service": SERVICE}, ()), ["conversionReviewVersions: Required value"]),
        (conversion({"service": SERVICE}, ("v2",)), ["conversionReviewVersions: Invalid value"]),
    ],
)
def test_a_webhook_needs_one_address_and_a_version_that_is_known(
    given: CustomResourceConversion, wrong: list[str]
) -> None:
    assert complaints(given) == wrong


def test_a_webhook_without_its_strategy_is_a_mistake() -> None:
    given = conversion({"service": SERVICE})
    given = from_dict(CustomResourceConversion, {**to_dict(given), "strategy": "None"})
    assert complaints(given) == ["webhookClientConfig: Forbidden", "conversionReviewVersions: Forbidden"]
