"""Volume claims of stateful sets: made, kept, handed over."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import (
    StatefulSet,
    StatefulSetOrdinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy,
    StatefulSetSpec,
)
from cathedra.api.core.core_v1 import PersistentVolumeClaim, Pod, ResourceQuota, ResourceQuotaSpec
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, PODS, RESOURCEQUOTAS, STATEFULSETS
from cathedra.controllers.administration.quotas import ResourceQuotaController
from cathedra.controllers.workloads.statefulset.controller import StatefulSetController
from cathedra.controllers.workloads.statefulset.volumeclaims import (
    is_member,
    is_owned_as_wanted,
    is_wanted,
    ordinal_of,
    ordinals_of,
    wanted_owners,
)
from cathedra.semantics.owners import controller_reference
from tests.unit.controllers.workloads.objects import SELECTOR, Kubelet, meta, template
from tests.unit.controllers.world import World, play
from tests.unit.scheduler.objects import pod

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
DATA = from_dict(PersistentVolumeClaim, {"metadata": {"name": "data", "labels": {"tier": "db"}}, "spec": CLAIM})
DELETE, RETAIN = "Delete", "Retain"


def stateful_set(deleted: str = RETAIN, scaled: str = RETAIN, **changes: Any) -> StatefulSet:
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


def test_every_pod_gets_its_claims_before_it_is_made() -> None:
    async def story(world: World) -> None:
        await world.create(STATEFULSETS, stateful_set())
        await world.quiet()
        assert await owners(world) == {"data-w-0": [], "data-w-1": []}
        claim = await world.of(PERSISTENTVOLUMECLAIMS).get("data-w-1")
        assert claim.metadata.labels == {"tier": "db", "app": "x"}
        (volume,) = (await world.of(PODS).get("w-1")).spec.volumes
        assert volume.persistent_volume_claim is not None
        assert volume.persistent_volume_claim.claim_name == "data-w-1"
        told = ("Normal", "SuccessfulCreate", "Create Claim data-w-1 Pod w-1 in StatefulSet w success")
        assert told in await world.events()

    play((StatefulSetController, Kubelet), story)


@pytest.mark.parametrize(
    ("deleted", "scaled", "before", "after"),
    [
        (RETAIN, RETAIN, [], []),
        (DELETE, RETAIN, ["StatefulSet/w"], ["StatefulSet/w"]),
        (RETAIN, DELETE, [], ["Pod/w-1"]),
        (DELETE, DELETE, ["StatefulSet/w"], ["Pod/w-1"]),
    ],
)
def test_the_policy_says_who_owns_the_claims(deleted: str, scaled: str, before: list[str], after: list[str]) -> None:
    async def story(world: World) -> None:
        await world.create(STATEFULSETS, stateful_set(deleted, scaled))
        await world.quiet()
        assert await owners(world) == {"data-w-0": before, "data-w-1": before}
        await scale(world, 1)
        assert await owners(world) == {"data-w-0": before, "data-w-1": after}

    play((StatefulSetController, Kubelet), story)


def test_a_policy_that_changes_is_told_of_running_pods() -> None:
    async def story(world: World) -> None:
        await world.create(STATEFULSETS, stateful_set(replicas=1))
        await world.quiet()
        policy = StatefulSetPersistentVolumeClaimRetentionPolicy(when_deleted=DELETE, when_scaled=RETAIN)
        changed = {"persistent_volume_claim_retention_policy": policy}
        await world.change(STATEFULSETS, "w", lambda s: replace(s, spec=replace(s.spec, **changed)))
        await world.quiet()
        assert await owners(world) == {"data-w-0": ["StatefulSet/w"]}
        assert ("Normal", "SuccessfulUpdate", "Update Pod w-0 in StatefulSet w successful") in await world.events()

    play((StatefulSetController, Kubelet), story)


def test_a_pod_waits_until_the_claims_of_its_predecessor_are_gone() -> None:
    async def story(world: World) -> None:
        await world.create(STATEFULSETS, stateful_set(scaled=DELETE))
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

    play((StatefulSetController, Kubelet), story)


def test_claims_that_are_refused_are_told_and_the_status_is_written_all_the_same() -> None:
    async def story(world: World) -> None:
        spec = ResourceQuotaSpec(hard={"persistentvolumeclaims": Quantity.parse("0")})
        await world.of(RESOURCEQUOTAS).create(
            ResourceQuota(metadata=ObjectMeta(name="none", namespace="default"), spec=spec)
        )
        await world.quiet()
        await world.create(STATEFULSETS, stateful_set())
        await world.clock.sleep(5)
        assert await world.names(PODS) == []
        refusals = [message for _, reason, message in await world.events() if reason == "FailedCreate"]
        assert any(text.startswith("Create Claim data-w-0 for Pod w-0 in StatefulSet w failed") for text in refusals)
        start = "Create Pod w-0 in StatefulSet w failed error: failed to create PVC data-w-0: "
        assert any(text.startswith(start) for text in refusals)
        assert (await world.of(STATEFULSETS).get("w")).status.observed_generation == 1

    play((StatefulSetController, ResourceQuotaController), story)


SET = with_metadata(stateful_set(DELETE, DELETE), uid="set")
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
