"""Signatures and kinds of devices."""

from __future__ import annotations

from typing import Any

import pytest

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


def test_devices_are_seen_alike_however_their_attributes_are_named_and_whatever_is_not_read() -> None:
    interner = Interner()
    projection = ("acme.test/model", "drv/index")
    short = interner.signature("drv", made("a", attributes={"index": 1, "acme.test/model": "m", "uuid": "u1"}))
    full = interner.signature("drv", made("b", attributes={"drv/index": 1, "acme.test/model": "m", "uuid": "u2"}))
    other = interner.signature("drv", made("c", attributes={"drv/index": 2, "acme.test/model": "m", "uuid": "u1"}))
    assert short.seen(projection) == full.seen(projection) != other.seen(projection)
    assert short.seen(("drv/uuid",)) != full.seen(("drv/uuid",))
    assert short.seen(("drv/none",)) == other.seen(("drv/none",))


@pytest.mark.parametrize("attributes", [{"index": True}, {"index": "1"}, {"other.test/index": 1}])
def test_values_of_other_types_and_names_of_other_domains_are_seen_as_different(attributes: dict[str, Any]) -> None:
    interner = Interner()
    one = interner.signature("drv", made("a", attributes={"index": 1}))
    assert interner.signature("drv", made("b", attributes=attributes)).seen(("drv/index",)) != one.seen(("drv/index",))


def test_a_rule_selects_by_driver_pool_and_device() -> None:
    assert selects(rule(driver="drv"), "drv", "p", "a")
    assert not selects(rule(driver="other"), "drv", "p", "a")
    assert not selects(rule(driver="drv", pool="q"), "drv", "p", "a")
    assert selects(rule(pool="p", device="a"), "drv", "p", "a")


def test_taints_of_rules_are_merged_into_the_devices_they_select() -> None:
    world = World([resource_slice("a", "b")], rules=[rule(driver="drv", pool="p", device="b")])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    assert [[taint.key for taint in record.taints] for record in supply.devices] == [[], ["broken"]]
