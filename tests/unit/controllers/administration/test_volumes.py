"""Persistent volumes stay while a claim is bound to them."""

from __future__ import annotations

from cathedra.api.core.core_v1 import PersistentVolume
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import PERSISTENTVOLUMES
from cathedra.controllers.administration.volumes import FINALIZER, VolumeProtectionController
from tests.unit.controllers.world import World, play

SPEC = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}


def test_a_deleted_volume_stays_until_it_is_no_longer_bound() -> None:
    async def story(world: World) -> None:
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

    play(VolumeProtectionController, story)
