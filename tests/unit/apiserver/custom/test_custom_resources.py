"""Custom resources from the definition to its end: served live, pruned, defaulted, validated, printed, scaled."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.storage.sqlite import SQLiteStorage
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIGS = "/apis/d.x/v1/namespaces/default/gpuconfigs"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
SPEC = {
    "type": "object",
    "required": ["mode"],
    "x-kubernetes-validations": [
        {"rule": "self.mode != 'b' || self.n > 3", "message": "b needs n>3"},
        {"rule": "self.mode == oldSelf.mode", "message": "mode immutable", "reason": "FieldValueForbidden"},
    ],
    "properties": {
        "mode": {"type": "string", "enum": ["a", "b"]},
        "n": {"type": "integer", "minimum": 1, "default": 2},
        "s": {"type": "string", "maxLength": 3, "pattern": "^x"},
        "replicas": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "l": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "v": {"type": "integer"}},
            },
        },
    },
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "ready": {"type": "boolean"}}}


def definition(**changes: Any) -> dict[str, Any]:
    """A definition of gpuconfigs.d.x."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "additionalPrinterColumns": [{"name": "Mode", "type": "string", "jsonPath": ".spec.mode"}],
        "selectableFields": [{"jsonPath": ".spec.mode"}],
    }
    spec: dict[str, Any] = {
        "group": "d.x",
        "scope": "Namespaced",
        "names": {"plural": "gpuconfigs", "kind": "GpuConfig", "shortNames": ["gc"]},
        "versions": [version | changes.pop("version", {})],
    }
    made = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gpuconfigs.d.x"},
        "spec": spec | changes,
    }
    return copy.deepcopy(made)


def config(name: str = "c", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "d.x/v1", "kind": "GpuConfig", "metadata": {"name": name}, "spec": {"mode": "a"} | spec}


def causes(answer: Answer) -> list[str]:
    assert answer.status == 422, answer.body
    return [f"{cause['field']}: {cause['message']}" for cause in answer.json["details"]["causes"]]


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as made:
        answer = await made("POST", CRDS, definition())
        assert answer.status == 201, answer.body
        await made.settle()
        yield made


async def test_a_definition_is_established_and_served_at_once(asgi: ASGIClient) -> None:
    status = (await asgi("GET", f"{CRDS}/gpuconfigs.d.x")).json["status"]
    assert {c["type"]: c["status"] for c in status["conditions"]} == {"NamesAccepted": "True", "Established": "True"}
    assert status["acceptedNames"]["listKind"] == "GpuConfigList"
    listed = (await asgi("GET", "/apis/d.x/v1")).json["resources"]
    assert [one["name"] for one in listed] == ["gpuconfigs", "gpuconfigs/scale", "gpuconfigs/status"]
    document = (await asgi("GET", "/openapi/v3/apis/d.x/v1")).json
    assert "/apis/d.x/v1/namespaces/{namespace}/gpuconfigs/{name}/scale" in document["paths"]
    schema = document["components"]["schemas"]["x.d.v1.GpuConfig"]
    assert schema["properties"]["spec"]["properties"]["mode"]["enum"] == ["a", "b"]


async def test_instances_live_as_built_in_objects_do(asgi: ASGIClient) -> None:
    made = await asgi("POST", CONFIGS, config())
    assert made.status == 201, made.body
    assert made.json["spec"] == {"mode": "a", "n": 2}
    assert made.json["metadata"]["generation"] == 1
    changed = await asgi("PATCH", f"{CONFIGS}/c", {"spec": {"n": 7}}, content_type=MERGE)
    assert (changed.json["spec"]["n"], changed.json["metadata"]["generation"]) == (7, 2)
    listed = (await asgi("GET", CONFIGS)).json
    assert (listed["kind"], listed["items"][0]["kind"]) == ("GpuConfigList", "GpuConfig")
    assert (await asgi("DELETE", f"{CONFIGS}/c")).json["status"] == "Success"
    assert (await asgi("GET", f"{CONFIGS}/c")).status == 404


