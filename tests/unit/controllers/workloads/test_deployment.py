"""Replica sets, deployments, stateful sets and daemon sets, with nodes that do their part."""

from __future__ import annotations

import asyncio
from typing import Any

from cathedra.api.core.apps_v1 import (
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    RollingUpdateDeployment,
)
from cathedra.api.core.core_v1 import ResourceQuota, ResourceQuotaSpec
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import DEPLOYMENTS, PODS, REPLICASETS, RESOURCEQUOTAS
from cathedra.controllers.administration.quotas import ResourceQuotaController
from cathedra.controllers.workloads.deployment import DeploymentController
from cathedra.controllers.workloads.replicaset import ReplicaSetController
from tests.running import run_with
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play


def deployment(replicas: int = 4, **changes: Any) -> Deployment:
    strategy = DeploymentStrategy(
        type="RollingUpdate", rolling_update=RollingUpdateDeployment(max_surge="25%", max_unavailable="25%")
    )
    spec: dict[str, Any] = {"strategy": strategy, "template": template(), "progress_deadline_seconds": 600, **changes}
    return Deployment(metadata=meta(), spec=DeploymentSpec(replicas=replicas, selector=SELECTOR, **spec))


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_scaling_after_a_rollout_is_no_new_progress(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment())
    await world.quiet()
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, replicas=6)))
    await world.clock.sleep(0.5)
    status = (await world.of(DEPLOYMENTS).get("w")).status
    assert (status.replicas, status.ready_replicas) == (6, 4)
    assert {c.type: c.reason for c in status.conditions}["Progressing"] == "NewReplicaSetAvailable"


async def progress(world: World) -> tuple[str, str]:
    conditions = (await world.of(DEPLOYMENTS).get("w")).status.conditions
    return next((c.status, c.reason) for c in conditions if c.type == "Progressing")


async def sizes(world: World) -> list[int]:
    return sorted(replica_set.spec.replicas or 0 for replica_set in await world.list(REPLICASETS))


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_a_paused_deployment_says_so_and_is_scaled_but_not_rolled(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=2))
    await world.quiet()
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, paused=True)))
    await world.quiet()
    assert await progress(world) == ("Unknown", "DeploymentPaused")
    changed = {"template": template("v2"), "replicas": 3}
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, **changed)))
    await world.quiet()
    assert await images(world) == ["v1"] * 3
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, paused=False)))
    await world.clock.sleep(30)
    assert await images(world) == ["v2"] * 3
    assert await progress(world) == ("True", "NewReplicaSetAvailable")


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_recreate_waits_for_pods_that_are_being_deleted(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=1, strategy=DeploymentStrategy(type="Recreate")))
    await world.quiet()
    (pod,) = await world.list(PODS)
    await world.of(PODS).update(with_metadata(pod, finalizers=("a.b/c",)))
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v2"))))
    await world.quiet()
    assert await sizes(world) == [0]
    await world.change(PODS, pod.metadata.name, lambda pod: with_metadata(pod, finalizers=()))
    await world.quiet()
    assert await images(world) == ["v2"]


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_a_deployment_adopts_a_replica_set_of_its_template_and_releases_what_it_does_not_select(
    world: World,
) -> None:
    labels = {"app": "x", "pod-template-hash": "h"}
    made = template()
    made = replace(made, metadata=replace(made.metadata, labels=labels))
    spec = ReplicaSetSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=made)
    metadata = ObjectMeta(name="orphan", namespace="default", labels=labels)
    await world.create(REPLICASETS, ReplicaSet(metadata=metadata, spec=spec))
    await world.create(DEPLOYMENTS, deployment(replicas=1))
    await world.quiet()
    assert await world.names(REPLICASETS) == ["orphan"]
    adopted = await world.of(REPLICASETS).get("orphan")
    assert [owner.kind for owner in adopted.metadata.owner_references] == ["Deployment"]
    await world.of(REPLICASETS).update(with_metadata(adopted, labels={"app": "y"}))
    await world.quiet()
    assert (await world.of(REPLICASETS).get("orphan")).metadata.owner_references == ()
    assert len(await world.names(REPLICASETS)) == 2


@run_with(lambda test: play((DeploymentController, ReplicaSetController), test))
async def test_a_rollout_whose_pods_are_not_available_yet_is_progressing_and_says_from_where_it_scaled(
    world: World,
) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=3))
    await world.quiet()
    assert await progress(world) == ("True", "ReplicaSetUpdated")
    (name,) = await world.names(REPLICASETS)
    told = [message for _, reason, message in await world.events() if reason == "ScalingReplicaSet"]
    assert told == [f"Scaled up replica set {name} from 0 to 3"]


