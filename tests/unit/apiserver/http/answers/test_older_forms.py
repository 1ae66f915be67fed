"""Differences of responses between releases until 1.33 and later ones (cathedra.api.nulltimes)."""

from __future__ import annotations

from typing import Any

from cathedra.apiserver.config import ServerConfig
from cathedra.releases import FeatureGates
from tests.unit.apiserver.asgi import ASGIClient, open_asgi

TEMPLATES = "/api/v1/namespaces/default/podtemplates"
RULES = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
NOT_YET = {"creationTimestamp": None}


def of_release(release: str) -> ServerConfig:
    gates = FeatureGates.for_release(release, {"DynamicResourceAllocation": True})
    return ServerConfig(release=release, gates=gates, runtime_config={"resource.k8s.io/v1alpha3": True})


async def answers(client: ASGIClient) -> list[dict[str, Any]]:
    """A template in the answers that show it."""
    await client("POST", TEMPLATES, {"metadata": {"name": "t"}, "template": {"spec": {"containers": []}}})
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    return [
        (await client("GET", f"{TEMPLATES}/t")).json,
        (await client("GET", TEMPLATES)).json["items"][0],
        (await client("GET", f"{TEMPLATES}?includeObject=Object", accept=table)).json["rows"][0]["object"],
    ]


async def test_templates_say_that_they_were_not_created() -> None:
    async with open_asgi(of_release("1.33")) as client:
        for shown in await answers(client):
            assert shown["template"]["metadata"] == NOT_YET
            assert shown["metadata"]["creationTimestamp"]
    async with open_asgi(of_release("1.34")) as client:
        for shown in await answers(client):
            assert shown["template"]["metadata"] == {}


async def test_patches_and_owners_of_fields_know_nothing_of_it() -> None:
    async with open_asgi(of_release("1.33")) as client:
        await answers(client)
        patch = {"template": {"metadata": {"labels": {"a": "b"}}}}
        kind = {"content_type": "application/merge-patch+json"}
        patched = (await client("PATCH", f"{TEMPLATES}/t?fieldManager=m", patch, **kind)).json
        assert patched["template"]["metadata"] == {"labels": {"a": "b"}} | NOT_YET
        applied = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "t"}} | patch
        path = f"{TEMPLATES}/t?fieldManager=other"
        answer = await client("PATCH", path, applied, content_type="application/apply-patch+yaml")
        owners = [entry["manager"] for entry in answer.json["metadata"]["managedFields"]]
        assert "other" in owners
        assert "f:creationTimestamp" not in answer.body.decode()


async def test_reviews_were_never_created() -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    async with open_asgi(of_release("1.33")) as client:
        assert (await client("POST", REVIEWS, review)).json["metadata"]["creationTimestamp"] is None
    async with open_asgi(of_release("1.34")) as client:
        assert "creationTimestamp" not in (await client("POST", REVIEWS, review)).json["metadata"]


async def test_taint_rules_have_a_status_since_135() -> None:
    rule = {"metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "NoSchedule"}}}
    for release, has_status in (("1.33", False), ("1.34", False), ("1.35", True)):
        async with open_asgi(of_release(release)) as client:
            assert ("status" in (await client("POST", RULES, rule)).json) is has_status
