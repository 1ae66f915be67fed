"""Pods leave a node that is drained."""

from __future__ import annotations

import asyncio

from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS
from cathedra.cluster.cluster import drain
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import node, pod
from tests.unit.spoiled import SPOILED, SpoiledTransport


def test_a_pod_that_cannot_be_decoded_leaves_as_the_others_do() -> None:
    async def body(api: API) -> None:
        await api.client.resource(NODES).create(node("n1"))
        pods = api.client.resource(PODS, "default")
        for name, where, noted in (("a", "n1", {}), ("b", "n1", {SPOILED: "spec.new"}), ("c", "n2", {})):
            made = pod(name, nodeName=where)
            await pods.create(replace(made, metadata=replace(made.metadata, annotations=noted)))
        draining = Client(SpoiledTransport(api.transport), clock=api.clock)
        assert await asyncio.wait_for(drain(draining, "n1", clock=api.clock), 600) == 2
        assert [one.metadata.name for one in (await pods.list()).items] == ["c"]

    with_api(body)
