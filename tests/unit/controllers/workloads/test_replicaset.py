"""Replica sets stay full."""

from __future__ import annotations

from random import Random

import pytest

from cathedra.api.core.apps_v1 import (
    ReplicaSet,
    ReplicaSetSpec,
)
from cathedra.api.core.core_v1 import (
    Pod,
    PodCondition,
    ReplicationController,
    ReplicationControllerSpec,
)
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODS, REPLICASETS, REPLICATIONCONTROLLERS
from cathedra.controllers.workloads.replicaset import ReplicaSetController, ReplicationControllerController
from cathedra.semantics.pods import is_active, is_ready, is_terminal
from tests.running import run_with
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, meta, template
from tests.unit.controllers.world import World, play
from tests.unit.spoiled import SPOILED, SpoiledTransport


@run_with(lambda test: play((ReplicaSetController, Kubelet), test))
async def test_a_replica_set_stays_full_and_adopts(world: World) -> None:
    orphan = Pod(metadata=replace(meta("orphan"), labels={"app": "x"}), spec=template().spec)
    await world.create(PODS, orphan)
    spec = ReplicaSetSpec(replicas=3, selector=SELECTOR, template=template())
    await world.create(REPLICASETS, ReplicaSet(metadata=meta(), spec=spec))
    await world.quiet()
    names = await world.names(PODS)
    assert len(names) == 3
    assert "orphan" in names
    status = (await world.of(REPLICASETS).get("w")).status
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
    await world.of(PODS).delete(names[0])
    await world.quiet()
    assert len(await world.names(PODS)) == 3
    await world.change(REPLICASETS, "w", lambda r: replace(r, spec=replace(r.spec, replicas=1)))
    await world.quiet()
    assert len(await world.names(PODS)) == 1


@run_with(lambda test: play((ReplicaSetController, Kubelet), test))
async def test_a_replica_set_releases_a_pod_that_it_does_not_select_any_longer(world: World) -> None:
    spec = ReplicaSetSpec(replicas=1, selector=SELECTOR, template=template())
    await world.create(REPLICASETS, ReplicaSet(metadata=meta(), spec=spec))
    await world.quiet()
    (pod,) = await world.list(PODS)
    await world.change(PODS, pod.metadata.name, lambda pod: with_metadata(pod, labels={"app": "debug"}))
    await world.quiet()
    assert (await world.of(PODS).get(pod.metadata.name)).metadata.owner_references == ()
    assert len(await world.list(PODS)) == 2


def changed_at_random(chance: Random, pod: Pod) -> Pod:
    """A pod with another phase, other conditions or other labels."""
    if chance.random() < 0.3:
        labels = {"app": "x", **dict.fromkeys(chance.sample(["tier", "zone"], chance.randrange(3)), "a")}
        return with_metadata(pod, labels=labels)
    kinds = chance.sample(["Ready", "Initialized"], chance.randrange(3))
    conditions = tuple(PodCondition(type=kind, status=chance.choice(["True", "False"])) for kind in kinds)
    phase = chance.choice(["Pending", "Running", "Running", "Succeeded", "Failed"])
    return replace(pod, status=replace(pod.status, phase=phase, conditions=conditions))


@pytest.mark.parametrize("seed", range(3))
def test_the_status_of_a_replica_set_always_equals_a_count_of_its_pods(seed: int) -> None:
    chance = Random(seed)

    async def body(world: World) -> None:
        made = template()
        # With a finalizer, so that pods which are deleted stay; not all pods have the label ``zone`` of the template.
        labels = {"app": "x", "zone": "a"}
        made = replace(made, metadata=replace(made.metadata, labels=labels, finalizers=("example.com/stay",)))
        spec = ReplicaSetSpec(replicas=4, selector=SELECTOR, template=made)
        await world.create(REPLICASETS, ReplicaSet(metadata=meta(), spec=spec))
        await world.quiet()
        for _ in range(12):
            pod = chance.choice(await world.list(PODS))
            if chance.random() < 0.2:
                await world.of(PODS).delete(pod.metadata.name, grace_period_seconds=0)
            else:
                new = changed_at_random(chance, pod)
                is_status = new.metadata is pod.metadata
                await (world.of(PODS).update_status if is_status else world.of(PODS).update)(new)
            await world.quiet()
            pods = await world.list(PODS)
            active = [one for one in pods if is_active(one)]
            status = (await world.of(REPLICASETS).get("w")).status
            assert status.replicas == len(active) >= 4
            assert status.ready_replicas == status.available_replicas == sum(map(is_ready, active))
            assert status.fully_labeled_replicas == sum(labels.items() <= one.metadata.labels.items() for one in active)
            ending = (one for one in pods if one.metadata.deletion_timestamp is not None and not is_terminal(one))
            assert status.terminating_replicas == sum(1 for _ in ending)

    play(ReplicaSetController, body)


@run_with(lambda test: play((ReplicationControllerController, Kubelet), test))
async def test_a_replication_controller_stays_full(world: World) -> None:
    spec = ReplicationControllerSpec(replicas=2, selector={"app": "x"}, template=template())
    await world.create(REPLICATIONCONTROLLERS, ReplicationController(metadata=meta(), spec=spec))
    await world.quiet()
    owners = {owner.kind for pod in await world.list(PODS) for owner in pod.metadata.owner_references}
    assert owners == {"ReplicationController"}
    status = (await world.of(REPLICATIONCONTROLLERS).get("w")).status
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (2, 2, 2)
    await world.change(REPLICATIONCONTROLLERS, "w", lambda c: replace(c, spec=replace(c.spec, replicas=0)))
    await world.quiet()
    assert await world.list(PODS) == ()


@run_with(lambda test: play(ReplicaSetController, test, through=SpoiledTransport))
async def test_pods_that_cannot_be_decoded_count_and_are_not_replaced_again_and_again(world: World) -> None:
    made = template()
    odd = replace(made, metadata=replace(made.metadata, annotations={SPOILED: "spec.new"}))
    spec = ReplicaSetSpec(replicas=3, selector=SELECTOR, template=odd)
    await world.create(REPLICASETS, ReplicaSet(metadata=meta(), spec=spec))
    await world.clock.sleep(3000)
    names = await world.names(PODS)
    assert len(names) == 3
    await world.of(PODS).delete(names[0], grace_period_seconds=0)
    await world.clock.sleep(3000)
    assert len(await world.names(PODS)) == 3
    await world.change(REPLICASETS, "w", lambda r: replace(r, spec=replace(r.spec, replicas=1)))
    await world.clock.sleep(100)
    assert len(await world.names(PODS)) == 1
