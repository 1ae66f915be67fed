"""The run of a workload: its objects are created, then its pods, and bound pods are counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from benchmarks.scheduler import objects
from benchmarks.scheduler.objects import NAMESPACE
from benchmarks.scheduler.workloads import Shape, Workload
from cathedra.api.core.core_v1 import Namespace, Pod, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.resources import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    SERVICEACCOUNTS,
)
from cathedra.client.transport import EventType, PatchType

__all__ = ["Bound", "clear", "create_pods", "furnish", "replace_bound", "run"]

Item = TypeVar("Item")

CREATORS: Final = 16
"""Number of objects that are created at the same time."""


class Bound:
    """Counts pods as they are bound, and lets one wait for them."""

    def __init__(self, informers: SharedInformers) -> None:
        self.total = 0
        self._names: list[str] = []
        self._some = asyncio.Event()
        informers.of(PODS).add_handler(on_update=self._updated)

    def _updated(self, old: Pod, new: Pod) -> None:
        if new.spec.node_name and not old.spec.node_name and new.metadata.namespace == NAMESPACE:
            self.total += 1
            self._names.append(new.metadata.name)
            self._some.set()

    async def names(self) -> list[str]:
        """The pods that have been bound since the last time, as soon as there are any."""
        await self._some.wait()
        self._some.clear()
        names, self._names = self._names, []
        return names


async def run(client: Client, workload: Workload, bound: Bound) -> int:
    """Create the pods; how many were bound when it is over."""
    return await (_steady if workload.steady else _burst)(client, workload, bound)


async def furnish(client: Client, workload: Workload) -> None:
    """Make what is there before the first pod."""
    await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    await _make_account(client)
    for one in objects.device_classes(workload.shape):
        await client.resource(DEVICECLASSES).create(one)
    if workload.shape is Shape.TOLERATION:
        await client.resource(DEVICETAINTRULES).create(objects.taint_rule())
    await _each(objects.templates(workload), client.resource(RESOURCECLAIMTEMPLATES, NAMESPACE).create)
    await _each(range(workload.nodes), lambda index: _make_node(client, f"node-{index}"))
    await _each(objects.slices(workload), client.resource(RESOURCESLICES).create)
    claims = client.resource(RESOURCECLAIMS, NAMESPACE)

    async def allocated(index: int) -> None:
        made = await claims.create(objects.claim(f"init-{index}"))
        await claims.update_status(objects.allocated(made, workload, index))

    await _each(range(workload.init_claims), allocated)
    shared = workload.pods // workload.pods_per_claim if workload.pods_per_claim else 0
    await _each(range(shared), lambda index: claims.create(objects.claim(f"claim-{index}")))


async def clear(client: Client, workload: Workload) -> None:
    """Take away what `furnish` and the pods have made, and wait until the namespace has gone."""
    pods = client.resource(PODS, NAMESPACE)
    await pods.delete_collection(grace_period_seconds=0)
    await client.resource(RESOURCECLAIMS, NAMESPACE).delete_collection()
    for node in (await client.resource(NODES).list(label_selector=f"{objects.MARK}=true")).items:
        await client.resource(NODES).delete(node.metadata.name)
    await client.resource(RESOURCESLICES).delete_collection(field_selector=f"spec.driver={objects.DRIVER}")
    classes = [(DEVICECLASSES, one.metadata.name) for one in objects.device_classes(workload.shape)]
    rules = [(DEVICETAINTRULES, objects.taint_rule().metadata.name)] if workload.shape is Shape.TOLERATION else []
    for ref, name in (*classes, *rules, (NAMESPACES, NAMESPACE)):
        try:
            await client.resource(ref).delete(name)
        except StatusError as error:
            if not error.is_not_found:
                raise
    await namespace_gone(client, NAMESPACE)


async def _each(items: Iterable[Item], create: Callable[[Item], Awaitable[object]]) -> None:
    """Do it for every item, some at a time, beginning with the first."""
    pending = iter(items)

    async def work() -> None:
        for item in pending:
            await create(item)

    await asyncio.gather(*(work() for _ in range(CREATORS)))


async def create_pods(client: Client, workload: Workload, indexes: Iterable[int]) -> None:
    """Create the pods with these numbers, some at a time."""
    pods = client.resource(PODS, NAMESPACE)
    await _each(indexes, lambda index: pods.create(objects.pod(workload, index)))


async def _burst(client: Client, workload: Workload, bound: Bound) -> int:
    before = bound.total
    await create_pods(client, workload, range(workload.pods))
    while bound.total - before < workload.pods:
        await bound.names()
    return workload.pods


async def _steady(client: Client, workload: Workload, bound: Bound) -> int:
    """Keep a number of pods waiting: for every bound pod, which is deleted, another one is created."""
    await create_pods(client, workload, range(workload.pods))
    ends = time.monotonic() + workload.seconds
    await replace_bound(client, workload, bound, workload.pods, lambda done: time.monotonic() < ends)
    return bound.total


async def replace_bound(
    client: Client, workload: Workload, bound: Bound, index: int, goes_on: Callable[[int], bool]
) -> int:
    """Delete each pod that is bound and create another one, numbered from ``index``, as long as ``goes_on``.

    ``goes_on`` gets the number of pods that were replaced. Returns the number of the next pod.
    """
    pods = client.resource(PODS, NAMESPACE)
    first = index

    async def turn_over(name: str, number: int) -> None:
        await pods.delete(name, grace_period_seconds=0)
        await pods.create(objects.pod(workload, number))

    async with asyncio.TaskGroup() as group:
        while goes_on(index - first):
            for name in await bound.names():
                group.create_task(turn_over(name, index))
                index += 1
    return index


async def _make_node(client: Client, name: str) -> None:
    """A node without the taint that admission gives to new ones, and that an agent's controller would take off."""
    made = await client.resource(NODES).create(objects.node(name))
    if made.spec.taints:
        await client.resource(NODES).patch(name, PatchType.MERGE, {"spec": {"taints": None}})


async def _make_account(client: Client) -> None:
    """Create the service account of the pods, unless a controller has created it already."""
    try:
        await client.resource(SERVICEACCOUNTS, NAMESPACE).create(ServiceAccount(metadata=ObjectMeta(name="default")))
    except StatusError as error:
        if not error.is_already_exists:
            raise


async def namespace_gone(client: Client, name: str) -> None:
    """Wait until a namespace that was deleted has gone, so that it can be made again."""
    spaces = client.resource(NAMESPACES)
    found = await spaces.list(field_selector=f"metadata.name={name}")
    if not found.items:
        return
    async with spaces.watch(field_selector=f"metadata.name={name}", resource_version=found.resource_version) as events:
        async for event in events:
            if event.type is EventType.DELETED:
                return
