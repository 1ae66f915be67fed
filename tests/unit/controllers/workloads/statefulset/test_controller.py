"""Stateful sets, in order."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.apps_v1 import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from cathedra.api.core.core_v1 import (
    Binding,
    ObjectReference,
    Pod,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONTROLLERREVISIONS, PODS, STATEFULSETS
from cathedra.controllers.workloads.statefulset.controller import StatefulSetController
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play

ON_DELETE = StatefulSetUpdateStrategy(type="OnDelete")


def test_a_stateful_set_counts_up_and_down_and_rolls_from_the_end() -> None:
    async def story(world: World) -> None:
        spec = StatefulSetSpec(replicas=3, selector=SELECTOR, template=template(), service_name="svc")
        await world.create(STATEFULSETS, StatefulSet(metadata=meta(), spec=spec))
        await world.clock.sleep(0.5)
        assert await world.names(PODS) == ["w-0"]
        await world.quiet()
        pods = await world.list(PODS)
        assert [pod.metadata.name for pod in pods] == ["w-0", "w-1", "w-2"]
        assert (pods[1].spec.hostname, pods[1].spec.subdomain) == ("w-1", "svc")
        assert pods[1].metadata.labels["apps.kubernetes.io/pod-index"] == "1"
        before = {pod.metadata.name: pod.metadata.uid for pod in pods}
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, template=template("v2"))))
        await world.clock.sleep(0.5)
        assert await images(world) == ["v1", "v1", "v2"]
        assert (await world.of(PODS).get("w-0")).metadata.uid == before["w-0"]
        await world.quiet()
        assert await images(world) == ["v2"] * 3
        status = (await world.of(STATEFULSETS).get("w")).status
        assert status.current_revision == status.update_revision
        assert (status.updated_replicas, status.ready_replicas) == (3, 3)
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=1)))
        await world.quiet()
        assert await world.names(PODS) == ["w-0"]

    play((StatefulSetController, Kubelet), story)


def test_a_stateful_set_tells_of_its_pods_and_counts_one_that_is_leaving_for_no_revision() -> None:
    async def story(world: World) -> None:
        spec = StatefulSetSpec(replicas=1, selector=SELECTOR, template=template(), service_name="svc")
        await world.create(STATEFULSETS, StatefulSet(metadata=meta(), spec=spec))
        await world.quiet()
        (pod,) = await world.list(PODS)
        told = ("Normal", "SuccessfulCreate", f"Create Pod {pod.metadata.name} in StatefulSet w successful")
        assert told in await world.events()
        binding = Binding(metadata=ObjectMeta(name=pod.metadata.name), target=ObjectReference(kind="Node", name="n"))
        await world.of(PODS).create_subresource(pod.metadata.name, "binding", binding)
        await world.of(PODS).delete(pod.metadata.name)
        await world.quiet()
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
        await world.quiet()
        for name in ("w-0", "w-1"):
            await world.change(PODS, name, lambda pod: with_metadata(pod, finalizers=("a.b/c",)))
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=0)))
        await world.quiet()
        assert await numbers(world) == {"all": 2, "ready": 2, "current": 0, "updated": 0}

    play((StatefulSetController, Kubelet), story)


def test_on_delete_the_current_revision_stays_as_it_was() -> None:
    async def story(world: World) -> None:
        strategy = StatefulSetUpdateStrategy(type="OnDelete")
        await world.create(STATEFULSETS, stateful_set(replicas=1, update_strategy=strategy))
        await world.quiet()
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, template=template("v2"))))
        await world.quiet()
        assert await images(world) == ["v1"]
        await world.of(PODS).delete("w-0", grace_period_seconds=0)
        await world.quiet()
        assert await images(world) == ["v2"]
        status = (await world.of(STATEFULSETS).get("w")).status
        assert status.current_revision != status.update_revision
        assert await numbers(world) == {"all": 1, "ready": 1, "current": 0, "updated": 1}

    play((StatefulSetController, Kubelet), story)


def test_as_many_pods_are_replaced_at_once_as_may_be_unavailable() -> None:
    async def story(world: World) -> None:
        strategy = StatefulSetUpdateStrategy(rolling_update=RollingUpdateStatefulSetStrategy(max_unavailable="50%"))
        several = stateful_set(replicas=5, update_strategy=strategy, pod_management_policy="Parallel")
        await world.create(STATEFULSETS, several)
        await world.quiet()
        for name in await world.names(PODS):
            await world.change(PODS, name, lambda pod: with_metadata(pod, finalizers=("a.b/c",)))
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, template=template("v2"))))
        await world.quiet()
        leaving = [p.metadata.name for p in await world.list(PODS) if p.metadata.deletion_timestamp is not None]
        assert leaving == ["w-3", "w-4"]

    play((StatefulSetController, Kubelet), story)


def bare(name: str, **labels: str) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", labels={"app": "x", **labels})
    return Pod(metadata=metadata, spec=template().spec)


def test_only_pods_with_names_of_the_set_are_adopted_and_get_their_identity() -> None:
    async def story(world: World) -> None:
        await world.create(PODS, bare("w-0"))
        await world.create(PODS, bare("other"))
        await world.quiet()
        await world.create(STATEFULSETS, stateful_set(replicas=1, update_strategy=ON_DELETE))
        await world.quiet()
        pods = {pod.metadata.name: pod for pod in await world.list(PODS)}
        assert pods.keys() == {"other", "w-0"}
        assert [owner.name for owner in pods["w-0"].metadata.owner_references] == ["w"]
        assert pods["w-0"].metadata.labels["statefulset.kubernetes.io/pod-name"] == "w-0"
        assert pods["other"].metadata.owner_references == ()
        assert ("Normal", "SuccessfulUpdate", "Update Pod w-0 in StatefulSet w successful") in await world.events()

    play((StatefulSetController, Kubelet), story)


def test_a_name_that_is_taken_is_no_event() -> None:
    async def story(world: World) -> None:
        await world.create(PODS, with_metadata(bare("w-0"), labels={}))
        await world.create(STATEFULSETS, stateful_set(replicas=1))
        await world.clock.sleep(5)
        assert await world.events() == []
        assert (await world.of(STATEFULSETS).get("w")).status.observed_generation == 1

    play((StatefulSetController,), story)


def test_revisions_that_pods_still_have_are_not_forgotten() -> None:
    async def story(world: World) -> None:
        made = stateful_set(replicas=1, update_strategy=ON_DELETE, revision_history_limit=0)
        await world.create(STATEFULSETS, made)
        await world.quiet()
        for image in ("v2", "v3"):
            await world.change(
                STATEFULSETS, "w", lambda s, image=image: replace(s, spec=replace(s.spec, template=template(image)))
            )
            await world.quiet()
        kept = sorted(revision.revision for revision in await world.list(CONTROLLERREVISIONS))
        assert kept == [1, 3]

    play((StatefulSetController, Kubelet), story)
