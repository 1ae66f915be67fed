"""Where a node learns of its pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import PODS
from cathedra.node.pods.podsource import InformerPods
from tests.unit.inprocess import API, with_api
from tests.unit.node.fakes import make_pod
from tests.unit.spoiled import SPOILED, SpoiledTransport

UNHEARD: tuple[Callable[..., None], Callable[..., None]] = (lambda what: None, lambda what, pod: None)
"""Handlers of pods that cannot be decoded."""


def test_pods_that_are_there_and_their_changes_are_heard_of() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        first = await pods.create(make_pod("a"))
        source = InformerPods(api.informers.of(PODS))
        changed: list[str] = []
        gone: list[str] = []
        source.follow(
            lambda pod: changed.append(pod.metadata.name), lambda pod: gone.append(pod.metadata.name), *UNHEARD
        )
        api.follow()
        await source.wait_synced()
        assert changed == ["a"]
        await pods.create(make_pod("b"))
        await pods.update(replace(first, metadata=replace(first.metadata, labels={"x": "y"})))
        await api.until(lambda: changed == ["a", "b", "a"])
        await pods.delete("a", grace_period_seconds=0)
        await api.until(lambda: gone == ["a"])

    with_api(body)


def test_who_has_stopped_hears_nothing_more() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        source = InformerPods(api.informers.of(PODS))
        heard: list[str] = []
        stop = source.follow(lambda pod: heard.append("changed"), lambda pod: heard.append("gone"), *UNHEARD)
        others: list[str] = []
        InformerPods(api.informers.of(PODS)).follow(lambda pod: others.append("changed"), lambda pod: None, *UNHEARD)
        api.follow()
        await source.wait_synced()
        await pods.create(make_pod("a"))
        await api.until(lambda: heard == ["changed"])
        stop()
        await pods.create(make_pod("b"))
        await api.until(lambda: others == ["changed"] * 2)
        assert heard == ["changed"]

    with_api(body)


def test_a_pod_that_cannot_be_decoded_is_reported_as_such_and_not_as_deleted() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        pod = await pods.create(make_pod("a"))
        informer = Informer(Client(SpoiledTransport(api.transport), clock=api.clock), PODS, clock=api.clock)
        source = InformerPods(informer)
        heard: list[str] = []
        stop = source.follow(
            lambda pod: heard.append("changed"),
            lambda pod: heard.append("gone"),
            lambda what: heard.append(f"undecodable {what.path}"),
            lambda what, pod: heard.append("decodable" if pod else "deleted"),
        )
        running = asyncio.ensure_future(informer.run())
        pod = await pods.update(replace(pod, metadata=replace(pod.metadata, annotations={SPOILED: "spec.x"})))
        await api.until(lambda: len(heard) == 2 or heard == ["undecodable spec.x"])
        pod = await pods.update(replace(pod, metadata=replace(pod.metadata, annotations={})))
        await api.until(lambda: heard[-1] == "changed")
        assert heard[-3:] == ["undecodable spec.x", "decodable", "changed"]
        stop()
        await pods.delete("a", grace_period_seconds=0)
        await api.until(lambda: not informer.store)
        assert heard[-1] == "changed"
        running.cancel()

    with_api(body)
