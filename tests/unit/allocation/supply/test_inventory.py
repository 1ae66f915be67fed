"""The inventory follows slices and rules."""

from __future__ import annotations

from cathedra.allocation import Inventory
from cathedra.allocation.supply.inventory import EVERYWHERE
from cathedra.api.resource import DeviceTaintRule
from cathedra.api.struct import from_dict, replace
from tests.unit.allocation.building import device, resource_slice, rule


def test_a_snapshot_does_not_change_and_is_shared_while_nothing_happens() -> None:
    inventory = Inventory([resource_slice("a", name="s1")])
    before = inventory.snapshot()
    assert inventory.snapshot() is before
    inventory.add_slice(resource_slice("b", name="s2", pool="q"))
    assert set(before.pools) == {("drv", "p")}
    assert set(inventory.snapshot().pools) == {("drv", "p"), ("drv", "q")}


def test_a_slice_that_says_nothing_new_changes_nothing() -> None:
    """Informers deliver every slice again when they resync."""
    made = resource_slice("a")
    inventory = Inventory([made])
    before = inventory.snapshot()
    again = replace(made, metadata=replace(made.metadata, resource_version="7"))
    inventory.add_slice(again)
    assert inventory.snapshot() is before
    assert inventory.slices() == (again,)


def test_an_event_names_the_node_and_the_pool_that_it_touches() -> None:
    inventory = Inventory([resource_slice("a", name=f"s{n}", node=f"n{n}", pool=f"p{n}") for n in range(3)])
    before = inventory.snapshot()
    inventory.add_slice(resource_slice("b", name="s1", node="n1", pool="p1"))
    assert inventory.snapshot().mark.since(before.mark) == {"n1", ("drv", "p1")}
    assert inventory.snapshot().bound["n0"] is before.bound["n0"]


def test_a_slice_without_a_node_concerns_everybody() -> None:
    inventory = Inventory()
    before = inventory.snapshot()
    inventory.add_slice(resource_slice("net", node=None, allNodes=True))
    changes = inventory.snapshot().mark.since(before.mark)
    assert changes is not None
    assert EVERYWHERE in changes


def test_a_slice_may_move_to_another_node_and_pool() -> None:
    inventory = Inventory([resource_slice("a", node="n1", pool="p1")])
    inventory.add_slice(resource_slice("a", node="n2", pool="p2"))
    snapshot = inventory.snapshot()
    assert set(snapshot.bound) == {"n2"}
    assert set(snapshot.pools) == {("drv", "p2")}
    inventory.remove_slice("s")
    inventory.remove_slice("s")
    assert inventory.statistics() == {"slices": 0, "pools": 0, "nodes": 0, "devices": 0, "rules": 0}


def test_a_rule_taints_its_devices_alone_and_leaves_other_slices_untouched() -> None:
    inventory = Inventory([resource_slice("a", "b", name="s1", pool="p"), resource_slice("a", name="s2", pool="q")])
    before = inventory.snapshot()
    inventory.add_taint_rule(rule(pool="p", device="b"))
    after = inventory.snapshot()
    (record,) = after.pools["drv", "p"]
    assert [[taint.key for taint in one.taints] for one in record.devices] == [[], ["broken"]]
    assert after.pools["drv", "q"] is before.pools["drv", "q"]
    inventory.remove_taint_rule("rule")
    (record,) = inventory.snapshot().pools["drv", "p"]
    assert [one.taints for one in record.devices] == [(), ()]


def test_devices_with_equal_looks_share_a_signature_until_the_last_of_them_is_gone() -> None:
    alike = {"attributes": {"model": "a"}, "capacity": {"mem": 4}}
    inventory = Inventory([resource_slice(device("a", **alike), device("b", **alike), device("c"))])
    (record,) = inventory.snapshot().pools["drv", "p"]
    one, other, third = (of.signature for of in record.devices)
    assert one is other
    assert one is not third


def test_most_pods_see_nodes_by_the_same_sight() -> None:
    """Attributes with few values are read together; a serial number is read only by selectors that name it."""
    made = [device(f"d{n}", attributes={"model": "ab"[n % 2], "numa": n % 4, "serial": f"#{n}"}) for n in range(80)]
    inventory = Inventory([resource_slice(*made[:40], name="s1"), resource_slice(*made[40:], name="s2", pool="q")])
    interner = inventory.snapshot().interner
    assert interner.widened(("drv/model",)) == ("drv/model", "drv/numa")
    assert interner.widened(()) == ("drv/model", "drv/numa")
    assert interner.widened(("drv/serial",)) == ("drv/serial",)


def test_many_slices_between_two_snapshots_are_all_in_the_later_one() -> None:
    inventory = Inventory([resource_slice("a", name="s0", node="n0", pool="p0")])
    before = inventory.snapshot()
    for number in range(1, 200):
        inventory.add_slice(resource_slice("a", name=f"s{number}", node=f"n{number}", pool=f"p{number}"))
    inventory.remove_slice("s7")
    expected = {number for number in range(200) if number != 7}
    after = inventory.snapshot()
    assert set(after.bound) == {f"n{number}" for number in expected}
    assert set(after.pools) == {("drv", f"p{number}") for number in expected}
    changes = after.mark.since(before.mark)
    assert changes == {name for number in range(1, 200) for name in (f"n{number}", ("drv", f"p{number}"))}
    assert set(before.bound) == {"n0"}


def test_a_rule_without_a_selector_taints_no_device_unless_the_release_says_so() -> None:
    """kubernetes/kubernetes#141648."""
    taint = {"key": "k", "effect": "NoExecute"}
    unselective = from_dict(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": {"taint": taint}})
    for needs in (True, False):
        inventory = Inventory([resource_slice("a")], rules_need_selector=needs)
        inventory.add_taint_rule(unselective)
        records = [record for pool in inventory.snapshot().pools.values() for record in pool]
        assert any(device.taints for record in records for device in record.devices) is not needs


def test_a_rule_that_loses_its_selector_taints_nothing_any_more() -> None:
    spec = {"taint": {"key": "k", "effect": "NoExecute"}}
    named = {"metadata": {"name": "r"}}
    inventory = Inventory([resource_slice("a")])
    inventory.add_taint_rule(from_dict(DeviceTaintRule, {**named, "spec": {**spec, "deviceSelector": {}}}))
    assert inventory.statistics()["rules"] == 1
    inventory.add_taint_rule(from_dict(DeviceTaintRule, {**named, "spec": spec}))
    assert inventory.statistics()["rules"] == 0
