"""Controllers whose creations are carried out but not answered create nothing twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from cathedra.api.core.apps_v1 import ReplicaSet
from cathedra.api.core.batch_v1 import Job
from cathedra.api.struct import KubeStruct, from_dict
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import JOBS, PODS, REPLICASETS
from cathedra.client.transport import APICall, ResourceRef
from cathedra.controllers.controller import Controller, ControllerContext
from cathedra.controllers.job.controller import JobController
from cathedra.controllers.workloads.replicaset import ReplicaSetController
from tests.unit.controllers.world import World, play
from tests.unit.passedon import PassedOn


class Deaf(PassedOn):
    """The first creation of a pod is not answered, and news of pods come ten seconds late."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lost = False

    async def call(self, call: APICall) -> Any:
        answer = await self._inner.call(call)
        if call.verb == "create" and call.ref == PODS and not self._lost:
            self._lost = True
            raise ConnectionError("the answer was lost")
        return answer

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        async with self._inner.watch(call) as events:
            yield self._late(events) if call.ref == PODS else events

    async def _late(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            await asyncio.sleep(10)
            yield event


class HardOfHearing:
    """A controller that hears everything through `Deaf`."""

    name = "hard-of-hearing"

    def __init__(self, make: Callable[[ControllerContext], Controller], context: ControllerContext) -> None:
        client = Client(Deaf(context.client.transport), clock=context.clock)
        self._informers = SharedInformers(client, context.clock)
        self._controller = make(msgspec.structs.replace(context, client=client, informers=self._informers))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informers.run())
            group.create_task(self._controller.run())


LABELS = {"app": "a"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
JOB = from_dict(
    Job,
    {
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"template": {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}},
    },
)
REPLICA_SET = from_dict(
    ReplicaSet,
    {
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": LABELS}, "template": TEMPLATE},
    },
)


@pytest.mark.parametrize(
    ("make", "ref", "owner"),
    [(JobController, JOBS, JOB), (ReplicaSetController, REPLICASETS, REPLICA_SET)],
)
def test_a_pod_whose_creation_was_not_answered_is_not_created_twice(
    make: Callable[[ControllerContext], Controller], ref: ResourceRef[Any], owner: KubeStruct
) -> None:
    async def story(world: World) -> None:
        await world.of(ref).create(owner)
        await world.clock.sleep(60)
        assert len(await world.names(PODS)) == 1
        deleted = [message for _, reason, message in await world.events() if reason == "SuccessfulDelete"]
        assert deleted == []

    play(lambda context: HardOfHearing(make, context), story)
