"""Devices are attached for the claims that have them, one claim at a time, and detached when the claims are done."""

from __future__ import annotations

import asyncio
import json

import pytest

from cathedra.api import resource
from cathedra.api.core import core_v1
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import ResourceClaim
from cathedra.client.objects import with_metadata
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.transport import PatchType
from cathedra.driver import Attachment, Retry
from cathedra.driver.fabric.attaching import (
    allocated_attachments,
    annotation_of,
    finalizer_of,
    node_of,
    recorded,
    with_record,
)
from tests.running import run_with
from tests.unit.driver.fabric.switched import (
    NAME,
    POOL,
    Level,
    Switch,
    allocate,
    bound,
    controlling,
    deallocate,
    on_node,
    told,
)
from tests.unit.driver.world import SHARES, World, in_virtual_time, opaque, result
from tests.unit.spoiled import SPOILED, SpoiledTransport


@pytest.mark.parametrize(
    ("selector", "node"),
    [
        (on_node("node-a"), "node-a"),
        (None, ""),
        (core_v1.NodeSelector(node_selector_terms=(core_v1.NodeSelectorTerm(),)), ""),
        (
            core_v1.NodeSelector(
                node_selector_terms=(*on_node("node-a").node_selector_terms, *on_node("node-b").node_selector_terms)
            ),
            "",
        ),
    ],
    ids=["one", "none", "labels", "two"],
)
def test_the_node_is_the_one_that_the_allocation_names(selector: core_v1.NodeSelector | None, node: str) -> None:
    assert node_of(resource.AllocationResult(node_selector=selector)) == node


