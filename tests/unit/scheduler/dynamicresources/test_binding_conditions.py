"""Devices that must be attached before the pod is bound (docs/spec/scheduling.md §10)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.dynamicresources.binding_conditions import BindingFailed, Progress, progress, waits
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

CONDITIONS = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}
WAITING = ("BindingConditionsPending", "waiting for binding conditions for device on node n1")


async def prepare(world: World) -> None:
    await world.create(device_class(), node("n1"), slice_("n1", 1, **CONDITIONS), claim("c"))
    await world.create(pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
    await world.elapse(1)


async def report(world: World, condition: str) -> None:
    stored = await world.claim("c")
    entry: dict[str, Any] = {
        "driver": "gpu.example.com",
        "pool": "n1",
        "device": "gpu-0",
        "conditions": [{"type": condition, "status": "True", "reason": "Because", "message": "so it is"}],
    }
    devices = from_dict(ResourceClaim, {"status": {"devices": [entry]}}).status.devices
    await world.api(ResourceClaim).update_status(replace(stored, status=replace(stored.status, devices=devices)))


def test_the_pod_is_bound_when_the_device_is_attached() -> None:
    async def body(world: World) -> None:
        await prepare(world)
        assert await world.node_of("p") == ""
        assert await world.events("p") == [WAITING]
        allocation = (await world.claim("c")).status.allocation
        assert allocation is not None
        assert allocation.allocation_timestamp is not None
        assert (await world.pod("p")).status.nominated_node_name == "n1"
        await report(world, "Attached")
        await world.bound("p")
        assert (await world.pod("p")).status.nominated_node_name == ""

    play(body)


def test_a_failure_sends_the_pod_back_and_frees_the_claim() -> None:
    async def body(world: World) -> None:
        await prepare(world)
        await report(world, "Broken")
        await world.elapse(0.1)
        reason, message = await world.condition("p")
        assert (reason, message) == (
            "SchedulerError",
            'running PreBind plugin "DynamicResources": '
            'device binding failed: claim=c, reason=Because, message="so it is"',
        )
        assert (await world.claim("c")).status.reserved_for == ()
        await world.elapse(2)
        told = [text for reason, text in await world.events("p") if reason == "FailedScheduling"]
        assert any("deallocation of ResourceClaim completed" in text for text in told)

    play(body)


def test_a_device_that_is_never_attached_times_out_after_ten_minutes() -> None:
    async def body(world: World) -> None:
        await prepare(world)
        await world.elapse(595)
        assert await world.condition("p") == ("", "")
        await world.elapse(10)
        told = [text for reason, text in await world.events("p") if reason == "FailedScheduling"]
        assert any("device binding timeout: " in text for text in told)

    play(body)


def test_other_pods_are_bound_while_one_waits() -> None:
    async def body(world: World) -> None:
        await prepare(world)
        await world.create(pod("other"))
        await world.elapse(0.1)
        assert await world.node_of("other") == "n1"

    play(body)


def test_a_pod_that_is_deleted_while_it_waits_makes_room_at_once() -> None:
    async def body(world: World) -> None:
        await world.create(device_class(), node("n1", cpu="2"), slice_("n1", 1, **CONDITIONS), claim("c"))
        claims = [{"name": "c", "resourceClaimName": "c"}]
        await world.create(pod("p", requests={"cpu": "2"}, resourceClaims=claims))
        await world.elapse(1)
        await world.create(pod("other", requests={"cpu": "2"}))
        await world.elapse(1)
        assert await world.node_of("other") == ""
        await world.api(Pod).delete("p")
        await world.elapse(1)
        assert await world.node_of("other") == "n1"

    play(body)


def test_without_the_feature_such_devices_are_given_to_nobody() -> None:
    async def body(world: World) -> None:
        await prepare(world)
        assert await world.devices("c") == []
        assert "1 cannot allocate all claims" in (await world.condition("p"))[1]

    play(body, gates={"DRADeviceBindingConditions": False})


def awaited(**condition: str) -> ResourceClaim:
    """A claim with one device that waits to be attached since second 100; with what is reported of it."""
    device = {"driver": "d", "pool": "p", "device": "x"}
    allocation = {"devices": {"results": [{"request": "r", **device, **CONDITIONS}]}}
    status: dict[str, Any] = {"allocation": {**allocation, "allocationTimestamp": "1970-01-01T00:01:40Z"}}
    if condition:
        status["devices"] = [{**device, "conditions": [condition]}]
    return from_dict(ResourceClaim, {"metadata": {"name": "c"}, "status": status})


def test_a_device_is_waited_for_until_its_condition_is_true() -> None:
    assert waits(awaited())
    assert not waits(ResourceClaim())
    assert progress(awaited(), 101.0, 600.0) is Progress.WAITING
    assert progress(awaited(type="Attached", status="False"), 101.0, 600.0) is Progress.WAITING
    assert progress(awaited(type="Attached", status="True"), 101.0, 600.0) is Progress.READY
    assert progress(ResourceClaim(), 101.0, 600.0) is Progress.READY


def test_the_time_is_over_after_the_timeout_unless_all_is_ready() -> None:
    assert progress(awaited(), 130.0, 30.0) is Progress.WAITING
    with pytest.raises(BindingFailed, match="device binding timeout: claim=c"):
        progress(awaited(), 131.0, 30.0)
    assert progress(awaited(type="Attached", status="True"), 131.0, 30.0) is Progress.READY


def test_a_failure_that_is_not_true_is_none() -> None:
    assert progress(awaited(type="Broken", status="False"), 101.0, 600.0) is Progress.WAITING
    with pytest.raises(BindingFailed, match="reason=why"):
        progress(awaited(type="Broken", status="True", reason="why"), 101.0, 600.0)
