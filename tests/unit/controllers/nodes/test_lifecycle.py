"""Nodes that fall silent, and what becomes of their pods."""

from __future__ import annotations

import asyncio

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.core_v1 import (
    Container,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    Toleration,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import MicroTime, Time, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import LEASES, NODES, PODS
from cathedra.controllers.nodes.lifecycle import NodeLifecycleController
from cathedra.controllers.nodes.podgc import PodGarbageCollector
from cathedra.controllers.nodes.tainteviction import TaintEvictionController
from tests.unit.controllers.world import World, play, settle


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


def with_ready(node: Node, status: str) -> NodeStatus:
    ready, *others = node.status.conditions
    return replace(node.status, conditions=(replace(ready, status=status), *others))


def for_seconds(seconds: int | None) -> Toleration:
    return Toleration(operator="Exists", effect="NoExecute", toleration_seconds=seconds)


async def taints(world: World, name: str) -> set[tuple[str, str]]:
    found = (await world.of(NODES).get(name)).spec.taints
    return {(taint.key.removeprefix("node.kubernetes.io/"), taint.effect) for taint in found}


def test_a_silent_node_becomes_unknown_and_unreachable_and_its_pods_not_ready() -> None:
    async def story(world: World) -> None:
        await node(world, "dead")
        await node(world, "live")
        await pod(world, "p", "dead")
        heart = asyncio.ensure_future(beat(world, "live"))
        await settle(45)
        assert await taints(world, "dead") == set()
        await settle(20)
        conditions = {c.type: c for c in (await world.of(NODES).get("dead")).status.conditions}
        assert {c.status for c in conditions.values()} == {"Unknown"}
        assert conditions["Ready"].reason == "NodeStatusUnknown"
        assert conditions["Ready"].message == "Kubelet stopped posting node status."
        assert conditions["DiskPressure"].reason == "NodeStatusNeverUpdated"
        assert await taints(world, "dead") == {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")}
        assert await taints(world, "live") == set()
        ended = (await world.of(PODS).get("p")).status.conditions
        assert [(c.type, c.status) for c in ended] == [("Ready", "False")]
        assert ("Normal", "NodeNotReady", "Node dead status is now: NodeNotReady") in await world.events()
        heart.cancel()

    play(NodeLifecycleController, story)


def test_what_a_node_says_of_itself_is_no_event_and_leaves_its_pods_alone() -> None:
    async def story(world: World) -> None:
        await node(world, "a")
        await node(world, "b")
        await pod(world, "p", "a")
        await settle(10)
        await world.change(NODES, "a", lambda n: replace(n, status=with_ready(n, "False")), status=True)
        await settle(10)
        assert ("not-ready", "NoSchedule") in await taints(world, "a")
        assert not [reason for _, reason, _ in await world.events() if reason == "NodeNotReady"]
        assert [c.status for c in (await world.of(PODS).get("p")).status.conditions] == ["True"]

    play(NodeLifecycleController, story)


def test_a_node_that_comes_back_loses_its_taints() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        await node(world, "b")
        await settle(20)
        assert await taints(world, "a") == {("not-ready", "NoSchedule"), ("not-ready", "NoExecute")}
        ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=Time(world.clock.now()))
        status = NodeStatus(conditions=(ready,))
        await world.change(NODES, "a", lambda n: replace(n, status=status), status=True)
        await settle(10)
        assert await taints(world, "a") == set()

    play(NodeLifecycleController, story)


def test_when_every_node_is_down_nobody_is_evicted() -> None:
    async def story(world: World) -> None:
        await node(world, "only")
        await pod(world, "p", "only")
        await settle(1000)
        assert await taints(world, "only") == {("unreachable", "NoSchedule")}
        assert (await world.of(PODS).get("p")).metadata.deletion_timestamp is None

    play((NodeLifecycleController, TaintEvictionController), story)


def test_a_cordoned_node_is_tainted() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await world.change(NODES, "n1", lambda n: replace(n, spec=NodeSpec(unschedulable=True)))
        await settle(1)
        assert await taints(world, "n1") == {("unschedulable", "NoSchedule")}

    play(NodeLifecycleController, story)


def test_pods_stay_as_long_as_they_tolerate_the_taint() -> None:
    async def story(world: World) -> None:
        await node(world, "dead", "False")
        heart = asyncio.ensure_future(beat(world, "dead", "live"))
        await node(world, "live")
        await pod(world, "now", "dead", for_seconds(0))
        await pod(world, "later", "dead", for_seconds(300))
        await pod(world, "never", "dead", for_seconds(None))
        await pod(world, "elsewhere", "live")
        await settle(20)

        async def leaving() -> list[str]:
            return [p.metadata.name for p in await world.list(PODS) if p.metadata.deletion_timestamp is not None]

        assert await leaving() == ["now"]
        marked = {c.type: c for c in (await world.of(PODS).get("now")).status.conditions}["DisruptionTarget"]
        assert (marked.reason, marked.message) == (
            "DeletionByTaintManager",
            "Taint manager: deleting due to NoExecute taint",
        )
        assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/now") in await world.events()
        await settle(250)
        assert await leaving() == ["now"]
        await settle(60)
        assert await leaving() == ["later", "now"]
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)


def test_a_taint_that_goes_in_time_cancels_the_eviction() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        await node(world, "b")
        heart = asyncio.ensure_future(beat(world, "a", "b"))
        await pod(world, "p", "a", for_seconds(300))
        await settle(100)
        ready = NodeCondition(type="Ready", status="True", last_heartbeat_time=Time(world.clock.now()))
        await world.change(NODES, "a", lambda n: replace(n, status=NodeStatus(conditions=(ready,))), status=True)
        await settle(600)
        assert (await world.of(PODS).get("p")).metadata.deletion_timestamp is None
        assert ("Normal", "TaintManagerEviction", "Cancelling deletion of Pod default/p") in await world.events()
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)


def test_pods_of_a_deleted_node_are_failed_and_deleted_after_quarantine() -> None:
    async def story(world: World) -> None:
        await node(world, "n1")
        await pod(world, "p", "n1")
        await world.of(NODES).delete("n1")
        await settle(35)
        assert await world.names(PODS) == ["p"]
        await settle(30)
        assert await world.names(PODS) == []

    play(PodGarbageCollector, story)


def test_a_pod_that_is_being_deleted_and_has_no_node_is_failed_and_deleted() -> None:
    async def story(world: World) -> None:
        unscheduled = await pod(world, "p")
        await world.of(PODS).update(with_metadata(unscheduled, finalizers=("a.b/c",)))
        await world.of(PODS).delete("p")
        await settle(30)
        assert (await world.of(PODS).get("p")).status.phase == "Failed"

    play(PodGarbageCollector, story)


def test_a_pod_that_is_being_deleted_is_evicted_all_the_same() -> None:
    async def story(world: World) -> None:
        await node(world, "a", "False")
        heart = asyncio.ensure_future(beat(world, "a", "b"))
        await node(world, "b")
        await pod(world, "p", "a", for_seconds(0))
        await world.of(PODS).delete("p")
        await settle(20)
        assert ("Normal", "TaintManagerEviction", "Marking for deletion Pod default/p") in await world.events()
        heart.cancel()

    play((NodeLifecycleController, TaintEvictionController), story)


def test_ended_pods_above_the_threshold_go_oldest_first() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "c"):
            await pod(world, name)
            await world.finish(name)
            await asyncio.sleep(2)
        await settle(30)
        assert await world.names(PODS) == ["b", "c"]

    play(lambda context: PodGarbageCollector(context, terminated_threshold=2), story)