@run_with(in_virtual_time)
async def test_devices_of_a_claim_are_attached_to_its_node_and_said_to_be(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        other = result("disk-0", request="disk", driver="other.example.com")
        await allocate(world, "c", "node-a", bound("gpu-0"), bound("gpu-1"), other)
        await asyncio.sleep(1)
        assert switch.ports == {"gpu-0": "node-a", "gpu-1": "node-a"}
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
        assert await told(world, "c", "gpu-1") == {"Attached": "True"}
        assert await told(world, "c", "disk-0") == {}
        claim = await world.claim("c")
        assert finalizer_of(NAME) in claim.metadata.finalizers
        assert recorded(claim, NAME) == allocated_attachments(claim, NAME)
    assert len(switch.calls) == 2


@run_with(in_virtual_time)
async def test_a_claim_that_is_deallocated_loses_its_devices_and_the_record_of_them(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        await deallocate(world, "c")
        await asyncio.sleep(1)
    assert switch.ports == {}
    metadata = (await world.claim("c")).metadata
    assert (metadata.finalizers, metadata.annotations) == ((), {})


@run_with(in_virtual_time)
async def test_a_claim_that_is_deleted_stays_until_its_device_is_detached(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        switch.faults = [RuntimeError("the switch is rebooting")]
        await world.delete_claim("c")
        await deallocate(world, "c")
        await asyncio.sleep(0.1)
        assert (await world.claim("c")).metadata.deletion_timestamp is not None
        await asyncio.sleep(5)
    assert switch.calls[1:] == ["detach gpu-0 from node-a for c"] * 2
    assert switch.errors == ["detaching rack-1/gpu-0 from node-a for claim default/c: the switch is rebooting"]
    assert (await world.client.resource(RESOURCECLAIMS, "default").list()).items == ()


@run_with(in_virtual_time)
async def test_what_will_pass_is_tried_again_and_shown_meanwhile(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        switch.faults = [Retry("port is training"), Retry("port is training")]
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(0.1)
        assert await told(world, "c", "gpu-0") == {"Attached": "False port is training"}
        await asyncio.sleep(10)
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
    assert len(switch.calls) == 3


@run_with(in_virtual_time)
async def test_what_cannot_be_attached_says_why_and_is_not_tried_again(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        switch.faults = [RuntimeError("no free port on node-a")]
        await allocate(world, "c", "node-a", bound("gpu-0"), bound("gpu-1"))
        await asyncio.sleep(60)
        assert await told(world, "c", "gpu-0") == {"AttachFailed": "True no free port on node-a"}
        assert await told(world, "c", "gpu-1") == {"Attached": "True"}
        assert len(switch.calls) == 2
        await deallocate(world, "c")
        await asyncio.sleep(1)
    assert switch.ports == {}, "what was attached before it failed is detached"


@run_with(in_virtual_time)
async def test_parameters_that_cannot_be_understood_are_a_failure_and_nothing_is_attached(world: World) -> None:
    switch = Switch()
    switch.configs = {("switch.example.com/v1", "Level"): Level}
    wrong = opaque({"apiVersion": "switch.example.com/v1", "kind": "Level", "bright": 1}, driver=NAME)
    async with controlling(world, switch):
        await world.allocate("c", bound("gpu-0"), config=[wrong])
        await asyncio.sleep(1)
        assert (await told(world, "c", "gpu-0"))["AttachFailed"].startswith("True status.allocation.devices.config")
    assert switch.calls == []


@run_with(in_virtual_time)
async def test_the_next_claim_waits_until_the_device_is_detached_for_the_last(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "first", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        switch.faults = [Retry("still in use")] * 3
        await deallocate(world, "first")
        await allocate(world, "next", "node-b", bound("gpu-0"))
        await asyncio.sleep(0.1)
        waiting = "False still attached to node-a for claim default/first"
        assert await told(world, "next", "gpu-0") == {"Attached": waiting}
        await asyncio.sleep(30)
        assert await told(world, "next", "gpu-0") == {"Attached": "True"}
    assert switch.ports == {"gpu-0": "node-b"}


@run_with(in_virtual_time)
async def test_shares_of_a_device_are_attached_beside_each_other(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "a", "node-a", bound("gpu-0", share_id=SHARES[0]))
        await allocate(world, "b", "node-a", bound("gpu-0", share_id=SHARES[1]))
        await asyncio.sleep(1)
        assert await told(world, "a", "gpu-0") == await told(world, "b", "gpu-0") == {"Attached": "True"}


@run_with(in_virtual_time)
async def test_a_claim_that_moves_to_another_node_takes_its_device_along(world: World) -> None:
    switch = Switch()
    await allocate(world, "c", "node-a", bound("gpu-0"))
    async with controlling(world, switch):
        await asyncio.sleep(1)
    await deallocate(world, "c")
    await allocate(world, "c", "node-b", bound("gpu-0"))
    async with controlling(world, switch):
        await asyncio.sleep(1)
    assert switch.calls == [
        "attach gpu-0 to node-a for c",
        "detach gpu-0 from node-a for c",
        "attach gpu-0 to node-b for c",
    ]


@run_with(in_virtual_time)
async def test_an_attempt_that_hangs_ends_when_the_scheduler_gives_up(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        switch.open.clear()
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(600)
        assert switch.ports == {"gpu-0": "node-a"}
        await deallocate(world, "c")
        await asyncio.sleep(1)
    assert switch.ports == {}
    assert switch.calls == ["attach gpu-0 to node-a for c", "detach gpu-0 from node-a for c"]


@run_with(in_virtual_time)
async def test_one_that_hangs_holds_up_no_other_claim(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        switch.open.clear()
        await allocate(world, "slow", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        switch.open = asyncio.Event()
        switch.open.set()
        await allocate(world, "fast", "node-a", bound("gpu-1"))
        await asyncio.sleep(1)
        assert await told(world, "fast", "gpu-1") == {"Attached": "True"}
        assert await told(world, "slow", "gpu-0") == {}


@run_with(in_virtual_time)
async def test_what_was_interrupted_is_attached_again_by_the_next_leader(world: World) -> None:
    switch = Switch()
    switch.open.clear()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
    switch.open.set()
    async with controlling(world, switch, seed=2):
        await asyncio.sleep(1)
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
    assert switch.calls == ["attach gpu-0 to node-a for c"] * 2


@run_with(in_virtual_time)
async def test_what_was_freed_while_no_controller_ran_is_detached_by_the_next(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
    await world.delete_claim("c")
    await deallocate(world, "c")
    async with controlling(world, switch):
        await asyncio.sleep(1)
    assert switch.ports == {}
    assert (await world.client.resource(RESOURCECLAIMS, "default").list()).items == ()


@run_with(in_virtual_time)
async def test_a_restart_attaches_nothing_again_that_is_attached(world: World) -> None:
    switch = Switch()
    for seed in (1, 2, 3):
        async with controlling(world, switch, seed=seed):
            await allocate(world, "c", "node-a", bound("gpu-0")) if seed == 1 else None
            await asyncio.sleep(30)
    assert switch.calls == ["attach gpu-0 to node-a for c"]


@run_with(in_virtual_time)
async def test_administrators_see_a_device_where_it_is(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await allocate(world, "admin", "node-b", bound("gpu-0", admin_access=True))
        await asyncio.sleep(1)
        assert await told(world, "admin", "gpu-0") == {"Attached": "True"}
        assert finalizer_of(NAME) not in (await world.claim("admin")).metadata.finalizers
    assert switch.ports == {"gpu-0": "node-a"}


@run_with(in_virtual_time)
async def test_a_record_by_another_hand_takes_no_device_from_the_claim_that_has_it(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        forged = await world.allocate("forged")
        devices = [{"pool": POOL, "device": "gpu-0", "node": "node-a"}]
        record = {annotation_of(NAME): json.dumps({"uid": forged.uid, "devices": devices})}
        claims = world.client.resource(RESOURCECLAIMS, "default")
        await claims.patch("forged", PatchType.MERGE, {"metadata": {"annotations": record}})
        await asyncio.sleep(60)
        assert annotation_of(NAME) not in (await world.claim("forged")).metadata.annotations
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
    assert switch.calls == ["attach gpu-0 to node-a for c"]


@run_with(in_virtual_time)
async def test_a_claim_that_is_being_deleted_gets_nothing_attached(world: World) -> None:
    switch = Switch()
    await allocate(world, "c", "node-a", bound("gpu-0"))
    claims = world.client.resource(RESOURCECLAIMS, "default")
    claim = await world.claim("c")
    await claims.update(with_metadata(claim, finalizers=("example.com/kept",)))
    await world.delete_claim("c")
    async with controlling(world, switch):
        await asyncio.sleep(30)
    assert switch.calls == []


@run_with(in_virtual_time)
async def test_what_the_nodes_driver_says_of_the_device_stays(world: World) -> None:
    switch = Switch()
    async with controlling(world, switch):
        switch.faults = [Retry("slowly")]
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(0.1)
        ready = {"type": "Ready", "status": "True", "reason": "Up", "message": ""}
        ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        entry = {"driver": NAME, "pool": POOL, "device": "gpu-0", "conditions": [ready]}
        fields = {"status": {"devices": [entry]}}
        node = world.client.as_manager("node").resource(RESOURCECLAIMS, "default")
        await node.apply("c", fields, "status")
        await asyncio.sleep(5)
        assert await told(world, "c", "gpu-0") == {"Attached": "True", "Ready": "True "}


@run_with(in_virtual_time)
async def test_what_is_attached_for_a_claim_that_cannot_be_decoded_stays_attached(world: World) -> None:
    """No other claim gets the device until the claim can be decoded and is read, or is deleted."""
    claims = world.client.resource(RESOURCECLAIMS, "default")
    switch = Switch()
    async with controlling(world, switch, through=SpoiledTransport):
        await allocate(world, "first", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        first = await world.claim("first")
        annotations = first.metadata.annotations
        await claims.update(with_metadata(first, annotations={**annotations, SPOILED: "spec.new"}))
        await asyncio.sleep(1)
        await deallocate(world, "first")
        await allocate(world, "next", "node-b", bound("gpu-0"))
        await asyncio.sleep(30)
        assert switch.ports == {"gpu-0": "node-a"}
        waiting = "False still attached to node-a for claim default/first"
        assert await told(world, "next", "gpu-0") == {"Attached": waiting}
        await claims.update(with_metadata(await world.claim("first"), annotations=annotations))
        await asyncio.sleep(60)
        assert switch.ports == {"gpu-0": "node-b"}


WHOLE = Attachment("rack-1", "gpu-0", "node-a")
SHARE = Attachment("rack-1", "gpu-1", "node-a", "0d6b1f0e-8c3f-4c55-9f0d-0a6a4ba0f7a1")


def claim(**annotations: str) -> ResourceClaim:
    return ResourceClaim(
        metadata=ObjectMeta(
            name="c", namespace="default", uid="u-1", annotations=annotations, finalizers=("example.com/other",)
        )
    )


def test_a_record_says_what_was_written() -> None:
    written = with_record(claim(mine="1"), NAME, {WHOLE, SHARE})
    assert recorded(written, NAME) == {WHOLE, SHARE}
    assert written.metadata.finalizers == ("example.com/other", finalizer_of(NAME))
    assert written.metadata.annotations["mine"] == "1"


def test_an_empty_record_leaves_no_trace() -> None:
    before = claim(mine="1")
    assert with_record(with_record(before, NAME, {WHOLE}), NAME, ()) == before


def test_writing_it_again_changes_nothing() -> None:
    written = with_record(claim(), NAME, [SHARE, WHOLE])
    assert with_record(written, NAME, [WHOLE, SHARE]) == written


def test_two_drivers_have_records_of_their_own() -> None:
    both = with_record(with_record(claim(), NAME, {WHOLE}), "other.example.com", {SHARE})
    assert (recorded(both, NAME), recorded(both, "other.example.com")) == ({WHOLE}, {SHARE})


def test_in_the_copy_of_a_claim_a_record_says_nothing() -> None:
    copy = with_metadata(with_record(claim(), NAME, {WHOLE}), uid="u-2")
    assert recorded(copy, NAME) == frozenset()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"uid":"u-1"}', '{"uid":"u-1","devices":[{"pool":"p"}]}', '{"uid":"u-1","devices":7}']
)
def test_what_is_no_record_is_none(text: str) -> None:
    assert recorded(claim(**{annotation_of(NAME): text}), NAME) == frozenset()
