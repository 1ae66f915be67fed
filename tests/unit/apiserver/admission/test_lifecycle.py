"""Objects live in namespaces that exist and stay."""

from __future__ import annotations

from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/{}/configmaps"
NAMESPACES = "/api/v1/namespaces"


async def test_a_namespace_must_be_there_for_new_content() -> None:
    async with open_asgi() as client:
        refused = await client("POST", MAPS.format("nowhere"), {"metadata": {"name": "a"}})
        assert (refused.status, refused.json["message"]) == (404, 'namespaces "nowhere" not found')


async def test_a_terminating_namespace_takes_nothing_new_and_lets_the_rest_change() -> None:
    async with open_asgi() as client:
        await client("POST", NAMESPACES, {"metadata": {"name": "n", "finalizers": ["example.com/hold"]}})
        old = (await client("POST", MAPS.format("n"), {"metadata": {"name": "a"}})).json
        await client("DELETE", f"{NAMESPACES}/n")
        refused = await client("POST", MAPS.format("n"), {"metadata": {"name": "b"}})
        assert refused.status == 403
        assert refused.json["message"] == (
            'configmaps "b" is forbidden: unable to create new content in namespace n because it is being terminated'
        )
        (cause,) = refused.json["details"]["causes"]
        assert (cause["reason"], cause["field"]) == ("NamespaceTerminating", "metadata.namespace")
        changed = await client("PUT", f"{MAPS.format('n')}/a", {**old, "data": {"k": "v"}})
        assert changed.status == 200
        assert (await client("DELETE", f"{MAPS.format('n')}/a")).status == 200


async def test_what_lives_in_no_namespace_needs_none() -> None:
    async with open_asgi() as client:
        assert (await client("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}})).status == 201
