"""The scenarios of pod groups that share a claim: I3, K3 and a part of M6 (docs/spec/driver-sdk.md §20)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import DeviceTaintRule, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import DEVICETAINTRULES, PODGROUPS, PODS
from cathedra.clock import LoopClock
from tests.running import on_virtual_clock, run_with
from tests.simulation.actors import NAME, TEST, Actors, play
from tests.simulation.demos import Machine, staged

GATES = "GenericWorkload=true"
SERVED = ("--runtime-config", "scheduling.k8s.io/v1beta1=true")
ON = (*TEST, "--feature-gates", f"{GATES},DRAWorkloadResourceClaims=true", *SERVED)
OFF = (*TEST, "--feature-gates", f"{GATES},DRAWorkloadResourceClaims=false", *SERVED)


async def a_group(on: Actors, least: int = 1) -> None:
    """A group that brings a claim along, made of the template ``template``."""
    await on.a_class()
    await on.a_template()
    body = {
        "metadata": {"name": "group"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": least}},
            "resourceClaims": [{"name": "template", "resourceClaimTemplateName": "template"}],
        },
    }
    await on.stage.client.resource(PODGROUPS, "default").create(from_dict(PodGroup, body))


async def a_member(on: Actors, name: str) -> None:
    await on.a_pod(name, "t:template", schedulingGroup={"podGroupName": "group"})


async def the_claim(on: Actors) -> ResourceClaim:
    """The claim of the group; there is no other."""
    (claim,) = await on.claims()
    assert [(one.resource, one.name) for one in claim.status.reserved_for] == [("podgroups", "group")]
    return claim


@run_with(lambda test: play(test, *ON))
async def test_i3_the_members_of_a_group_whose_claim_has_a_broken_device_are_evicted(on: Actors) -> None:
    await a_group(on, 2)
    for name in ("one", "two"):
        await a_member(on, name)
    await on.settle()
    assert [await on.phase(name) for name in ("one", "two")] == ["Running", "Running"]
    claim = await the_claim(on)
    pods = on.stage.client.resource(PODS, "default")
    for name in ("one", "two"):
        pod = await pods.get(name)
        # So that what was written into the status can be read after the pod is gone.
        await pods.update(replace(pod, metadata=replace(pod.metadata, finalizers=("example.com/keep",))))
    ((_, driver, device),) = await on.results(claim.metadata.name)
    selector = {"driver": driver, "device": device}
    body = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": selector, "taint": TAINT}}
    await on.stage.client.resource(DEVICETAINTRULES).create(from_dict(DeviceTaintRule, body))
    await on.settle()
    for name in ("one", "two"):
        pod = await pods.get(name)
        assert pod.metadata.deletion_timestamp is not None
        (condition,) = (one for one in pod.status.conditions if one.type == "DisruptionTarget")
        assert condition.reason == "DeletionByDeviceTaintManager"
        assert condition.message == "Device Taint manager: deleting due to NoExecute taint"


TAINT: dict[str, Any] = {"key": "example.com/broken", "effect": "NoExecute"}


@on_virtual_clock
async def test_k3_a_group_keeps_its_claim_while_the_feature_is_off_and_goes_on_when_it_is_on_again() -> None:
    """Also M6: from 1.37 on no pod of a group gets a claim of its own while the feature is off."""
    machine = Machine(LoopClock(asyncio.get_running_loop()))
    async with staged(*ON, machine=machine) as stage:
        on = Actors(stage, NAME)
        await a_group(on)
        for name in ("stays", "goes"):
            await a_member(on, name)
        await on.settle()
        assert [await on.phase(name) for name in ("stays", "goes")] == ["Running", "Running"]
        before = await the_claim(on)
        group = await stage.client.resource(PODGROUPS, "default").get("group")
        assert [one.resource_claim_name for one in group.status.resource_claim_statuses] == [before.metadata.name]
    async with staged(*OFF, machine=machine) as stage:
        on = Actors(stage, NAME)
        await a_member(on, "stuck")
        await on.settle(200)
        assert [await on.phase(name) for name in ("stays", "goes", "stuck")] == ["Running", "Running", "Pending"]
        assert unchanged(await the_claim(on), before)
        for name in ("stuck", "goes"):
            await on.finish(name)
        await on.settle()
        for name in ("stuck", "goes"):
            with pytest.raises(StatusError, match="not found"):
                await on.pod(name)
        assert unchanged(await the_claim(on), before)
    async with staged(*ON, machine=machine) as stage:
        on = Actors(stage, NAME)
        await a_member(on, "new")
        await on.settle(200)
        assert [await on.phase(name) for name in ("stays", "new")] == ["Running", "Running"]
        assert unchanged(await the_claim(on), before)


def unchanged(claim: ResourceClaim, before: ResourceClaim) -> bool:
    return (claim.metadata.uid, claim.status) == (before.metadata.uid, before.status)
