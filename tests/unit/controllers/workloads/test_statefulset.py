"""Stateful sets, in order."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import (
    RollingUpdateStatefulSetStrategy,
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
    StatefulSetUpdateStrategy,
)
from cathedra.api.core.core_v1 import (
    Binding,
    ObjectReference,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    ResourceQuotaSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import CONTROLLERREVISIONS, PERSISTENTVOLUMECLAIMS, PODS, RESOURCEQUOTAS, STATEFULSETS
from cathedra.controllers.administration.quotas import ResourceQuotaController
from cathedra.controllers.workloads.statefulset import (
    StatefulSetController,
    is_member,
    is_owned_as_wanted,
    is_wanted,
    ordinal_of,
    ordinals_of,
    wanted_owners,
)
from cathedra.semantics.owners import controller_reference
from tests.running import run_with
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, images, meta, template
from tests.unit.controllers.world import World, play
from tests.unit.scheduler.objects import pod

ON_DELETE = StatefulSetUpdateStrategy(type="OnDelete")


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_a_stateful_set_counts_up_and_down_and_rolls_from_the_end(world: World) -> None:
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


@run_with(lambda test: play((StatefulSetController,), test))
async def test_a_stateful_set_tells_of_its_pods_and_counts_one_that_is_leaving_for_no_revision(world: World) -> None:
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


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_pods_that_are_being_deleted_are_replicas_but_of_no_revision(world: World) -> None:
    await world.create(STATEFULSETS, stateful_set(replicas=2, pod_management_policy="Parallel"))
    await world.quiet()
    for name in ("w-0", "w-1"):
        await world.change(PODS, name, lambda pod: with_metadata(pod, finalizers=("a.b/c",)))
    await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=0)))
    await world.quiet()
    assert await numbers(world) == {"all": 2, "ready": 2, "current": 0, "updated": 0}


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_on_delete_the_current_revision_stays_as_it_was(world: World) -> None:
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


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_as_many_pods_are_replaced_at_once_as_may_be_unavailable(world: World) -> None:
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


def bare(name: str, **labels: str) -> Pod:
    metadata = ObjectMeta(name=name, namespace="default", labels={"app": "x", **labels})
    return Pod(metadata=metadata, spec=template().spec)


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_only_pods_with_names_of_the_set_are_adopted_and_get_their_identity(world: World) -> None:
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


@run_with(lambda test: play((StatefulSetController,), test))
async def test_a_name_that_is_taken_is_no_event(world: World) -> None:
    await world.create(PODS, with_metadata(bare("w-0"), labels={}))
    await world.create(STATEFULSETS, stateful_set(replicas=1))
    await world.clock.sleep(5)
    assert await world.events() == []
    assert (await world.of(STATEFULSETS).get("w")).status.observed_generation == 1


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_revisions_that_pods_still_have_are_not_forgotten(world: World) -> None:
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


# Volume claims of stateful sets: made, kept, handed over.

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATA = from_dict(PersistentVolumeClaim, {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": CLAIM})
DELETE, RETAIN = "Delete", "Retain"


def stateful_set_volumeclaims(deleted: str = RETAIN, scaled: str = RETAIN, **changes: Any) -> StatefulSet:
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=deleted, when_scaled=scaled)
    spec = StatefulSetSpec(
        selector=SELECTOR,
        template=template(),
        service_name="svc",
        replicas=2,
        volume_claim_templates=(DATA,),
        persistent_volume_claim_retention_policy=policy,
    )
    return StatefulSet(metadata=meta(), spec=replace(spec, **changes))


async def owners(world: World) -> dict[str, list[str]]:
    """The owners of each claim, as kind and name."""
    claims = await world.list(PERSISTENTVOLUMECLAIMS)
    return {c.metadata.name: [f"{o.kind}/{o.name}" for o in c.metadata.owner_references] for c in claims}


async def scale(world: World, replicas: int) -> None:
    await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, replicas=replicas)))
    await world.quiet()


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_every_pod_gets_its_claims_before_it_is_made(world: World) -> None:
    await world.create(STATEFULSETS, stateful_set_volumeclaims())
    await world.quiet()
    assert await owners(world) == {"data-w-0": [], "data-w-1": []}
    claim = await world.of(PERSISTENTVOLUMECLAIMS).get("data-w-1")
    assert claim.metadata.labels == {"tier": "db", "app": "x"}
    (volume,) = (await world.of(PODS).get("w-1")).spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-w-1"
    told = ("Normal", "SuccessfulCreate", "Create Claim data-w-1 Pod w-1 in StatefulSet w success")
    assert told in await world.events()


@pytest.mark.parametrize(
    ("deleted", "scaled", "before", "after"),
    [
        (RETAIN, RETAIN, [], []),
        (DELETE, RETAIN, ["StatefulSet/w"], ["StatefulSet/w"]),
        (RETAIN, DELETE, [], ["Pod/w-1"]),
        (DELETE, DELETE, ["StatefulSet/w"], ["Pod/w-1"]),
    ],
)
@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_the_policy_says_who_owns_the_claims(
    world: World, *, deleted: str, scaled: str, before: list[str], after: list[str]
) -> None:
    await world.create(STATEFULSETS, stateful_set_volumeclaims(deleted, scaled))
    await world.quiet()
    assert await owners(world) == {"data-w-0": before, "data-w-1": before}
    await scale(world, 1)
    assert await owners(world) == {"data-w-0": before, "data-w-1": after}


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_a_policy_that_changes_is_told_of_running_pods(world: World) -> None:
    await world.create(STATEFULSETS, stateful_set_volumeclaims(replicas=1))
    await world.quiet()
    policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=DELETE, when_scaled=RETAIN)
    changed = {"persistent_volume_claim_retention_policy": policy}
    await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, **changed)))
    await world.quiet()
    assert await owners(world) == {"data-w-0": ["StatefulSet/w"]}
    assert ("Normal", "SuccessfulUpdate", "Update Pod w-0 in StatefulSet w successful") in await world.events()


@run_with(lambda test: play((StatefulSetController, Kubelet), test))
async def test_a_pod_waits_until_the_claims_of_its_predecessor_are_gone(world: World) -> None:
    await world.create(STATEFULSETS, stateful_set_volumeclaims(scaled=DELETE))
    await world.quiet()
    await scale(world, 1)
    assert await world.names(PODS) == ["w-0"]
    await scale(world, 2)
    assert await world.names(PODS) == ["w-0"]
    await world.of(PERSISTENTVOLUMECLAIMS).delete("data-w-1")
    # The controller that protects claims is not part of this world.
    await world.change(PERSISTENTVOLUMECLAIMS, "data-w-1", lambda claim: with_metadata(claim, finalizers=()))
    await world.change(STATEFULSETS, "w", lambda s: with_metadata(s, labels={"look": "again"}))
    await world.quiet()
    assert await world.names(PODS) == ["w-0", "w-1"]


@run_with(lambda test: play((StatefulSetController, ResourceQuotaController), test))
async def test_claims_that_are_refused_are_told_and_the_status_is_written_all_the_same(world: World) -> None:
    spec = ResourceQuotaSpec(hard={"persistentvolumeclaims": Quantity.parse("0")})
    await world.of(RESOURCEQUOTAS).create(
        ResourceQuota(metadata=ObjectMeta(name="none", namespace="default"), spec=spec)
    )
    await world.quiet()
    await world.create(STATEFULSETS, stateful_set_volumeclaims())
    await world.clock.sleep(5)
    assert await world.names(PODS) == []
    refusals = [message for _, reason, message in await world.events() if reason == "FailedCreate"]
    assert any(text.startswith("Create Claim data-w-0 for Pod w-0 in StatefulSet w failed") for text in refusals)
    start = "Create Pod w-0 in StatefulSet w failed error: failed to create PVC data-w-0: "
    assert any(text.startswith(start) for text in refusals)
    assert (await world.of(STATEFULSETS).get("w")).status.observed_generation == 1


SET = with_metadata(stateful_set_volumeclaims(DELETE, DELETE), uid="set")
POD = Pod(metadata=ObjectMeta(name="w-0", namespace="default", uid="pod"))


def owned(*references: OwnerReference) -> PersistentVolumeClaim:
    return with_metadata(DATA, owner_references=references)


def test_a_claim_of_an_earlier_set_is_left_alone() -> None:
    stale = replace(controller_reference(SET), uid="another")
    assert is_owned_as_wanted(SET, POD, owned(stale))


def test_a_claim_that_something_else_controls_is_no_longer_ours() -> None:
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="c", uid="c", controller=True)
    assert is_owned_as_wanted(SET, POD, owned(other))
    both = owned(other, controller_reference(SET))
    assert not is_owned_as_wanted(SET, POD, both)
    assert wanted_owners(SET, POD, both) == (other,)


def test_an_owner_that_does_not_control_is_made_the_controller() -> None:
    loose = owned(replace(controller_reference(SET), controller=None))
    assert not is_owned_as_wanted(SET, POD, loose)
    assert wanted_owners(SET, POD, loose) == (controller_reference(SET),)
    assert is_owned_as_wanted(SET, POD, owned(controller_reference(SET)))


def made(replicas: int | None = 3, start: int = 0) -> StatefulSet:
    return StatefulSet(
        metadata=meta("w-a"), spec=StatefulSetSpec(replicas=replicas, ordinals=StatefulSetOrdinals(start=start))
    )


@pytest.mark.parametrize(
    ("name", "member", "ordinal"),
    [
        ("w-a-0", True, 0),
        ("w-a-12", True, 12),
        ("w-a-2147483647", True, 2147483647),
        ("w-a-2147483648", True, None),
        ("w-a-99999999999999", True, None),
        ("w-a", False, None),
        ("w-a-x", False, None),
        ("w-0", False, None),
        ("w-a-0-0", False, None),
    ],
)
def test_a_pod_is_a_member_by_its_name(name: str, member: bool, ordinal: int | None) -> None:
    assert (is_member(made(), pod(name)), ordinal_of(made(), pod(name))) == (member, ordinal)


def test_ordinals_begin_where_the_set_says() -> None:
    assert list(ordinals_of(made(2, start=5))) == [5, 6]
    assert list(ordinals_of(made(None))) == [0]
    assert is_wanted(made(2, start=5), 6)
    assert not is_wanted(made(2, start=5), 4)
