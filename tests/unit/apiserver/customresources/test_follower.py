"""The kinds of a replica are those that its primary has established."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from cathedra.api.scheme import GroupResource
from tests.unit.apiserver.asgi import Answer
from tests.unit.apiserver.custom.test_custom_resources import CONFIGS, CRDS, config, definition
from tests.unit.apiserver.lagging import Lagging, joined, lagging

RESOURCE = GroupResource("d.x", "gpuconfigs")
NAME = "gpuconfigs.d.x"


@pytest.fixture
async def servers() -> AsyncIterator[Lagging]:
    async with lagging() as made:
        yield made


async def define(servers: Lagging, obj: dict[str, Any]) -> None:
    """Have the primary take a definition, and decide on it."""
    answer = await servers.primary("POST", CRDS, obj)
    assert answer.status == 201, answer.body
    await servers.primary.settle()


async def widen(servers: Lagging, **changes: Any) -> None:
    """Have the primary take a new generation of the definition."""
    current = (await servers.primary("GET", f"{CRDS}/{NAME}")).json
    current["spec"] |= changes
    answer = await servers.primary("PUT", f"{CRDS}/{NAME}", current)
    assert answer.status == 200, answer.body
    await servers.primary.settle()
    await servers.replica.server.context.registry.catch_up()


async def categories(servers: Lagging) -> list[str]:
    """The categories of the resource as the replica serves it."""
    listed: Answer = await servers.replica("GET", "/apis/d.x/v1")
    return next(one.get("categories", []) for one in listed.json["resources"] if one["name"] == "gpuconfigs")


async def test_what_the_primary_has_just_established_is_served(servers: Lagging) -> None:
    servers.line.hold()
    await define(servers, definition())
    made = await servers.replica("POST", CONFIGS, config())
    assert made.status == 201, made.body
    assert (await servers.primary("GET", f"{CONFIGS}/c")).status == 200


@pytest.mark.parametrize("path", ["/apis/d.x/v1", "/apis/d.x", "/openapi/v3/apis/d.x/v1"])
async def test_what_the_primary_has_just_established_is_told_of(servers: Lagging, path: str) -> None:
    servers.line.hold()
    await define(servers, definition())
    assert (await servers.replica("GET", path)).status == 200


async def test_what_was_established_before_a_replica_came_is_served_by_it(servers: Lagging) -> None:
    await define(servers, definition())
    assert (await servers.primary("POST", CONFIGS, config())).status == 201
    async with joined(servers.primary.server) as (late, _):
        shown = await late("GET", f"{CONFIGS}/c?resourceVersion=0")
        assert (shown.status, shown.json["spec"]["mode"]) == (200, "a")


async def test_a_replica_decides_on_nothing(servers: Lagging) -> None:
    await define(servers, definition())
    other = definition(names={"plural": "others", "singular": "other", "kind": "GpuConfig"})
    other["metadata"]["name"] = "others.d.x"
    await define(servers, other)
    await servers.replica.server.context.registry.catch_up()
    await servers.replica.settle()
    assert servers.line.writes == 0
    assert (await servers.replica("GET", "/apis/d.x/v1/namespaces/default/others")).status == 404


async def test_a_new_generation_waits_for_writes_on_its_instances(servers: Lagging) -> None:
    await define(servers, definition())
    await servers.replica.server.context.registry.catch_up()
    table = servers.replica.server.context.registry.table(RESOURCE)
    table.under_way["default/c"] = []
    names = definition()["spec"]["names"]
    await widen(servers, names=names | {"categories": ["first"]})
    await widen(servers, names=names | {"categories": ["second"]})
    assert await categories(servers) == []
    table.end("default/c")
    await servers.replica.settle()
    assert await categories(servers) == ["second"]


async def test_a_new_generation_whose_names_are_not_accepted_is_not_served(servers: Lagging) -> None:
    await define(servers, definition())
    other = definition(names={"plural": "others", "kind": "Other", "shortNames": ["taken"]})
    other["metadata"]["name"] = "others.d.x"
    await define(servers, other)
    await widen(servers, names=definition()["spec"]["names"] | {"shortNames": ["taken"], "categories": ["new"]})
    assert await categories(servers) == []


async def test_a_write_on_a_kind_that_is_gone_at_the_primary_finds_nothing(servers: Lagging) -> None:
    await define(servers, definition())
    made = await servers.replica("POST", CONFIGS, config())
    assert made.status == 201, made.body
    await servers.behind(("DELETE", f"{CRDS}/{NAME}", None))
    await servers.primary.settle()
    answer = await servers.replica("POST", CONFIGS, config("d"))
    assert answer.status == 404, answer.body
    assert servers.line.writes == 1, "it was served here when it was written"
    assert RESOURCE not in servers.replica.server.context.registry.by_resource
