"""Invalid objects affect only the claims that use them."""

from __future__ import annotations

import pytest

from cathedra.allocation import DeviceSelectorError, FatalError
from tests.unit.allocation.building import World, claim, device, exactly, first_available, node, resource_slice

BROKEN = {"name": "broken", "attributes": {"version": {"version": "not semver"}, "empty": {}}}
MODEL = 'device.attributes["drv"].?model.orValue("") == "a"'


def test_a_broken_device_disturbs_no_claim_without_selectors() -> None:
    assert World([resource_slice(BROKEN, "x")]).devices(claim(exactly("r", 2))) == ["r→broken", "r→x"]


def test_a_broken_device_disturbs_no_claim_that_is_served_before_it() -> None:
    world = World([resource_slice(device("x", attributes={"model": "a"}), BROKEN)])
    assert world.devices(claim(exactly("r", 1, MODEL))) == ["r→x"]
    with pytest.raises(DeviceSelectorError, match="on device drv/p/broken") as raised:
        world.allocate(claim(exactly("r", 2, MODEL)))
    assert raised.value.device == "drv/p/broken"


def test_a_broken_device_of_another_node_is_not_met() -> None:
    slices = [
        resource_slice(BROKEN, name="s1", node="n1", pool="n1"),
        resource_slice("x", name="s2", node="n2", pool="n2"),
    ]
    prepared = World(slices).allocator().prepare([claim(exactly("r", 1, "true"))])
    assert prepared.on_each([node("n2")]).fitting() == [0]
    with pytest.raises(DeviceSelectorError):
        prepared.on_each([node("n2"), node("n1")])


def test_a_request_that_fails_before_the_broken_device_is_reached_is_refused_quietly() -> None:
    """The second request would fail on the device, but the walk never comes so far."""
    world = World([resource_slice("x", BROKEN)])
    assert world.devices(claim(exactly("a", 3), exactly("b", 1, MODEL))) is None


def test_a_missing_class_is_fatal_for_its_claim_alone() -> None:
    world = World([resource_slice("x")])
    assert world.devices(claim(exactly())) == ["r→x"]
    with pytest.raises(FatalError, match="could not retrieve device class nope"):
        world.allocate(claim(first_available("r", a=exactly(), b=exactly(deviceClassName="nope"))))


def test_an_invalid_pool_is_passed_over_while_another_will_do() -> None:
    slices = [
        resource_slice("x", name="s1", count=2),
        resource_slice("x", name="s2", count=2),
        resource_slice("y", name="s3", pool="q"),
    ]
    assert World(slices).devices(claim(exactly())) == ["r→y"]


def test_a_node_selector_that_cannot_be_parsed_harms_who_evaluates_it() -> None:
    """Also when another of its terms would match (docs/spec/allocation.md §5.1)."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}]
    bad = resource_slice("x", name="bad", pool="bad", node=None, nodeSelector={"nodeSelectorTerms": terms})
    with pytest.raises(FatalError, match="failed to perform node selection for slice bad"):
        World([bad, resource_slice("y")]).allocate(claim(exactly()))


def test_a_capacity_that_cannot_be_computed_is_fatal_only_when_reached() -> None:
    policy = {"default": "1", "validRange": {"min": "1", "step": "500m"}}
    odd = device("odd", shareable=True, capacity={"mem": {"value": "4", "requestPolicy": policy}})
    good = device("good", shareable=True, capacity={"mem": 4})
    world = World([resource_slice(good, odd)])
    assert world.devices(claim(exactly(capacity={"mem": "1500100u"}))) == ["r→good"]
    with pytest.raises(FatalError, match="capacity request cannot be represented"):
        world.allocate(claim(exactly("r", 2, capacity={"mem": "1500100u"})))