async def test_unknown_fields_are_pruned_with_a_warning_or_refused(asgi: ASGIClient) -> None:
    body = config(zzz=1, free={"any": [1]})
    warned = await asgi("POST", CONFIGS, body)
    assert warned.warnings == ['299 - "unknown field \\"spec.zzz\\""']
    assert warned.json["spec"] == {"free": {"any": [1]}, "mode": "a", "n": 2}
    strict = await asgi("POST", f"{CONFIGS}?fieldValidation=Strict", body)
    assert strict.status == 400
    assert 'strict decoding error: unknown field "spec.zzz"' in strict.json["message"]


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"mode": None}, 'spec.mode: Invalid value: "null": spec.mode in body must be of type string: "null"'),
        ({"mode": "z"}, 'spec.mode: Unsupported value: "z": supported values: "a", "b"'),
        ({"mode": 3}, 'spec.mode: Invalid value: "integer": spec.mode in body must be of type string: "integer"'),
        ({"n": 0}, "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1"),
        ({"s": "xxxx"}, "spec.s: Too long: may not be more than 3 bytes"),
        ({"s": "y"}, "spec.s: Invalid value: \"y\": spec.s in body should match '^x'"),
        ({"l": [{"name": "q"}, {"name": "q"}]}, 'spec.l[1]: Duplicate value: {"name":"q"}'),
        ({"l": [{}]}, "spec.l[0].name: Required value"),
    ],
)
async def test_wrong_values_are_refused_in_kubernetes_words(asgi: ASGIClient, spec: dict[str, Any], wrong: str) -> None:
    found = causes(await asgi("POST", CONFIGS, config(**spec)))
    assert found[0] == wrong
    # Rules are evaluated beside errors after which a value still has its type and a bounded size.
    blocked = not wrong.partition(": ")[2].startswith(("Invalid value: 0", 'Invalid value: "y"', "Duplicate value"))
    assert any("some validation rules were not checked" in cause for cause in found) is blocked


async def test_rules_judge_valid_objects_and_changes(asgi: ASGIClient) -> None:
    assert causes(await asgi("POST", CONFIGS, config(mode="b"))) == ["spec: Invalid value: b needs n>3"]
    await asgi("POST", CONFIGS, config(mode="b", n=4))
    refused = await asgi("PATCH", f"{CONFIGS}/c", {"spec": {"mode": "a"}}, content_type=MERGE)
    assert causes(refused) == ["spec: Forbidden: mode immutable"]


async def test_status_has_a_door_of_its_own(asgi: ASGIClient) -> None:
    made = await asgi("POST", CONFIGS, config() | {"status": {"ready": True}})
    assert "status" not in made.json
    answer = await asgi(
        "PATCH", f"{CONFIGS}/c/status", {"spec": {"n": 9}, "status": {"ready": True}}, content_type=MERGE
    )
    assert answer.json["status"] == {"ready": True}
    assert answer.json["spec"]["n"] == 2
    assert answer.json["metadata"]["generation"] == 1


async def test_scale_leads_to_the_fields_that_the_definition_names(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config(replicas=1))
    answer = await asgi("PATCH", f"{CONFIGS}/c/scale", {"spec": {"replicas": 5}}, content_type=MERGE)
    assert (answer.json["kind"], answer.json["spec"]["replicas"]) == ("Scale", 5)
    assert (await asgi("GET", f"{CONFIGS}/c")).json["spec"]["replicas"] == 5


async def test_columns_and_selectable_fields(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config("a"))
    await asgi("POST", CONFIGS, config("b", mode="b", n=5))
    table = (await asgi("GET", CONFIGS, accept=TABLE)).json
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Mode"]
    assert [row["cells"] for row in table["rows"]] == [["a", "a"], ["b", "b"]]
    chosen = (await asgi("GET", f"{CONFIGS}?fieldSelector=spec.mode%3Db")).json
    assert [item["metadata"]["name"] for item in chosen["items"]] == ["b"]


async def test_apply_merges_keyed_lists_by_key(asgi: ASGIClient) -> None:
    first = config(l=[{"name": "p", "v": 1}])
    second = config(l=[{"name": "q", "v": 2}])
    await asgi("PATCH", f"{CONFIGS}/c?fieldManager=one", first, content_type=APPLY)
    merged = await asgi("PATCH", f"{CONFIGS}/c?fieldManager=two", second, content_type=APPLY)
    assert [item["name"] for item in merged.json["spec"]["l"]] == ["p", "q"]
    unknown = await asgi("PATCH", f"{CONFIGS}/c?fieldManager=two", config(zzz=1), content_type=APPLY)
    assert unknown.status == 500
    assert ".spec.zzz: field not declared in schema" in unknown.json["message"]


async def test_strategic_patches_are_for_built_in_kinds(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config())
    answer = await asgi("PATCH", f"{CONFIGS}/c", {}, content_type="application/strategic-merge-patch+json")
    assert answer.status == 415


