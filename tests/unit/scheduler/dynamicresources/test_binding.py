"""The plugin's part of the binding cycle: decisions are written, or taken back whatever became of the write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.scheduler.dynamicresources.binding import BindingFailed, ClaimBinding, Progress, progress, waits
from cathedra.scheduler.dynamicresources.claims import ClaimCache, Resolver
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle, GroupClaims
from cathedra.scheduler.dynamicresources.writing import ClaimWriter
from tests.running import run_with
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play

RESULT = DeviceRequestAllocationResult(request="gpu", driver="gpu.example.com", pool="n1", device="gpu-0")
ALLOCATION = AllocationResult(devices=DeviceAllocationResult(results=(RESULT,)))
SLOW = AllocationResult(
    devices=DeviceAllocationResult(
        results=(replace(RESULT, binding_conditions=("Attached",), binding_failure_conditions=("Broken",)),)
    )
)


class FreeDevices:
    """Notes which claims need not be held any longer."""

    def __init__(self) -> None:
        self.settled: list[str] = []

    def settle(self, claim: ResourceClaim, holder: str) -> None:
        self.settled.append(f"{claim.metadata.name} of {holder}")


class Unanswered(ClaimWriter):
    """The first writes arrive, and their answers are lost."""

    lost = 1

    async def bind(self, *args: Any) -> ResourceClaim:
        if not self.lost:
            return await super().bind(*args)
        self.lost -= 1
        await ClaimWriter(self.client, self.clock, lambda _: None, stamps=True).bind(*args)
        raise ConnectionError("the answer is lost")


class Bench:
    """Everything around one pod's claims."""

    def __init__(self, api: API, writer: type[ClaimWriter] = ClaimWriter) -> None:
        self.api = api
        self.claims = ClaimCache(api.informers.of(RESOURCECLAIMS))
        self.claims.listen(lambda before, now: None)
        self.devices = FreeDevices()
        self.events: list[tuple[str, str]] = []
        recorder = SimpleNamespace(record=lambda _, __, reason, message, **___: self.events.append((reason, message)))
        self.binding = ClaimBinding(
            writer(api.client, api.clock, self.claims.assume, stamps=True),
            self.claims,
            self.devices,  # type: ignore[arg-type]  # as much of them as is called
            Resolver(self.claims.get, None),
            recorder,  # type: ignore[arg-type]  # as much of one as is called
            60.0,
        )

    async def start(self, *names: str) -> tuple[Pod, list[ResourceClaim]]:
        """Return a pod with these unallocated claims."""
        made = [await self.api.client.resource(RESOURCECLAIMS, "default").create(claim(name)) for name in names]
        user = await self.api.client.resource(PODS, "default").create(pod("p"))
        self.api.follow()
        await self.api.until(lambda: all(self.claims.get("default", name) for name in names))
        return user, made

    async def stored(self, name: str = "c") -> ResourceClaim:
        return await self.api.client.resource(RESOURCECLAIMS, "default").get(name)

    async def users(self, name: str = "c") -> list[str]:
        return [consumer.name for consumer in (await self.stored(name)).status.reserved_for]


def decided(claims: list[ResourceClaim], allocation: AllocationResult = ALLOCATION) -> ClaimCycle:
    return ClaimCycle(list(claims), chosen={claim.metadata.uid: allocation for claim in claims})


@run_with(with_api)
async def test_what_was_decided_is_written_once_and_need_not_be_held_any_longer(api: API) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c", "d")
    cycle = decided(claims)
    assert await bench.binding.write(cycle, user) is None
    assert [await bench.users(name) for name in ("c", "d")] == [["p"], ["p"]]
    assert [claim.status.allocation is not None for claim in cycle.claims] == [True, True]
    assert bench.devices.settled == [f"{name} of {user.metadata.uid}" for name in ("c", "d")]
    known = bench.claims.get("default", "c")
    assert known is not None
    assert known.status.allocation is not None, "whoever looks next sees it, whatever the informer has heard"
    version = (await bench.stored()).metadata.resource_version
    assert await bench.binding.write(cycle, user) is None
    assert (await bench.stored()).metadata.resource_version == version


@run_with(with_api)
async def test_a_pod_that_comes_to_nothing_lets_go_of_its_claims_but_not_of_their_devices(api: API) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c")
    cycle = decided(claims)
    await bench.binding.write(cycle, user)
    for _ in range(2):
        await bench.binding.withdraw(cycle, user)
        assert await bench.users() == []
        assert (await bench.stored()).status.allocation is not None


