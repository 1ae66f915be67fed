"""Every pod stays a while on a node that does not answer, also after its tolerations were written anew."""

from __future__ import annotations

import asyncio
import random

from cathedra.api.core.core_v1 import Container, Pod, PodSpec, Toleration
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import PODS
from cathedra.clock import LoopClock, run_virtual

KEYS = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def pod(*tolerations: Toleration) -> Pod:
    container = Container(name="main", image="example.com/main")
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,), tolerations=tolerations))


def tolerated(created: Pod) -> list[tuple[str, int | None]]:
    return [(one.key, one.toleration_seconds) for one in created.spec.tolerations]


async def opened() -> tuple[APIServer, Client]:
    clock = LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(ServerConfig(), clock=clock, random=random.Random(1))
    return server, Client(server.transport(), clock=clock)


def test_a_new_pod_tolerates_for_five_minutes_what_it_has_no_own_word_about() -> None:
    async def body() -> None:
        server, client = await opened()
        own = Toleration(key=KEYS[0], operator="Exists", effect="NoExecute", toleration_seconds=7)
        created = await client.resource(PODS, "default").create(pod(own))
        assert tolerated(created) == [(KEYS[0], 7), (KEYS[1], 300)]
        await server.close()

    run_virtual(body())


def test_tolerations_that_are_written_anew_need_not_repeat_them() -> None:
    async def body() -> None:
        server, client = await opened()
        pods = client.resource(PODS, "default")
        created = await pods.create(pod())
        added = Toleration(key="gpu", operator="Exists", effect="NoSchedule")
        updated = await pods.update(replace(created, spec=replace(created.spec, tolerations=(added,))))
        assert tolerated(updated) == [("gpu", None), (KEYS[0], 300), (KEYS[1], 300)]
        await server.close()

    run_virtual(body())
