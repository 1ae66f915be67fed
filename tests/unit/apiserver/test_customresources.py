"""Definitions served by the server that accepts them, and by another one on its store."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import from_dict
from cathedra.apiserver.catalog import Catalog
from cathedra.apiserver.custom.conversion import Caller
from cathedra.apiserver.customresources import ServedDefinitions
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.storage.protocol import MemoryStorage, Settled, StorageError, Write
from cathedra.clock import run_virtual
from tests.unit.apiserver.asgi import Answer, ASGIClient, open_asgi
from tests.unit.apiserver.custom.test_custom_resources import CONFIGS, CRDS, config, definition
from tests.unit.apiserver.lagging import Lagging, joined, lagging

RESOURCE = GroupResource("d.x", "gpuconfigs")
NAME = "gpuconfigs.d.x"


class FailingStorage(MemoryStorage):
    """Fails a number of writes of definitions, from the second on."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.written = 0
        self.recovered = asyncio.Event()

    def commit(self, write: Write, settled: Settled) -> None:
        if "customresourcedefinitions" in write.key:
            self.written += 1
            if self.written > 1 and self.failures:
                self.failures -= 1
                settled(StorageError("disk full"))
                return
            if self.written > 1:
                self.recovered.set()
        super().commit(write, settled)


def test_a_definition_is_established_after_the_store_has_failed() -> None:
    store = FailingStorage(failures=12)

    async def run() -> float:
        async with open_asgi(store=store) as asgi:
            begun = asyncio.get_running_loop().time()
            assert (await asgi("POST", CRDS, definition())).status == 201
            await store.recovered.wait()
            await asgi.settle()
            assert (await asgi("GET", CONFIGS)).status == 200
            assert await _established(asgi)
            return asyncio.get_running_loop().time() - begun

    assert 10 < run_virtual(run()) < 60
    assert store.failures == 0


async def _established(asgi: ASGIClient) -> bool:
    answer = await asgi("GET", f"{CRDS}/gpuconfigs.d.x")
    conditions = answer.json["status"].get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


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


async def test_what_another_server_has_just_established_is_served(servers: Lagging) -> None:
    servers.line.hold()
    await define(servers, definition())
    made = await servers.replica("POST", CONFIGS, config())
    assert made.status == 201, made.body
    assert (await servers.primary("GET", f"{CONFIGS}/c")).status == 200


@pytest.mark.parametrize("path", ["/apis/d.x/v1", "/apis/d.x", "/openapi/v3/apis/d.x/v1"])
async def test_what_another_server_has_just_established_is_described(servers: Lagging, path: str) -> None:
    servers.line.hold()
    await define(servers, definition())
    assert (await servers.replica("GET", path)).status == 200


async def test_what_was_established_before_a_replica_came_is_served_by_it(servers: Lagging) -> None:
    await define(servers, definition())
    assert (await servers.primary("POST", CONFIGS, config())).status == 201
    async with joined(servers.primary.server) as (late, _):
        shown = await late("GET", f"{CONFIGS}/c?resourceVersion=0")
        assert (shown.status, shown.json["spec"]["mode"]) == (200, "a")


async def test_servers_on_one_store_come_to_the_same_conditions(servers: Lagging) -> None:
    await define(servers, definition())
    other = definition(names={"plural": "others", "singular": "other", "kind": "GpuConfig"})
    other["metadata"]["name"] = "others.d.x"
    await define(servers, other)
    await servers.replica.server.context.registry.catch_up()
    await servers.replica.settle()
    assert (await servers.replica("GET", "/apis/d.x/v1/namespaces/default/others")).status == 404
    for name in (NAME, "others.d.x"):
        shown = [(await one("GET", f"{CRDS}/{name}")).json["status"] for one in (servers.primary, servers.replica)]
        assert shown[0] == shown[1]
    conflict = next(one for one in shown[0]["conditions"] if one["type"] == "NamesAccepted")
    assert (conflict["status"], conflict["reason"]) == ("False", "ListKindConflict")


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


async def test_no_instance_is_made_of_a_kind_that_another_server_has_just_removed(servers: Lagging) -> None:
    await define(servers, definition())
    made = await servers.replica("POST", CONFIGS, config())
    assert made.status == 201, made.body
    await servers.behind(("DELETE", f"{CRDS}/{NAME}", None))
    await servers.primary.gone(f"{CRDS}/{NAME}")
    answer = await servers.replica("POST", CONFIGS, config("d"))
    assert answer.status == 404, answer.body
    assert RESOURCE not in servers.replica.server.context.registry.by_resource


# Kinds that come, change and go.

CONFIGS_SERVED = GroupResource("d.x", "gpuconfigs")


@dataclass
class Serving:
    registry: Registry
    catalog: Catalog
    served: ServedDefinitions


@pytest.fixture
async def serving() -> Serving:
    registry, catalog = Registry(MemoryStorage(), ()), Catalog(())
    await registry.load()
    return Serving(registry, catalog, ServedDefinitions(registry, catalog, Caller(_post, random.Random(1))))


async def _post(config: Any, review: dict[str, Any], timeout_seconds: float) -> bytes:
    raise AssertionError("no definition here converts")


def made(generation: int = 1, name: str = "gpuconfigs.d.x", **changes: Any) -> CustomResourceDefinition:
    obj = definition(**changes)
    obj["metadata"] |= {"name": name, "generation": generation}
    return from_dict(CustomResourceDefinition, obj)


async def test_what_is_served_is_in_catalog_and_registry_until_it_is_withdrawn(serving: Serving) -> None:
    serving.served.serve(made())
    assert serving.catalog.definition(CONFIGS_SERVED) is serving.registry.table(CONFIGS_SERVED).definition
    assert serving.served.resource_of("gpuconfigs.d.x") == CONFIGS_SERVED
    serving.served.withdraw("gpuconfigs.d.x")
    assert serving.catalog.definition(CONFIGS_SERVED) is None
    assert CONFIGS_SERVED not in serving.registry.by_resource
    assert serving.served.resource_of("gpuconfigs.d.x") is None


async def test_a_new_generation_takes_the_place_of_the_one_before(serving: Serving) -> None:
    serving.served.serve(made())
    changed = made(2, scope="Cluster")
    assert serving.served.is_current(made())
    assert not serving.served.is_current(changed)
    serving.served.serve(changed)
    assert serving.served.is_current(changed)
    assert not serving.registry.table(CONFIGS_SERVED).definition.namespaced


async def test_a_definition_is_in_conflict_with_the_names_of_others_alone(serving: Serving) -> None:
    serving.served.serve(made())
    assert serving.served.accepted_names(made(2))[1] is None
    names = {"plural": "others", "singular": "other", "kind": "Other", "listKind": "Others", "shortNames": ["gc"]}
    other = made(name="others.d.x", names=names)
    assert serving.served.accepted_names(other)[1] == ("ShortNamesConflict", '"gc" is already in use')
