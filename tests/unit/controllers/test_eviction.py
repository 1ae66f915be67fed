"""Pods are marked as disrupted before they are deleted."""

from __future__ import annotations

from cathedra.client.resources import NODES, PODS
from cathedra.controllers.eviction import evict
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import node, pod


def test_a_pod_says_why_it_was_evicted_and_is_evicted_once() -> None:
    async def body(api: API) -> None:
        await api.client.resource(NODES).create(node("n1"))
        pods = api.client.resource(PODS, "default")
        created = await pods.create(pod("p", nodeName="n1"))
        assert await evict(api.client, api.clock, created, "DeletionByTaintManager", "because")
        going = await pods.get("p")
        assert going.metadata.deletion_timestamp is not None
        marked = [(one.type, one.status, one.reason) for one in going.status.conditions]
        assert ("DisruptionTarget", "True", "DeletionByTaintManager") in marked
        assert not await evict(api.client, api.clock, created, "DeletionByTaintManager", "because")

    with_api(body)


def test_a_pod_of_the_same_name_is_another_one() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        first = await pods.create(pod("p"))
        await pods.delete("p", uid=first.metadata.uid, grace_period_seconds=0)
        assert not await evict(api.client, api.clock, first, "reason", "message")
        await pods.create(pod("p"))
        assert not await evict(api.client, api.clock, first, "reason", "message")
        assert (await pods.get("p")).metadata.deletion_timestamp is None

    with_api(body)
