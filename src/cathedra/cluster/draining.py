"""Removal of a node from a cluster: cordon, deletion of its pods, then of the Node and its slices."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.status import StatusError
from cathedra.api.undecodable import UndecodableObject, rest_of
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import LEASES, NODES, PODS, RESOURCESLICES
from cathedra.client.store import Store
from cathedra.client.transport import PatchType
from cathedra.clock import Clock
from cathedra.semantics.owners import controller_of

PATIENCE: Final = 60.0
"""Seconds for which pods may take to end; those that remain are deleted without grace."""
NODE_LEASES: Final = "kube-node-lease"


async def drain(client: Client, name: str, *, clock: Clock) -> int:
    """Cordon the node, delete its pods, and wait until they are gone. Return their number.

    Pods of daemon sets stay, because their controller would create them again. They are deleted with the node.
    """
    await client.resource(NODES).patch(name, PatchType.MERGE, {"spec": {"unschedulable": True}})
    pods = Informer(client, PODS, clock=clock)
    changed = asyncio.Event()

    def note(*_: object) -> None:
        changed.set()

    pods.add_handler(note, note, note, on_resolved=note)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(pods.run())
        await pods.wait_synced()
        leaving = _leaving(pods.store, name)
        try:
            for pod in leaving:
                await _delete(client, pod, None)
            async with asyncio.timeout(PATIENCE):
                while _leaving(pods.store, name):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            for pod in _leaving(pods.store, name):
                await _delete(client, pod, 0)
        finally:
            following.cancel()
    return len(leaving)


async def remove_node(client: Client, name: str) -> None:
    """Remove the Node object with what belongs to it: its slices and its lease."""
    slices = client.resource(RESOURCESLICES)
    for piece in (await slices.list()).items:
        if piece.spec.node_name == name:
            await _unless_gone(slices.delete(piece.metadata.name))
    await _unless_gone(client.resource(NODES).delete(name))
    await _unless_gone(client.resource(LEASES, NODE_LEASES).delete(name))


def _leaving(pods: Store[Pod], node: str) -> list[Pod]:
    """The pods that have to leave the node; of those that cannot be decoded it is what can be read."""
    rest = (rest_of(Pod, what)[0] for what in pods.undecodable.values())
    return [pod for pod in (*pods.list(), *filter(None, rest)) if _must_go(pod, node)]


def _must_go(pod: Pod, node: str) -> bool:
    owner = controller_of(pod)
    return pod.spec.node_name == node and (owner is None or owner.kind != "DaemonSet")


async def _delete(client: Client, pod: Pod, grace: int | None) -> None:
    pods = client.resource(PODS, pod.metadata.namespace)
    await _unless_gone(pods.delete(pod.metadata.name, grace_period_seconds=grace, uid=pod.metadata.uid))


async def _unless_gone(deletion: Awaitable[object]) -> None:
    try:
        await deletion
    except UndecodableObject:
        return  # it was deleted: the answer alone was of no use
    except StatusError as error:
        if not error.is_not_found:
            raise