async def test_a_body_says_its_kind(asgi: ASGIClient) -> None:
    answer = await asgi("POST", CONFIGS, {"metadata": {"name": "c"}})
    assert answer.status == 400
    assert "Object 'Kind' is missing" in answer.json["message"]


async def test_a_changed_schema_holds_for_what_is_there(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config(s="xy"))
    changed = definition()
    spec = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] = {name: one for name, one in spec["properties"].items() if name != "s"}
    spec["properties"]["fresh"] = {"type": "string", "default": "new"}
    await asgi("PUT", f"{CRDS}/gpuconfigs.d.x", changed)
    await asgi.settle()
    assert (await asgi("GET", f"{CONFIGS}/c")).json["spec"] == {"fresh": "new", "mode": "a", "n": 2}


async def test_a_second_version_shows_the_same_objects(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config())
    changed = definition()
    older = changed["spec"]["versions"][0]
    changed["spec"]["versions"].append(older | {"name": "v1beta1", "storage": False})
    await asgi("PUT", f"{CRDS}/gpuconfigs.d.x", changed)
    await asgi.settle()
    shown = (await asgi("GET", "/apis/d.x/v1beta1/namespaces/default/gpuconfigs/c")).json
    assert (shown["apiVersion"], shown["spec"]["mode"]) == ("d.x/v1beta1", "a")


async def test_a_deleted_definition_takes_its_instances_along(asgi: ASGIClient) -> None:
    await asgi("POST", CONFIGS, config())
    answer = await asgi("DELETE", f"{CRDS}/gpuconfigs.d.x")
    assert answer.status == 200
    await asgi.gone(f"{CRDS}/gpuconfigs.d.x")
    assert (await asgi("GET", CONFIGS)).status == 404


async def test_a_name_in_use_is_not_accepted(asgi: ASGIClient) -> None:
    other = definition(names={"plural": "others", "singular": "other", "kind": "GpuConfig"})
    other["metadata"]["name"] = "others.d.x"
    await asgi("POST", CRDS, other)
    await asgi.settle()
    conditions = (await asgi("GET", f"{CRDS}/others.d.x")).json["status"]["conditions"]
    assert conditions[0]["reason"] == "ListKindConflict"  # the last conflict is shown
    assert conditions[0]["message"] == '"GpuConfigList" is already in use'


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"group": "nodot"}, "spec.group: Invalid value"),
        ({"scope": "Everywhere"}, 'spec.scope: Unsupported value: "Everywhere"'),
        ({"conversion": {"strategy": "Hope"}}, 'spec.conversion.strategy: Unsupported value: "Hope"'),
        (
            {"conversion": {"strategy": "Webhook"}},
            "spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://x"}}}},
            "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL",
        ),
        (
            {"conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v2"]}}},
            'spec.conversion.conversionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1',
        ),
        (
            {"conversion": {"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}},
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set",
        ),
        ({"group": "a.k8s.io"}, "metadata.annotations[api-approved.kubernetes.io]: Required value"),
        (
            {"version": {"schema": None}},
            "spec.versions[0].schema.openAPIV3Schema: Required value",
        ),
        (
            {"version": {"storage": False}},
            '"SelectableFields":null}]: must have exactly one version marked as storage version',
        ),
        (
            {"version": {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}}}},
            "spec.validation.openAPIV3Schema.properties[a].type: Required value",
        ),
    ],
)
async def test_a_definition_that_is_not_right_is_refused(changes: dict[str, Any], wrong: str) -> None:
    async with open_asgi() as fresh:
        assert any(wrong in cause for cause in causes(await fresh("POST", CRDS, definition(**changes))))


async def test_rules_that_do_not_compile_are_refused() -> None:
    broken = definition()
    schema = broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = SPEC | {"x-kubernetes-validations": [{"rule": "self.nothing > 1"}]}
    async with open_asgi() as fresh:
        found = causes(await fresh("POST", CRDS, broken))
    assert "undefined field 'nothing'" in found[0]


async def test_instances_survive_a_restart(tmp_path: Path) -> None:
    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as before:
        await before("POST", CRDS, definition())
        while (await before("GET", CONFIGS)).status == 404:
            await before.settle()
        await before("POST", CONFIGS, config())
    async with open_asgi(store=SQLiteStorage(tmp_path / "db")) as after:
        assert (await after("GET", f"{CONFIGS}/c")).json["spec"] == {"mode": "a", "n": 2}
