"""What the ledger leaves of a pool."""

from __future__ import annotations

import pytest

from cathedra.allocation.supply.pools import NodeViews
from cathedra.allocation.supply.states import StateKey
from tests.unit.allocation.building import World, device, held, node, resource_slice


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


def test_states_are_told_apart_by_their_keys() -> None:
    world = World([resource_slice("a", "b")])
    view = NodeViews(world.inventory.snapshot(), world.features).of(node())
    (free,) = view.states(world.ledger.snapshot(), shares=True)
    world.ledger.add(held("b"))
    (taken,) = view.states(world.ledger.snapshot(), shares=True)
    assert free.key is None
    assert taken.key == StateKey(0b10, 0, (), (), ())