@run_with(with_api)
async def test_a_write_whose_answer_was_lost_is_found_out_about_before_it_is_taken_back(api: API) -> None:
    bench = Bench(api, Unanswered)
    user, claims = await bench.start("c")
    cycle = decided(claims)
    failed = await bench.binding.write(cycle, user)
    assert failed is not None
    assert failed.message == "the answer is lost"
    assert cycle.uncertain
    assert await bench.users() == ["p"], "it was written all the same"
    await bench.binding.withdraw(cycle, user)
    assert not cycle.uncertain
    assert await bench.users() == []


@run_with(with_api)
async def test_a_claim_that_another_has_allocated_meanwhile_fails_the_pod(api: API) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c")
    status = replace(claims[0].status, allocation=ALLOCATION)
    await api.client.resource(RESOURCECLAIMS, "default").update_status(replace(claims[0], status=status))
    failed = await bench.binding.write(decided(claims), user)
    assert failed is not None
    assert failed.message == "claim default/c got allocated elsewhere in the meantime"
    assert await bench.users() == []


@run_with(with_api)
async def test_of_the_pods_of_a_group_the_first_writes_the_allocation_and_the_others_join(api: API) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c")
    others = [user, *[await api.client.resource(PODS, "default").create(pod(name)) for name in ("q", "r")]]
    group = GroupClaims()
    cycles = [decided(claims) for _ in others]
    for cycle in cycles:
        cycle.group = group
    answers = await asyncio.gather(*map(bench.binding.write, cycles, others))
    assert answers == [None] * 3
    assert sorted(await bench.users()) == ["p", "q", "r"]


@run_with(with_api)
async def test_devices_that_are_ready_at_once_are_not_waited_for(api: API) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c")
    cycle = decided(claims)
    await bench.binding.write(cycle, user)
    assert await bench.binding.wait_for_conditions(cycle, user, "n1") is None
    assert bench.events == []


def cleared(found: ResourceClaim) -> ResourceClaim:
    return replace(found, status=replace(found.status, allocation=None, reserved_for=()))


@pytest.mark.parametrize(
    ("change", "why", "seconds"),
    [
        (lambda found: found, "device binding timeout: context deadline exceeded", 60),
        (cleared, "claim default/c got deallocated elsewhere in the meantime", 10),
    ],
)
@run_with(with_api)
async def test_devices_that_do_not_become_ready_fail_the_pod(
    api: API, *, change: Callable[[ResourceClaim], ResourceClaim], why: str, seconds: float
) -> None:
    bench = Bench(api)
    user, claims = await bench.start("c")
    cycle = decided(claims, SLOW)
    await bench.binding.write(cycle, user)
    begun = api.clock.monotonic()
    waiting = asyncio.ensure_future(bench.binding.wait_for_conditions(cycle, user, "n1"))
    await api.clock.sleep(10)
    assert bench.events == [("BindingConditionsPending", "waiting for binding conditions for device on node n1")]
    assert not waiting.done()
    await api.client.resource(RESOURCECLAIMS, "default").update_status(change(await bench.stored()))
    failed = await waiting
    assert failed is not None
    assert failed.message == why
    assert round(api.clock.monotonic() - begun) == seconds


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


@run_with(play)
async def test_the_pod_is_bound_when_the_device_is_attached(world: World) -> None:
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


@run_with(play)
async def test_a_failure_sends_the_pod_back_and_frees_the_claim(world: World) -> None:
    await prepare(world)
    await report(world, "Broken")
    await world.elapse(0.1)
    reason, message = await world.condition("p")
    assert (reason, message) == (
        "SchedulerError",
        'running PreBind plugin "DynamicResources": device binding failed: claim=c, reason=Because, message="so it is"',
    )
    assert (await world.claim("c")).status.reserved_for == ()
    await world.elapse(2)
    told = [text for reason, text in await world.events("p") if reason == "FailedScheduling"]
    assert any("deallocation of ResourceClaim completed" in text for text in told)


@run_with(play)
async def test_a_device_that_is_never_attached_times_out_after_ten_minutes(world: World) -> None:
    await prepare(world)
    await world.elapse(595)
    assert await world.condition("p") == ("", "")
    await world.elapse(10)
    told = [text for reason, text in await world.events("p") if reason == "FailedScheduling"]
    assert any("device binding timeout: " in text for text in told)


@run_with(play)
async def test_other_pods_are_bound_while_one_waits(world: World) -> None:
    await prepare(world)
    await world.create(pod("other"))
    await world.elapse(0.1)
    assert await world.node_of("other") == "n1"


@run_with(play)
async def test_a_pod_that_is_deleted_while_it_waits_makes_room_at_once(world: World) -> None:
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


@run_with(lambda test: play(test, gates={"DRADeviceBindingConditions": False}))
async def test_without_the_feature_such_devices_are_given_to_nobody(world: World) -> None:
    await prepare(world)
    assert await world.devices("c") == []
    assert "1 cannot allocate all claims" in (await world.condition("p"))[1]


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