@run_with(lambda test: play((DeploymentController, ReplicaSetController), test))
async def test_an_empty_deployment_tells_of_no_scaling(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=0))
    await world.quiet()
    assert await sizes(world) == [0]
    assert await world.events() == []


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_a_deployment_rolls_out_without_losing_too_many_pods(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment())
    await world.quiet()
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
    await world.clock.sleep(15)
    assert await images(world) == ["v1"] * 4
    assert len(await world.list(REPLICASETS)) == 2
    back = await world.of(DEPLOYMENTS).get("w")
    assert back.metadata.annotations["deployment.kubernetes.io/revision"] == "3"


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_a_broken_version_stops_and_is_told_after_the_deadline(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(progress_deadline_seconds=30))
    await world.quiet()
    bad = template("v2", broken="yes")
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=bad)))
    await world.clock.sleep(60)
    assert (await images(world)).count("v1") == 3
    status = (await world.of(DEPLOYMENTS).get("w")).status
    told = {c.type: (c.status, c.reason) for c in status.conditions}
    assert told["Progressing"] == ("False", "ProgressDeadlineExceeded")
    assert told["Available"] == ("True", "MinimumReplicasAvailable")


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_recreate_never_runs_two_versions(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(strategy=DeploymentStrategy(type="Recreate")))
    await world.quiet()
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, template=template("v2"))))
    for _ in range(50):
        await asyncio.sleep(0.1)
        assert len(set(await images(world))) <= 1
    await world.quiet()
    assert await images(world) == ["v2"] * 4


async def roll(world: World, image: str, **changes: Any) -> None:
    changed = {"template": template(image), **changes}
    await world.change(DEPLOYMENTS, "w", lambda d: replace(d, spec=replace(d.spec, **changed)))
    await world.clock.sleep(30)


async def annotations(world: World, image: str) -> dict[str, str]:
    """Those of the replica set of a version, without the prefix of Kubernetes' own."""
    (found,) = [s for s in await world.list(REPLICASETS) if (s.spec.template.spec.containers or ())[0].image == image]
    return {key.removeprefix("deployment.kubernetes.io/"): v for key, v in found.metadata.annotations.items()}


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_a_version_that_is_rolled_back_to_remembers_its_revisions(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=1))
    await world.quiet()
    for image in ("v2", "v1", "v2", "v1"):
        await roll(world, image)
    found = await annotations(world, "v1")
    assert (found["revision"], found["revision-history"]) == ("5", "1,3")
    rolled = await world.of(DEPLOYMENTS).get("w")
    assert rolled.metadata.annotations["deployment.kubernetes.io/revision"] == "5"


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_the_newest_set_takes_over_annotations_and_the_time_until_pods_are_available(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=1))
    await world.quiet()
    await world.change(
        DEPLOYMENTS,
        "w",
        lambda d: replace(
            with_metadata(d, annotations={**d.metadata.annotations, "team": "a"}),
            spec=replace(d.spec, min_ready_seconds=100),
        ),
    )
    await world.quiet()
    assert (await annotations(world, "v1"))["team"] == "a"
    (replica_set,) = await world.list(REPLICASETS)
    assert replica_set.spec.min_ready_seconds == 100
    assert (await world.of(DEPLOYMENTS).get("w")).status.available_replicas == 0


@run_with(lambda test: play((DeploymentController, ReplicaSetController, Kubelet), test))
async def test_versions_beyond_the_history_are_counted_with_those_that_still_have_pods(world: World) -> None:
    await world.create(DEPLOYMENTS, deployment(replicas=1, revision_history_limit=1))
    await world.quiet()
    for image in ("v2", "v3", "v4"):
        await roll(world, image)
    left = [(await annotations(world, image))["revision"] for image in ("v3", "v4")]
    assert left == ["3", "4"]
    assert len(await world.names(REPLICASETS)) == 2


@run_with(lambda test: play((DeploymentController, ReplicaSetController, ResourceQuotaController), test))
async def test_a_replica_set_that_is_refused_is_told(world: World) -> None:
    spec = ResourceQuotaSpec(hard={"count/replicasets.apps": Quantity.parse("0")})
    metadata = ObjectMeta(name="none", namespace="default")
    await world.of(RESOURCEQUOTAS).create(ResourceQuota(metadata=metadata, spec=spec))
    await world.quiet()
    await world.create(DEPLOYMENTS, deployment(replicas=1))
    await world.clock.sleep(5)
    assert await progress(world) == ("False", "ReplicaSetCreateError")
    (told,) = {m for _, reason, m in await world.events() if reason == "ReplicaSetCreateError"}
    assert told.startswith('Failed to create new replica set "w-')
    assert "is forbidden" in told
