"""Counters of which devices consume the requested amounts of a capacity (KEP-5941)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import Allocation, Features, Refusal
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict, to_dict
from tests.unit.allocation.building import World, claim, device, exactly, held, resource_slice

FEATURES = Features(shared_consumable_capacity=True)
POLICY = {"default": "1G", "validRange": {"min": "1G", "max": "8G", "step": "2G"}}


def counters(policy: dict[str, Any] | None = None, value: str = "10G") -> ResourceSlice:
    given = {"value": value} if policy is None else {"value": value, "requestPolicy": policy}
    return resource_slice(name="counters", count=2, sharedCounters=[{"name": "pf", "counters": {"bandwidth": given}}])


def interface(name: str, capacity: str = "bandwidth", **more: Any) -> dict[str, Any]:
    taken = {"bandwidth": {"valueFrom": {"capacityName": capacity}}}
    return device(name, consumesCounters=[{"counterSet": "pf", "counters": taken}], **more)


def world(*devices: dict[str, Any], policy: dict[str, Any] | None = None, holders: tuple[Any, ...] = ()) -> World:
    return World([counters(policy), resource_slice(*devices, count=2)], holders, features=FEATURES)


def asking(*amounts: str, capacity: str = "bandwidth") -> ResourceClaim:
    return claim(*(exactly(f"r{at}", capacity={capacity: one}) for at, one in enumerate(amounts)))


def holder(amount: str, name: str = "vf-0") -> ResourceClaim:
    made = to_dict(held(name))
    made["status"]["allocation"]["devices"]["results"][0]["consumedCounters"] = [
        {"counterSet": "pf", "counters": {"bandwidth": amount}}
    ]
    return from_dict(ResourceClaim, made)


def taken(world: World, *claims: ResourceClaim) -> list[Any] | None:
    outcome = world.allocate(*claims)
    if isinstance(outcome, Refusal):
        return None
    assert isinstance(outcome, Allocation)
    return [
        str(one.consumed_counters[0].counters["bandwidth"].as_read)
        for result in outcome.results
        for one in result.devices.results
    ]


VFS = (interface("vf-0"), interface("vf-1"), interface("vf-2"))


@pytest.mark.parametrize(
    ("amounts", "found"), [(("6G", "4G"), ["6G", "4G"]), (("6G", "5G"), None), (("11G",), None), (("10G",), ["10G"])]
)
def test_devices_share_what_the_counter_has(amounts: tuple[str, ...], found: list[str] | None) -> None:
    assert taken(world(*VFS), asking(*amounts)) == found


@pytest.mark.parametrize(("published", "asked"), [("bandwidth", "drv/bandwidth"), ("drv/bandwidth", "bandwidth")])
def test_the_capacity_is_named_with_or_without_the_driver(published: str, asked: str) -> None:
    assert taken(world(interface("vf-0", published)), asking("3G", capacity=asked)) == ["3G"]


def test_a_capacity_that_neither_device_nor_counter_has_is_missing() -> None:
    assert taken(world(*VFS), asking("1G", capacity="memory")) is None


@pytest.mark.parametrize(("asked", "found"), [("500M", "1G"), ("2G", "3G"), ("3G", "3G"), ("9G", None)])
def test_the_policy_of_the_counter_rounds_and_bounds_the_amount(asked: str, found: str | None) -> None:
    assert taken(world(*VFS, policy=POLICY), asking(asked)) == (None if found is None else [found])


def test_without_a_request_the_default_is_taken_or_else_the_whole_counter() -> None:
    assert taken(world(*VFS, policy=POLICY), claim(exactly())) == ["1G"]
    assert taken(world(*VFS), claim(exactly())) == ["10G"]
    assert taken(world(*VFS), claim(exactly("a"), exactly("b"))) is None


def test_allocated_claims_have_the_amounts_of_their_status() -> None:
    """A driver that changes its policy afterwards does not change what they hold."""
    full = world(*VFS, policy=POLICY, holders=(holder("6G"),))
    assert taken(full, asking("4G")) is None
    assert taken(full, asking("3G")) == ["3G"]


def test_fixed_amounts_are_counted_beside_requested_ones() -> None:
    fixed = device("whole", consumes={"pf": {"bandwidth": "7G"}})
    assert world(interface("vf-0"), fixed).devices(asking("3G"), claim(exactly("x"), name="other")) == [
        "r0→vf-0",
        "x→whole",
    ]
    assert world(interface("vf-0"), fixed).devices(asking("4G"), claim(exactly("x"), name="other")) is None


def test_each_share_of_a_device_takes_its_own_amount() -> None:
    shared = world(interface("nic", shareable=True))
    assert taken(shared, asking("6G", "4G")) == ["6G", "4G"]
    assert taken(shared, asking("6G", "5G")) is None


def test_without_the_gate_nothing_is_taken() -> None:
    off = World([counters(), resource_slice(*VFS, count=2)], features=Features())
    outcome = off.allocate(claim(exactly("a"), exactly("b")))
    assert isinstance(outcome, Allocation)
    assert all(not one.consumed_counters for one in outcome.results[0].devices.results)
