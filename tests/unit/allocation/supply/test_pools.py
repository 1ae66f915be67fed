"""What a node sees of pools."""

from __future__ import annotations

import pytest

from cathedra.allocation.supply.pools import NodeViews, PoolStatus
from tests.unit.allocation.building import World, device, held, node, resource_slice


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    world = World([resource_slice("old", name="s1"), resource_slice("new", name="s2", generation=2)])
    view = NodeViews(world.inventory.snapshot(), world.features).of(node())
    assert [record.name for record in view.devices] == ["new"]


def test_a_node_sees_what_targets_it_by_name_or_all_nodes() -> None:
    world = World(
        [
            resource_slice("mine", pool="p"),
            resource_slice("theirs", name="t", pool="q", node="birch"),
            resource_slice("everywhere", name="u", pool="r", node=None, allNodes=True),
        ]
    )
    views = NodeViews(world.inventory.snapshot(), world.features)
    assert sorted(record.name for record in views.of(node()).devices) == ["everywhere", "mine"]
    assert sorted(record.name for record in views.of(node("birch")).devices) == ["everywhere", "theirs"]


def test_a_pool_with_a_slice_missing_is_not_complete() -> None:
    world = World([resource_slice("a", count=2)])
    view = NodeViews(world.inventory.snapshot(), world.features).of(node())
    assert [pool.status for pool in view.pools] == [PoolStatus.INCOMPLETE]
    assert view.devices == []


@pytest.mark.parametrize("shares", [True, False])
def test_the_state_of_a_pool_says_what_is_taken(shares: bool) -> None:
    made = ["a", device("b", shareable=True, capacity={"mem": 5})]
    world = World([resource_slice(*made)], [held("a", shares={"b": {"mem": 2}})])
    view = NodeViews(world.inventory.snapshot(), world.features).of(node())
    (state,) = view.states(world.ledger.snapshot(), shares=shares)
    assert state.taken & 0b01
    assert bool(state.shared & 0b10) is shares
    assert state.capacity == ({1: {"drv/mem": 2 * 10**9}} if shares else {})


def test_what_devices_in_use_consume_is_missing_from_the_counters() -> None:
    world = World(
        [
            resource_slice(device("a", consumes={"g": {"m": 3}}), device("b", consumes={"g": {"m": 1}}), count=2),
            resource_slice(name="c", count=2, counters={"g": {"m": 8}}),
        ],
        [held("a")],
    )
    view = NodeViews(world.inventory.snapshot(), world.features).of(node())
    (state,) = view.states(world.ledger.snapshot(), shares=True)
    assert state.available == {("g", "m"): 5 * 10**9}
