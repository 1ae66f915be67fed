"""Workloads and their pods: small objects, and a kubelet that runs whatever it is given."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import (
    Container,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplateSpec,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.resources import PODS
from cathedra.controllers.controller import ControllerContext
from tests.unit.controllers.world import World

SELECTOR = LabelSelector(match_labels={"app": "x"})


class Kubelet:
    """Makes pods ready a second after they were created, and ends those that are being deleted."""

    name = "kubelet"

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.clock
        self._queue: asyncio.Queue[Pod] = asyncio.Queue()
        context.informers.of(PODS).add_handler(
            on_add=self._queue.put_nowait, on_update=lambda _, pod: self._queue.put_nowait(pod)
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._treat_if_there(await self._queue.get()))

    async def _treat_if_there(self, pod: Pod) -> None:
        try:
            await self._treat(pod)
        except StatusError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _treat(self, pod: Pod) -> None:
        resource = self._client.resource(PODS, pod.metadata.namespace)
        if pod.metadata.deletion_timestamp is not None:
            await resource.delete(pod.metadata.name, grace_period_seconds=0, uid=pod.metadata.uid)
        elif pod.status.phase != "Running" and "broken" not in pod.metadata.labels:
            await self._clock.sleep(1)
            ready = PodCondition(type="Ready", status="True", last_transition_time=Time(self._clock.now()))
            fresh = await resource.get(pod.metadata.name)
            if fresh.metadata.deletion_timestamp is None:
                status = replace(fresh.status, phase="Running", conditions=(ready,))
                await resource.update_status(replace(fresh, status=status))


def template(image: str = "v1", **labels: str) -> PodTemplateSpec:
    return PodTemplateSpec(
        metadata=ObjectMeta(labels={"app": "x", **labels}),
        spec=PodSpec(containers=(Container(name="c", image=image),), restart_policy="Always"),
    )


def meta(name: str = "w") -> ObjectMeta:
    return ObjectMeta(name=name, namespace="default")


async def images(world: World) -> list[str]:
    return sorted((pod.spec.containers or ())[0].image for pod in await world.list(PODS))
