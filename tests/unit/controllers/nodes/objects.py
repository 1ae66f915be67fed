"""Nodes that beat, and pods on them."""

from __future__ import annotations

import asyncio

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.core_v1 import (
    Container,
    Node,
    NodeCondition,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Toleration,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import MicroTime, Time, replace
from cathedra.client.resources import LEASES, NODES, PODS
from tests.unit.controllers.world import World


async def node(world: World, name: str, ready: str = "True") -> Node:
    now = Time(world.clock.now())
    conditions = (
        NodeCondition(type="Ready", status=ready, last_heartbeat_time=now, last_transition_time=now),
        NodeCondition(type="MemoryPressure", status="False", last_heartbeat_time=now, last_transition_time=now),
    )
    status = NodeStatus(conditions=conditions if ready else ())
    return await world.create(NODES, Node(metadata=ObjectMeta(name=name), status=status))


async def beat(world: World, *names: str) -> None:
    """Renew the leases every ten seconds, as live node agents do."""
    leases = world.of(LEASES, "kube-node-lease")
    for name in names:
        spec = LeaseSpec(holder_identity=name, renew_time=MicroTime(world.clock.now()))
        await leases.create(Lease(metadata=ObjectMeta(name=name, namespace="kube-node-lease"), spec=spec))
    while True:
        await asyncio.sleep(10)
        for name in names:
            lease = await leases.get(name)
            spec = replace(lease.spec, renew_time=MicroTime(world.clock.now()))
            await leases.update(replace(lease, spec=spec))


async def pod(world: World, name: str, node: str = "", *tolerations: Toleration) -> Pod:
    ready = PodCondition(type="Ready", status="True", last_transition_time=Time(world.clock.now()))
    containers = (Container(name="c", image="i"),)
    spec = PodSpec(containers=containers, node_name=node, tolerations=tolerations, termination_grace_period_seconds=30)
    metadata = ObjectMeta(name=name, namespace="default")
    return await world.create(
        PODS, Pod(metadata=metadata, spec=spec, status=PodStatus(phase="Running", conditions=(ready,)))
    )


async def taints(world: World, name: str) -> set[tuple[str, str]]:
    found = (await world.of(NODES).get(name)).spec.taints
    return {(taint.key.removeprefix("node.kubernetes.io/"), taint.effect) for taint in found}
