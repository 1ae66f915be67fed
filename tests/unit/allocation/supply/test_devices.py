"""Signatures and kinds of devices."""

from __future__ import annotations

from cathedra.allocation.supply.devices import Interner, selects
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.resource import Device
from cathedra.api.struct import from_dict
from tests.unit.allocation.building import World, device, node, resource_slice, rule


def made(name: str, **more: object) -> Device:
    return from_dict(Device, device(name, **more))


def test_devices_that_say_the_same_share_a_signature() -> None:
    interner = Interner()
    one = interner.signature("drv", made("a", attributes={"index": 1}))
    assert interner.signature("drv", made("b", attributes={"index": 1})) is one
    assert interner.signature("drv", made("a", attributes={"index": 2})) is not one
    assert interner.signature("other", made("a", attributes={"index": 1})) is not one


def test_an_attribute_is_found_by_its_full_name_and_by_the_drivers_short_one() -> None:
    found = Interner().signature("drv", made("a", attributes={"index": 1, "acme.test/model": "m"}))
    short, full = found.attribute("drv/index"), found.attribute("acme.test/model")
    assert short is not None
    assert full is not None
    assert (short.int_, full.string) == (1, "m")
    assert found.attribute("other/index") is None


def test_a_rule_selects_by_driver_pool_and_device() -> None:
    assert selects(rule(driver="drv"), "drv", "p", "a")
    assert not selects(rule(driver="other"), "drv", "p", "a")
    assert not selects(rule(driver="drv", pool="q"), "drv", "p", "a")
    assert selects(rule(pool="p", device="a"), "drv", "p", "a")


def test_taints_of_rules_are_merged_into_the_devices_they_select() -> None:
    world = World([resource_slice("a", "b")], rules=[rule(driver="drv", pool="p", device="b")])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    assert [[taint.key for taint in record.taints] for record in supply.devices] == [[], ["broken"]]
