"""Persistent volumes stay while a claim is bound to them, and claims while a pod uses them."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import PersistentVolume, PersistentVolumeClaim, Pod
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import PERSISTENTVOLUMECLAIMS, PERSISTENTVOLUMES, PODS
from cathedra.controllers.administration.volumes import (
    CLAIM_FINALIZER,
    FINALIZER,
    ClaimProtectionController,
    VolumeProtectionController,
)
from tests.running import run_with
from tests.unit.controllers.world import World, play

SPEC = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}


@run_with(lambda test: play(VolumeProtectionController, test))
async def test_a_deleted_volume_stays_until_it_is_no_longer_bound(world: World) -> None:
    volumes = world.of(PERSISTENTVOLUMES)
    made = await volumes.create(from_dict(PersistentVolume, {"metadata": {"name": "v"}, "spec": SPEC}))
    assert made.metadata.finalizers == (FINALIZER,)
    bound = await volumes.update_status(replace(made, status=replace(made.status, phase="Bound")))
    await volumes.delete("v")
    await world.quiet()
    (kept,) = await world.list(PERSISTENTVOLUMES)
    assert kept.metadata.finalizers == (FINALIZER,)
    await volumes.update_status(replace(kept, status=replace(bound.status, phase="Released")))
    await world.quiet()
    assert await world.names(PERSISTENTVOLUMES) == []


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
BY_NAME: dict[str, Any] = {"name": "v", "persistentVolumeClaim": {"claimName": "p-v"}}
EPHEMERAL: dict[str, Any] = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": CLAIM}}}


@pytest.mark.parametrize("volume", [BY_NAME, EPHEMERAL])
@pytest.mark.parametrize("ends", [True, False])
@run_with(lambda test: play(ClaimProtectionController, test))
async def test_a_deleted_claim_stays_until_no_pod_uses_it(world: World, *, volume: dict[str, Any], ends: bool) -> None:
    claims, pods = world.of(PERSISTENTVOLUMECLAIMS), world.of(PODS)
    made = await claims.create(from_dict(PersistentVolumeClaim, {"metadata": {"name": "p-v"}, "spec": CLAIM}))
    assert made.metadata.finalizers == (CLAIM_FINALIZER,)
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [volume], "nodeName": "n"}
    pod = await pods.create(from_dict(Pod, {"metadata": {"name": "p"}, "spec": spec}))
    await claims.delete("p-v")
    await world.quiet()
    assert await world.names(PERSISTENTVOLUMECLAIMS) == ["p-v"]
    if ends:
        await pods.update_status(replace(pod, status=replace(pod.status, phase="Succeeded")))
    else:
        await pods.delete("p", grace_period_seconds=0)
    await world.quiet()
    assert await world.names(PERSISTENTVOLUMECLAIMS) == []


@run_with(lambda test: play(ClaimProtectionController, test))
async def test_a_pod_without_a_node_does_not_keep_a_claim(world: World) -> None:
    claims = world.of(PERSISTENTVOLUMECLAIMS)
    await claims.create(from_dict(PersistentVolumeClaim, {"metadata": {"name": "p-v"}, "spec": CLAIM}))
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": [BY_NAME]}
    await world.of(PODS).create(from_dict(Pod, {"metadata": {"name": "p"}, "spec": spec}))
    await claims.delete("p-v")
    await world.quiet()
    assert await world.names(PERSISTENTVOLUMECLAIMS) == []
