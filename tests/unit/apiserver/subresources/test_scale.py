"""Scale is the number of replicas of any workload (docs/spec/apimachinery.md §12)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.custom.objects import CustomObject, ScalePaths, content, make_type, with_content
from cathedra.apiserver.custom.schema import read_schema
from cathedra.apiserver.subresources.scale import custom_numbers, with_replicas
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SCALE = f"{DEPLOYMENTS}/d/scale"
SPEC = {
    "replicas": 2,
    "selector": {"matchLabels": {"b": "2", "a": "1"}},
    "template": {
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    },
}


@pytest.fixture
async def asgi() -> AsyncIterator[ASGIClient]:
    async with open_asgi() as opened:
        made = await opened("POST", DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": SPEC})
        assert made.status == 201, made.body
        yield opened


async def replicas(asgi: ASGIClient) -> int:
    found: int = (await asgi("GET", f"{DEPLOYMENTS}/d")).json["spec"]["replicas"]
    return found


async def test_a_scale_shows_what_is_wanted_what_is_there_and_the_selector(asgi: ASGIClient) -> None:
    scale = (await asgi("GET", SCALE)).json
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "a=1,b=2"}
    assert scale["metadata"]["name"] == "d"


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/merge-patch+json", {"spec": {"replicas": 5}}),
        ("application/strategic-merge-patch+json", {"spec": {"replicas": 5}}),
        ("application/json-patch+json", [{"op": "replace", "path": "/spec/replicas", "value": 5}]),
        (
            "application/json-patch+json",
            [{"op": "replace", "path": "", "value": {"metadata": {"name": "d"}, "spec": {"replicas": 5}}}],
        ),
    ],
)
async def test_every_form_of_patch_changes_the_replicas(asgi: ASGIClient, kind: str, body: Any) -> None:
    answer = await asgi("PATCH", SCALE, body, content_type=kind)
    assert (answer.status, answer.json["spec"]["replicas"]) == (200, 5)
    assert await replicas(asgi) == 5


async def test_a_scale_is_replaced_if_it_is_the_present_one(asgi: ASGIClient) -> None:
    scale = (await asgi("GET", SCALE)).json
    scale["spec"]["replicas"] = 3
    assert (await asgi("PUT", SCALE, scale)).status == 200
    assert await replicas(asgi) == 3
    scale["spec"]["replicas"] = 4
    assert (await asgi("PUT", SCALE, scale)).status == 409
    assert await replicas(asgi) == 3


async def test_replicas_are_not_negative(asgi: ASGIClient) -> None:
    scale = (await asgi("GET", SCALE)).json
    scale["spec"]["replicas"] = -1
    refused = await asgi("PUT", SCALE, scale)
    assert refused.status == 422
    assert "spec.replicas: Invalid value: -1: must be greater than or equal to 0" in refused.json["message"]
    assert await replicas(asgi) == 2


async def test_a_scale_has_the_name_of_its_workload(asgi: ASGIClient) -> None:
    scale = (await asgi("GET", SCALE)).json
    scale["metadata"]["name"] = "other"
    refused = await asgi("PUT", SCALE, scale)
    assert refused.status == 400
    assert refused.json["message"].startswith("the name of the object (other) does not match the name on the URL")


async def test_what_has_no_replicas_has_no_scale(asgi: ASGIClient) -> None:
    await asgi("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}})
    assert (await asgi("GET", "/api/v1/namespaces/default/configmaps/m/scale")).status == 404
    assert (await asgi("DELETE", SCALE)).status == 405
    assert (await asgi("GET", f"{DEPLOYMENTS}/missing/scale")).status == 404


async def test_a_dry_run_changes_nothing(asgi: ASGIClient) -> None:
    body = {"spec": {"replicas": 5}}
    await asgi("PATCH", f"{SCALE}?dryRun=All", body, content_type="application/merge-patch+json")
    assert await replicas(asgi) == 2


PATHS = ScalePaths(".spec.size.replicas", ".status.replicas", ".status.selector")
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def instance(scale: ScalePaths | None = PATHS, **values: Any) -> CustomObject:
    kind = make_type("Thing", read_schema({"type": "object", "properties": {"spec": OPEN, "status": OPEN}}), scale)
    return with_content(kind, ObjectMeta(name="a"), values)


def test_numbers_are_found_where_the_definition_says() -> None:
    found = instance(spec={"size": {"replicas": 3}}, status={"replicas": 2, "selector": "app=a"})
    assert custom_numbers(found) == (3, 2, "app=a")


@pytest.mark.parametrize("scale", [None, PATHS])
def test_what_is_not_there_counts_as_none(scale: ScalePaths | None) -> None:
    assert custom_numbers(instance(scale)) == (0, 0, "")


def test_scaling_changes_the_one_number_and_makes_the_way_to_it() -> None:
    before = instance(spec={"size": {"replicas": 3, "max": 9}, "other": 1})
    assert content(with_replicas(before, 5)) == {"spec": {"size": {"replicas": 5, "max": 9}, "other": 1}}
    assert content(before)["spec"]["size"]["replicas"] == 3
    assert content(with_replicas(instance(), 5)) == {"spec": {"size": {"replicas": 5}}}


async def test_an_applied_scale_conflicts_with_the_owner_of_the_replicas(asgi: ASGIClient) -> None:
    """The number belongs to the manager that created the deployment."""
    owner = (await asgi("GET", f"{DEPLOYMENTS}/d")).json["metadata"]["managedFields"][0]["manager"]
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 5}}
    options = {"content_type": "application/apply-patch+yaml"}
    refused = await asgi("PATCH", f"{SCALE}?fieldManager=one", body, **options)
    assert (refused.status, refused.json["message"]) == (
        409,
        f'Apply failed with 1 conflict: conflict with "{owner}" using autoscaling/v1: .spec.replicas',
    )
    same = {**body, "spec": {"replicas": 2}}
    assert (await asgi("PATCH", f"{SCALE}?fieldManager=one", same, **options)).status == 200
    assert (await asgi("PATCH", f"{SCALE}?fieldManager=one&force=true", body, **options)).status == 200
    assert await replicas(asgi) == 5
