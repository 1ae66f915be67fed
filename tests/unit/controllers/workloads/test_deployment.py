"""Replica sets, deployments, stateful sets and daemon sets, with nodes that do their part."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.api.core.apps_v1 import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    RollingUpdateDeployment,
)
from cathedra.api.struct import replace
from cathedra.client.resources import DEPLOYMENTS, PODS, REPLICASETS
from cathedra.controllers.workloads.deployment import DeploymentController
from cathedra.controllers.workloads.replicaset import ReplicaSetController
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play, settle


def deployment(replicas: int = 4, **changes: Any) -> Deployment:
    strategy = DeploymentStrategy(
        type="RollingUpdate", rolling_update=RollingUpdateDeployment(max_surge="25%", max_unavailable="25%")
    )
    spec: dict[str, Any] = {"strategy": strategy, "template": template(), "progress_deadline_seconds": 600, **changes}
    return Deployment(metadata=meta(), spec=DeploymentSpec(replicas=replicas, selector=SELECTOR, **spec))


def test_scaling_after_a_rollout_is_no_new_progress() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENTS, deployment())
        await settle(5)
        await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, replicas=6)))
        await settle(0.5)
        status = (await world.of(DEPLOYMENTS).get("w")).status
        assert (status.replicas, status.ready_replicas) == (6, 4)
        assert {c.type: c.reason for c in status.conditions}["Progressing"] == "NewReplicaSetAvailable"

    play((DeploymentController, ReplicaSetController, Kubelet), story)


def test_a_deployment_rolls_out_without_losing_too_many_pods() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENTS, deployment())
        await settle(5)
        status = (await world.of(DEPLOYMENTS).get("w")).status
        assert (status.replicas, status.updated_replicas, status.available_replicas) == (4, 4, 4)
        told = {c.type: (c.status, c.reason) for c in status.conditions}
        assert told == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }
        await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v2"))))
        fewest, most = 4, 4
        for _ in range(100):
            await asyncio.sleep(0.1)
            pods = [p for p in await world.list(PODS) if p.metadata.deletion_timestamp is None]
            ready = sum(any(c.status == "True" for c in pod.status.conditions) for pod in pods)
            fewest, most = min(fewest, ready), max(most, len(pods))
        assert await images(world) == ["v2"] * 4
        assert fewest >= 3
        assert most <= 5
        sets = await world.list(REPLICASETS)
        assert sorted(s.metadata.annotations["deployment.kubernetes.io/revision"] for s in sets) == ["1", "2"]
        assert sorted(s.spec.replicas or 0 for s in sets) == [0, 4]
        now = await world.of(DEPLOYMENTS).get("w")
        assert now.metadata.annotations["deployment.kubernetes.io/revision"] == "2"
        await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v1"))))
        await settle(15)
        assert await images(world) == ["v1"] * 4
        assert len(await world.list(REPLICASETS)) == 2
        back = await world.of(DEPLOYMENTS).get("w")
        assert back.metadata.annotations["deployment.kubernetes.io/revision"] == "3"

    play((DeploymentController, ReplicaSetController, Kubelet), story)


def test_a_broken_version_stops_and_is_told_after_the_deadline() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENTS, deployment(progress_deadline_seconds=30))
        await settle(5)
        bad = template("v2", broken="yes")
        await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=bad)))
        await settle(60)
        assert (await images(world)).count("v1") == 3
        status = (await world.of(DEPLOYMENTS).get("w")).status
        told = {c.type: (c.status, c.reason) for c in status.conditions}
        assert told["Progressing"] == ("False", "ProgressDeadlineExceeded")
        assert told["Available"] == ("True", "MinimumReplicasAvailable")

    play((DeploymentController, ReplicaSetController, Kubelet), story)


def test_recreate_never_runs_two_versions() -> None:
    async def story(world: World) -> None:
        await world.create(DEPLOYMENTS, deployment(strategy=DeploymentStrategy(type="Recreate")))
        await settle(5)
        await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v2"))))
        for _ in range(50):
            await asyncio.sleep(0.1)
            assert len(set(await images(world))) <= 1
        await settle(5)
        assert await images(world) == ["v2"] * 4

    play((DeploymentController, ReplicaSetController, Kubelet), story)
