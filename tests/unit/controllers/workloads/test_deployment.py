"""Replica sets, deployments, stateful sets and daemon sets, with nodes that do their part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import (
    DaemonSet,
    DaemonSetSpec,
    Deployment,
    DeploymentSpec,
    DeploymentStrategy,
    ReplicaSet,
    ReplicaSetSpec,
    RollingUpdateDeployment,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from cathedra.api.core.core_v1 import (
    Binding,
    Container,
    Node,
    NodeSpec,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplateSpec,
    Taint,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import DAEMONSETS, DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.workloads.daemonset import DaemonSetController
from cathedra.controllers.workloads.deployment import DeploymentController
from cathedra.controllers.workloads.replicaset import ReplicaSetController
from cathedra.controllers.workloads.rollout import down_step, limits, up_step
from cathedra.controllers.workloads.statefulset import StatefulSetController
from tests.unit.controllers.world import World, play, settle

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


def test_a_replica_set_stays_full_and_adopts() -> None:
    async def story(world: World) -> None:
        orphan = Pod(metadata=replace(meta("orphan"), labels={"app": "x"}), spec=template().spec)
        await world.create(PODS, orphan)
        spec = ReplicaSetSpec(replicas=3, selector=SELECTOR, template=template())
        await world.create(REPLICASETS, ReplicaSet(metadata=meta(), spec=spec))
        await settle(3)
        names = await world.names(PODS)
        assert len(names) == 3
        assert "orphan" in names
        status = (await world.of(REPLICASETS).get("w")).status
        assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
        await world.of(PODS).delete(names[0])
        await settle(3)
        assert len(await world.names(PODS)) == 3
        await world.change(REPLICASETS, "w", lambda r: replace(r, spec=replace(r.spec, replicas=1)))
        await settle(3)
        assert len(await world.names(PODS)) == 1

    play((ReplicaSetController, Kubelet), story)


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


def test_a_stateful_set_counts_up_and_down_and_rolls_from_the_end() -> None:
    async def story(world: World) -> None:
        spec = StatefulSetSpec(replicas=3, selector=SELECTOR, template=template(), service_name="svc")
        await world.create(STATEFULSETS, StatefulSet(metadata=meta(), spec=spec))
        await settle(0.5)
        assert await world.names(PODS) == ["w-0"]
        await settle(6)
        pods = await world.list(PODS)
        assert [pod.metadata.name for pod in pods] == ["w-0", "w-1", "w-2"]
        assert (pods[1].spec.hostname, pods[1].spec.subdomain) == ("w-1", "svc")
        assert pods[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        before = {pod.metadata.name: pod.metadata.uid for pod in pods}
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, template=template("v2"))))
        await settle(0.5)
        assert await images(world) == ["v1", "v1", "v2"]
        assert (await world.of(PODS).get("w-0")).metadata.uid == before["w-0"]
        await settle(10)
        assert await images(world) == ["v2"] * 3
        status = (await world.of(STATEFULSETS).get("w")).status
        assert status.current_revision == status.update_revision
        assert (status.updated_replicas, status.ready_replicas) == (3, 3)
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=1)))
        await settle(5)
        assert await world.names(PODS) == ["w-0"]

    play((StatefulSetController, Kubelet), story)


def test_a_stateful_set_tells_of_its_pods_and_counts_one_that_is_leaving_for_no_revision() -> None:
    async def story(world: World) -> None:
        spec = StatefulSetSpec(replicas=1, selector=SELECTOR, template=template(), service_name="svc")
        await world.create(STATEFULSETS, StatefulSet(metadata=meta(), spec=spec))
        await settle()
        (pod,) = await world.list(PODS)
        told = ("Normal", "SuccessfulCreate", f"Create Pod {pod.metadata.name} in StatefulSet w successful")
        assert told in await world.events()
        binding = Binding(metadata=ObjectMeta(name=pod.metadata.name), target=ObjectReference(kind="Node", name="n"))
        await world.of(PODS).create_subresource(pod.metadata.name, "binding", binding)
        await world.of(PODS).delete(pod.metadata.name)
        await settle()
        (obj,) = await world.list(STATEFULSETS)
        assert (obj.status.replicas, obj.status.current_replicas, obj.status.updated_replicas) == (1, 0, 0)

    play((StatefulSetController,), story)


def stateful_set(**changes: Any) -> StatefulSet:
    spec = StatefulSetSpec(selector=SELECTOR, template=template(), service_name="svc")
    return StatefulSet(metadata=meta(), spec=replace(spec, **changes))


async def numbers(world: World) -> dict[str, int | None]:
    status = (await world.of(STATEFULSETS).get("w")).status
    return {
        "all": status.replicas,
        "ready": status.ready_replicas,
        "current": status.current_replicas,
        "updated": status.updated_replicas,
    }


def test_pods_that_are_being_deleted_are_replicas_but_of_no_revision() -> None:
    async def story(world: World) -> None:
        await world.create(STATEFULSETS, stateful_set(replicas=2, pod_management_policy="Parallel"))
        await settle(3)
        for name in ("w-0", "w-1"):
            await world.change(PODS, name, lambda pod: with_metadata(pod, finalizers=("a.b/c",)))
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=0)))
        await settle()
        assert await numbers(world) == {"all": 2, "ready": 2, "current": 0, "updated": 0}

    play((StatefulSetController, Kubelet), story)


def test_on_delete_the_current_revision_stays_as_it_was() -> None:
    async def story(world: World) -> None:
        strategy = StatefulSetUpdateStrategy(type="OnDelete")
        await world.create(STATEFULSETS, stateful_set(replicas=1, update_strategy=strategy))
        await settle(3)
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, template=template("v2"))))
        await settle(3)
        assert await images(world) == ["v1"]
        await world.of(PODS).delete("w-0", grace_period_seconds=0)
        await settle(3)
        assert await images(world) == ["v2"]
        status = (await world.of(STATEFULSETS).get("w")).status
        assert status.current_revision != status.update_revision
        assert await numbers(world) == {"all": 1, "ready": 1, "current": 0, "updated": 1}

    play((StatefulSetController, Kubelet), story)


def test_a_daemon_set_has_a_pod_on_every_node_that_fits() -> None:
    async def story(world: World) -> None:
        for name in ("a", "b", "gpu"):
            labels = {"gpu": "yes"} if name == "gpu" else {}
            await world.create(NODES, Node(metadata=ObjectMeta(name=name, labels=labels)))
        tainted = NodeSpec(taints=(Taint(key="own", effect="NoSchedule"),))
        await world.create(NODES, Node(metadata=ObjectMeta(name="tainted"), spec=tainted))
        spec = DaemonSetSpec(selector=SELECTOR, template=template())
        await world.create(DAEMONSETS, DaemonSet(metadata=meta(), spec=spec))
        await settle(3)
        assert sorted(map(pinned_to, await world.list(PODS))) == ["a", "b", "gpu"]
        status = (await world.of(DAEMONSETS).get("w")).status
        assert (status.desired_number_scheduled, status.number_available) == (3, 3)
        only_gpu = replace(template("v2"), spec=replace(template("v2").spec, node_selector={"gpu": "yes"}))
        await world.change(DAEMONSETS, "w", lambda d: replace(d, spec=replace(d.spec, template=only_gpu)))
        await settle(10)
        assert sorted(map(pinned_to, await world.list(PODS))) == ["gpu"]
        assert await images(world) == ["v2"]

    play((DaemonSetController, Kubelet), story)


def pinned_to(pod: Pod) -> str:
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    assert required is not None
    (term,) = required.node_selector_terms or ()
    return term.match_fields[0].values[0]


@given(st.integers(0, 50), st.integers(0, 100), st.integers(0, 100), st.integers(0, 50), st.integers(0, 50))
def test_rollouts_never_exceed_their_limits(replicas: int, surge: int, lost: int, new: int, old: int) -> None:
    above, below = limits(replicas, f"{surge}%", f"{lost}%")
    assert above + below > 0
    wanted = up_step(replicas, above, min(new, replicas), min(new, replicas) + old)
    assert wanted >= min(new, replicas)
    assert wanted + old <= max(replicas + above, min(new, replicas) + old)
    assert down_step(replicas, below, new + old, 0) <= max(0, new + old - replicas + below)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [("25%", "25%", (1, 1)), (0, 0, (0, 1)), ("50%", 2, (2, 2)), (None, None, (1, 1))],
)
def test_percentages_round_in_favour_of_the_rollout(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(4, surge, unavailable) == expected
