"""Pods with claims: resolving, allocating, reserving, releasing (docs/spec/scheduling.md §2 to §9)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import (
    DeviceClaimConfiguration,
    DeviceTaintRule,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceClaimStatus,
    ResourceSlice,
)
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, conflict
from cathedra.api.struct import Quantity, RawJSON, from_dict, replace
from cathedra.client.transport import APICall, EventType, PatchType
from tests.running import run_with
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import DRIVER, claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

FINALIZER = "resource.kubernetes.io/delete-protection"
NOT_HELPFUL = "preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."


def user(name: str, *claims: str, **spec: Any) -> Pod:
    """A pod that uses claims by name."""
    entries = [{"name": f"c{i}", "resourceClaimName": used} for i, used in enumerate(claims)]
    return pod(name, resourceClaims=entries, **spec)


async def gpus(world: World, *names: str, devices: int = 1) -> None:
    """Nodes with GPUs, and their class."""
    await world.create(device_class())
    for name in names:
        await world.create(node(name), slice_(name, devices))


@run_with(play)
async def test_a_claim_is_allocated_protected_and_reserved_before_the_pod_is_bound(world: World) -> None:
    await gpus(world, "n1", devices=2)
    await world.create(claim("c"), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    stored = await world.claim("c")
    assert await world.devices("c") == [("n1", "gpu-0")]
    assert stored.metadata.finalizers == (FINALIZER,)
    uid = (await world.pod("p")).metadata.uid
    assert [(r.resource, r.name, r.uid) for r in stored.status.reserved_for] == [("pods", "p", uid)]


def opaque(text: bytes) -> DeviceClaimConfiguration:
    return DeviceClaimConfiguration(opaque=OpaqueDeviceConfiguration(driver=DRIVER, parameters=RawJSON(text)))


@pytest.mark.parametrize(
    "text",
    [
        b'{ "a" : 1 }',
        b'{"a":1.0,\n\t"b" : [ ]}',
        b'{"z":1,"a":{"y":1e3,"b":"\\u00e9 \xc3\xa9"}}',
        b'{"n":12345678901234567890}',
    ],
)
@run_with(lambda test: play(test, served=()))
async def test_parameters_of_drivers_reach_the_allocation_however_they_are_written(
    world: World, *, text: bytes
) -> None:
    """A pod whose claim's parameters came back in another spelling was never bound: the spec seemed to change."""
    await gpus(world, "n1")
    made = claim("c")
    devices = replace(made.spec.devices, config=(opaque(text),))
    await world.create(replace(made, spec=replace(made.spec, devices=devices)), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    allocation = (await world.claim("c")).status.allocation
    assert allocation is not None
    (config,) = allocation.devices.config
    assert config.opaque is not None
    assert config.opaque.parameters is not None
    assert config.opaque.parameters.load() == RawJSON(text).load()


@run_with(play)
async def test_two_entries_may_name_one_claim(world: World) -> None:
    """kube-scheduler allocates it for both, finds so when it writes the second, and succeeds at its next attempt."""
    await gpus(world, "n1", devices=2)
    await world.create(claim("c"), user("p", "c", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert len(await world.devices("c")) == 1
    assert [consumer.name for consumer in (await world.claim("c")).status.reserved_for] == ["p"]
    why = 'running PreBind plugin "DynamicResources": claim default/c got allocated elsewhere in the meantime'
    assert ("FailedScheduling", why) in await world.events("p")


@run_with(play)
async def test_two_pods_share_a_claim_and_its_node(world: World) -> None:
    await gpus(world, "n1", "n2", devices=1)
    await world.create(claim("c"), user("p1", "c"), user("p2", "c"))
    await world.quiet()
    assert await world.node_of("p1") == await world.node_of("p2") != ""
    assert {r.name for r in (await world.claim("c")).status.reserved_for} == {"p1", "p2"}


@run_with(play)
async def test_a_pod_whose_claim_is_just_being_allocated_for_another_says_so_and_follows_at_once(world: World) -> None:
    await gpus(world, "n1", "n2", devices=1)
    await world.create(claim("c"), user("p1", "c"), user("p2", "c"))
    await world.quiet()
    told = await world.events("p1") + await world.events("p2")
    why = (
        "0/2 nodes are available: resource claim default/c is in the process of being allocated. "
        + NOT_HELPFUL.format(n=2)
    )
    assert [message for reason, message in told if reason == "FailedScheduling"] == [why]
    assert await world.node_of("p1") == await world.node_of("p2") != ""


@run_with(play)
async def test_pods_like_one_that_fits_nowhere_are_refused_in_the_same_words_until_a_device_comes(world: World) -> None:
    await gpus(world, "n1", "n2", "n3")
    names = [f"p{number}" for number in range(4)]
    for number, name in enumerate(names):
        await world.create(claim(f"c{number}", exactly(count=2)), user(name, f"c{number}"))
    await world.quiet()
    why = f"0/3 nodes are available: 3 cannot allocate all claims. {NOT_HELPFUL.format(n=3)}"
    assert [await world.condition(name) for name in names] == [("Unschedulable", why)] * 4
    await world.create(node("n4"), slice_("n4", 4))
    await world.quiet()
    assert sorted([await world.node_of(name) for name in names]) == ["", "", "n4", "n4"]
    (waiting, _) = [name for name in names if not await world.node_of(name)]
    assert (await world.condition(waiting))[1].startswith("0/4 nodes are available: 4 cannot allocate all claims.")


@run_with(play)
async def test_no_device_is_given_twice_and_who_got_none_says_why(world: World) -> None:
    await gpus(world, "n1", "n2")
    for index in range(3):
        await world.create(claim(f"c{index}"), user(f"p{index}", f"c{index}"))
    await world.quiet()
    got = [device for index in range(3) for device in await world.devices(f"c{index}")]
    assert sorted(got) == [("n1", "gpu-0"), ("n2", "gpu-0")]
    [waiting] = [f"p{i}" for i in range(3) if not await world.node_of(f"p{i}")]
    why = f"0/2 nodes are available: 2 cannot allocate all claims. {NOT_HELPFUL.format(n=2)}"
    assert await world.condition(waiting) == ("Unschedulable", why)


@run_with(play)
async def test_a_device_that_becomes_free_goes_to_the_pod_that_waits(world: World) -> None:
    await gpus(world, "n1")
    await world.create(claim("c1"), claim("c2"), user("p1", "c1"))
    await world.quiet()
    await world.create(user("p2", "c2"))
    await world.quiet()
    assert await world.node_of("p2") == ""
    held = await world.claim("c1")
    await world.api(ResourceClaim).update_status(replace(held, status=ResourceClaimStatus()))
    await world.quiet()
    assert await world.node_of("p2") == "n1"


@run_with(play)
async def test_a_new_slice_wakes_the_pod(world: World) -> None:
    await world.create(device_class(), node("n1"), claim("c"), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == ""
    await world.create(slice_("n1"))
    await world.quiet()
    assert await world.node_of("p") == "n1"


@run_with(play)
async def test_a_missing_claim_keeps_the_pod_out_of_the_queue_until_it_is_created(world: World) -> None:
    await gpus(world, "n1")
    await world.create(user("p", "c"))
    await world.quiet()
    assert world.scheduler.statistics()["gated"] == 1
    assert await world.events("p") == []
    await world.create(claim("c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"


def test_a_template_claim_is_used_only_by_its_owner() -> None:
    async def body(world: World) -> None:
        await gpus(world, "n1")
        await world.create(pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}]))
        await world.quiet()
        assert world.scheduler.statistics()["gated"] == 1
        stored = await world.pod("p")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": stored.metadata.uid, "controller": True}
        made = claim("p-gpu-x")
        await world.create(
            replace(made, metadata=replace(made.metadata, owner_references=(from_dict(type_of_owner(), owner),)))
        )
        statuses = [{"name": "gpu", "resourceClaimName": "p-gpu-x"}]
        named = from_dict(Pod, {"status": {"resourceClaimStatuses": statuses}}).status
        status = replace(stored.status, resource_claim_statuses=named.resource_claim_statuses)
        await world.api(Pod).update_status(replace(stored, status=status))
        await world.quiet()
        assert await world.node_of("p") == "n1"

    def type_of_owner() -> Any:
        from cathedra.api.core.meta_v1 import OwnerReference

        return OwnerReference

    play(body)


@run_with(play)
async def test_a_missing_class_is_named_once_for_all_nodes(world: World) -> None:
    await world.create(node("n1"), node("n2"), claim("c"), user("p", "c"))
    await world.quiet()
    why = "0/2 nodes are available: request gpu: device class gpu does not exist. " + NOT_HELPFUL.format(n=2)
    assert await world.condition("p") == ("Unschedulable", why)
    await world.create(device_class(), slice_("n2"))
    await world.quiet()
    assert await world.node_of("p") == "n2"


@run_with(play)
async def test_a_claim_in_the_wrong_place_is_deallocated_and_allocated_again(world: World) -> None:
    await gpus(world, "n1", "n2")
    await world.create(claim("c"), user("first", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
    await world.quiet()
    held = await world.claim("c")
    await world.api(ResourceClaim).update_status(replace(held, status=replace(held.status, reserved_for=())))
    await world.create(user("second", "c", nodeSelector={"kubernetes.io/hostname": "n2"}))
    await world.quiet()
    assert await world.node_of("second") == "n2"
    assert await world.devices("c") == [("n2", "gpu-0")]
    told = [message for reason, message in await world.events("second") if reason == "FailedScheduling"]
    assert told == [
        "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 resourceclaim not available on the node. deallocation of ResourceClaim completed, " + NOT_HELPFUL.format(n=2)
    ]


@run_with(play)
async def test_a_claim_that_somebody_else_uses_is_not_taken_away(world: World) -> None:
    await gpus(world, "n1", "n2")
    await world.create(claim("c"), user("first", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
    await world.quiet()
    await world.create(user("second", "c", nodeSelector={"kubernetes.io/hostname": "n2"}))
    await world.quiet()
    assert await world.devices("c") == [("n1", "gpu-0")]
    assert await world.node_of("second") == ""


class Placing(PassedOn):
    """Shows the scheduler pods as another scheduler has placed them, which its watch does not show yet."""

    def __init__(self, inner: Any, node: str) -> None:
        self._inner, self._node = inner, node

    async def call(self, call: APICall) -> Any:
        found = await self._inner.call(call)
        if call.verb != "get" or call.ref.resource != "pods":
            return found
        return replace(found, spec=replace(found.spec, node_name=self._node))


@pytest.mark.parametrize(("placed", "node"), [("n1", "n1"), ("", "n2")])
def test_the_claim_of_a_pod_that_another_scheduler_has_placed_is_not_taken_away(placed: str, node: str) -> None:
    @run_with(lambda test: play(test, transport=lambda inner: Placing(inner, placed)))
    async def scenario(world: World) -> None:
        await gpus(world, "n1", "n2")
        await world.create(claim("c"), user("first", "c", nodeSelector={"kubernetes.io/hostname": "n1"}))
        await world.quiet()
        gates = [{"name": "not-yet"}]
        await world.create(user("second", "c", nodeSelector={"kubernetes.io/hostname": "n2"}, schedulingGates=gates))
        held, second = await world.claim("c"), await world.api(Pod).get("second")
        consumer = replace(held.status.reserved_for[0], name="second", uid=second.metadata.uid)
        reserved = replace(held.status, reserved_for=(consumer,))
        await world.api(ResourceClaim).update_status(replace(held, status=reserved))
        await world.api(Pod).update(replace(second, spec=replace(second.spec, scheduling_gates=())))
        await world.quiet()
        assert await world.devices("c") == [(node, "gpu-0")]

    scenario()


class Meddler(PassedOn):
    """Lets the scheduler's first status updates of claims fail."""

    def __init__(self, inner: Any, failures: list[Exception]) -> None:
        self._inner = inner
        self._failures = failures

    async def call(self, call: APICall) -> Any:
        if _is_claim_status(call) and self._failures:
            raise self._failures.pop(0)
        return await self._inner.call(call)


def _is_claim_status(call: APICall) -> bool:
    return call.verb == "update" and call.ref.resource == "resourceclaims" and call.subresource == "status"


def conflicts(count: int) -> list[Exception]:
    return [conflict(GroupResource("resource.k8s.io", "resourceclaims"), "c", "changed") for _ in range(count)]


@run_with(lambda test: play(test, transport=lambda inner: Meddler(inner, conflicts(4))))
async def test_a_conflict_is_tried_again_on_a_fresh_copy(world: World) -> None:
    await gpus(world, "n1")
    await world.create(claim("c"), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n1"
    assert [reason for reason, _ in await world.events("p")] == ["Scheduled"]


@run_with(lambda test: play(test, transport=lambda inner: Meddler(inner, conflicts(5))))
async def test_too_many_conflicts_send_the_pod_back_and_free_its_device(world: World) -> None:
    await gpus(world, "n1")
    await world.create(claim("c"), user("p", "c"))
    await world.elapse(0.9)
    reason, message = await world.condition("p")
    assert reason == "SchedulerError"
    assert message.startswith(
        'running PreBind plugin "DynamicResources": add allocation and reservation to claim default/c: '
    )
    await world.create(claim("c2"), user("p2", "c2"))
    await world.quiet()
    assert await world.node_of("p2") == "n1"


class LostAnswer(Meddler):
    """The first status update of a claim is carried out, but not answered; and news of claims come late."""

    async def call(self, call: APICall) -> Any:
        answer = await self._inner.call(call)
        if _is_claim_status(call) and self._failures:
            raise self._failures.pop(0)
        return answer

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        async with self._inner.watch(call) as events:
            yield self._late(events) if call.ref.resource == "resourceclaims" else events

    async def _late(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            if event.type is EventType.MODIFIED:
                await asyncio.sleep(20)
            yield event


@run_with(lambda test: play(test, transport=lambda inner: LostAnswer(inner, [ConnectionError("the answer was lost")])))
async def test_a_device_is_not_free_because_an_answer_was_lost(world: World) -> None:
    await gpus(world, "n1")
    await world.create(claim("c1"), claim("c2"))
    await world.create(user("p1", "c1"), user("p2", "c2"))
    await world.quiet()
    held = await world.devices("c1") + await world.devices("c2")
    assert held == [("n1", "gpu-0")]
    assert await world.node_of("p1") == "n1"
    assert await world.node_of("p2") == ""


@run_with(play)
async def test_all_claims_of_a_pod_are_allocated_or_none(world: World) -> None:
    await gpus(world, "n1", devices=2)
    await world.create(claim("a"), claim("b", exactly(count=2)), user("p", "a", "b"))
    await world.quiet()
    assert await world.devices("a") == await world.devices("b") == []


@run_with(play)
async def test_an_earlier_alternative_draws_the_pod_to_its_node(world: World) -> None:
    await world.create(device_class("best", "best.example.com"), device_class("good", "good.example.com"))
    for name, driver in (("n1", "good.example.com"), ("n2", "best.example.com"), ("n3", "good.example.com")):
        await world.create(node(name), slice_(name, driver=driver))
    subs = [
        {"name": wanted, "deviceClassName": wanted, "allocationMode": "ExactCount", "count": 1}
        for wanted in ("best", "good")
    ]
    await world.create(claim("c", {"name": "r", "firstAvailable": subs}), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == "n2"


@run_with(play)
async def test_a_taint_rule_keeps_pods_away_until_it_is_removed(world: World) -> None:
    await gpus(world, "n1")
    taint = {"key": "broken", "effect": "NoSchedule"}
    selector = {"driver": "gpu.example.com"}
    await world.create(
        from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": {"deviceSelector": selector, "taint": taint}})
    )
    await world.quiet()
    await world.create(claim("c"), user("p", "c"))
    await world.quiet()
    assert await world.node_of("p") == ""
    await world.api(DeviceTaintRule).delete("r")
    await world.quiet()
    assert await world.node_of("p") == "n1"


@run_with(play)
async def test_a_broken_selector_is_an_error_and_not_a_refusal(world: World) -> None:
    await gpus(world, "n1")
    request = exactly()
    request["exactly"]["selectors"] = [{"cel": {"expression": 'device.attributes["x"].y == "z"'}}]
    await world.create(claim("c", request), user("p", "c"))
    await world.elapse(0.5)
    reason, message = await world.condition("p")
    assert reason == "SchedulerError"
    assert message.startswith('running "DynamicResources" filter plugin: ')


def test_a_refused_release_leaves_the_claim_allocated_for_the_next_attempt() -> None:
    """The pod is gone when it is to be bound; its claim keeps the allocation and loses the reservation."""

    class NoBinding(Meddler):
        async def call(self, call: APICall) -> Any:
            if call.subresource == "binding":
                raise StatusError.from_json({"message": "no", "reason": "Conflict", "code": 409})
            return await self._inner.call(call)

    async def body(world: World) -> None:
        await gpus(world, "n1")
        await world.create(claim("c"), user("p", "c"))
        await world.elapse(0.5)
        stored = await world.claim("c")
        assert stored.status.allocation is not None
        assert stored.status.reserved_for == ()
        assert await world.condition("p") == ("SchedulerError", 'running Bind plugin "DefaultBinder": no')

    play(body, transport=lambda inner: NoBinding(inner, []))


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("1.36", "claim default/c: number of requested devices 33 exceeds the claim limit of 32"),
        (
            "1.37",
            "claim default/c, request gpu: adding 33 devices exceeds the claim limit of 32, with 0 already",
        ),
    ],
)
def test_the_allocator_behaves_as_its_release(release: str, expected: str) -> None:
    everything = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}

    async def body(world: World) -> None:
        await gpus(world, "n1", devices=33)
        await world.create(claim("c", everything), user("p", "c"))
        await world.elapse(0.5)
        assert expected in (await world.condition("p"))[1]

    play(body, release=release)


def test_requests_take_of_a_counter_that_devices_share_until_a_claim_gives_it_back() -> None:
    """KEP-5941, through the rules and the defaults of the API server of 1.38."""

    def interface(name: str) -> dict[str, Any]:
        taken = {"bandwidth": {"valueFrom": {"capacityName": "bandwidth"}}}
        return {"name": name, "consumesCounters": [{"counterSet": "pf", "counters": taken}]}

    def piece(name: str, **spec: Any) -> ResourceSlice:
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
        values = {"driver": DRIVER, "nodeName": "n1", "pool": pool, **spec}
        return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": values})

    def asking(name: str, amount: str) -> ResourceClaim:
        request = exactly()
        request["exactly"]["capacity"] = {"requests": {"bandwidth": amount}}
        return claim(name, request)

    async def body(world: World) -> None:
        policy = {"default": "1G", "validRange": {"min": "1G", "step": "1G"}}
        counters = {"bandwidth": {"value": "10G", "requestPolicy": policy}}
        await world.create(device_class(), node("n1"))
        await world.create(piece("sets", sharedCounters=[{"name": "pf", "counters": counters}]))
        await world.create(piece("devices", devices=[interface("vf-0"), interface("vf-1")]))
        await world.create(asking("a", "5500M"), user("a", "a"), asking("b", "5G"), user("b", "b"))
        await world.quiet()
        assert (await world.node_of("a"), await world.node_of("b")) == ("n1", "")
        held = (await world.api(ResourceClaim).get("a")).status
        assert held.allocation is not None
        [taken] = held.allocation.devices.results[0].consumed_counters
        assert (taken.counter_set, taken.counters) == ("pf", {"bandwidth": Quantity("6G")})
        await world.api(Pod).delete("a", grace_period_seconds=0)
        await world.api(ResourceClaim).patch("a", PatchType.MERGE, {"status": None}, "status")
        await world.quiet()
        assert await world.node_of("b") == "n1"

    gates = {"DRASharedConsumableCapacity": True}
    play(body, gates=gates, release="1.38", served=["resource.k8s.io/v1"])
