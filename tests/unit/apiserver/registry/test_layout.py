"""Values of servers of several releases on one store, as during an upgrade."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.protobuf import has_message
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.registry.layout import SharedLayout
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.protocol import Record
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import PatchType
from cathedra.clock import LoopClock, run_virtual
from cathedra.kinds.served import all_definitions
from cathedra.releases import RELEASES, FeatureGates
from tests.running import run_with
from tests.unit.apiserver.registry.test_sharedcommitlog import FakeStore
from tests.unit.kinds.objects import claim, definition_of, device, resource_slice

OLDER, NEWER = "1.36", "1.37"


class Upgrade:
    """A store, and a client of a server of each release on it."""

    def __init__(self, store: FakeStore, older: Client, newer: Client) -> None:
        self.store = store
        self.older = older
        self.newer = newer

    def stored(self, key: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.store.objects[key].value)
        return found

    def write(self, key: str, **spec: Any) -> None:
        """Add fields to the spec of an object in the store, as a newer server has written them."""
        value = self.stored(key)
        value["spec"] |= spec
        self.store.put(key, json.dumps(value).encode())


def upgrading(test: Callable[[Upgrade], Awaitable[None]]) -> None:
    async def run() -> None:
        store, clock = FakeStore(), LoopClock(asyncio.get_running_loop())
        servers = [
            await APIServer.open(
                ServerConfig(release=release, gates=FeatureGates.for_release(release)),
                clock=clock,
                random=random.Random(1),
                store=store,
            )
            for release in (OLDER, NEWER)
        ]
        await test(Upgrade(store, *(Client(server.transport(), clock=clock) for server in servers)))
        for server in servers:
            await server.close()

    run_virtual(run())


@run_with(upgrading)
async def test_an_older_server_changes_a_claim_with_a_field_that_it_does_not_know(upgrade: Upgrade) -> None:
    await upgrade.newer.resource(RESOURCECLAIMS, "default").create(claim())
    value = upgrade.stored("resourceclaims/default/c")
    value["spec"]["devices"]["requests"][0]["exactly"]["derivedAttributes"] = [
        {"name": "x.example.com/y", "expression": "1"}
    ]
    upgrade.store.put("resourceclaims/default/c", json.dumps(value).encode())
    claims = upgrade.older.resource(RESOURCECLAIMS, "default")
    seen = await claims.get("c")
    assert not seen.spec.devices.requests[0].exactly.derived_attributes
    changed = await claims.patch("c", PatchType.MERGE, {"metadata": {"labels": {"a": "b"}}})
    assert changed.metadata.labels == {"a": "b"}
    # As in Kubernetes, a write through the older server drops what it does not know.
    assert "derivedAttributes" not in json.dumps(upgrade.stored("resourceclaims/default/c"))


@run_with(upgrading)
async def test_an_older_server_does_not_show_a_field_that_it_does_not_know(upgrade: Upgrade) -> None:
    await upgrade.newer.resource(RESOURCESLICES).create(resource_slice(device()))
    upgrade.write("resourceslices/s", skipNodeOperations=["Prepare"])
    assert (await upgrade.newer.resource(RESOURCESLICES).get("s")).spec.skip_node_operations
    assert not (await upgrade.older.resource(RESOURCESLICES).get("s")).spec.skip_node_operations


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a", "namespace": "d", "uid": "u-1", "generation": 2, "labels": {"uid": "x"}},
        {"name": "a", "uid": "u-1"},
        {"name": 'q"uid":"', "uid": "u-1", "ownerReferences": [{"kind": "K", "uid": "o-1"}]},
        {"name": "a"},
    ],
)
def test_readers_get_the_json_that_encoding_would_make(metadata: dict[str, Any]) -> None:
    layout, definition = SharedLayout(NEWER), definition_of("configmaps")
    obj = from_dict(ConfigMap, {"metadata": metadata, "data": {"uid": "v"}})
    entry = layout.written(definition, "d/a", 17, obj, layout.write(definition, obj))
    assert entry.body(definition.versions[0]) == encode(entry.object)
    assert entry.object.metadata.resource_version == "17"
    assert entry.size == len(encode(entry.object))


@pytest.mark.parametrize(("older", "newer"), [*pairwise(RELEASES[RELEASES.index("1.32") :])])
def test_the_release_before_knows_the_version_in_which_an_object_is_stored(older: str, newer: str) -> None:
    known = {one.group_resource: one for one in all_definitions(FeatureGates.for_release(older))}
    for definition in all_definitions(FeatureGates.for_release(newer)):
        before = known.get(definition.group_resource)
        if before is None or definition.stored_as is not None or not has_message(definition.type):
            continue
        value = SharedLayout(newer).write(definition, definition.type())
        SharedLayout(older).read(before, Record("k", 1, value))
