"""The ledger follows claims."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Ledger
from cathedra.allocation.supply.ledger import NOTHING, PoolState
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.resource import ResourceClaim
from tests.unit.allocation.building import World, claim, device, exactly, held, node, resource_slice

CLAIMS = st.builds(
    lambda name, devices, pool: held(*devices, name=name, pool=pool),
    st.sampled_from(["h1", "h2", "h3"]),
    st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
    st.sampled_from(["p", "q"]),
)


def entered(ledger: Ledger) -> dict[object, object]:
    """Return the whole content of the ledger."""
    return {pool: dict(of.holdings) for pool, of in ledger.snapshot().pools.items()}


@settings(max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "assume", "forget", "copy", "look"]), CLAIMS), max_size=20))
def test_any_order_of_events_gives_what_the_last_word_of_each_claim_says(
    events: list[tuple[str, ResourceClaim]],
) -> None:
    ledger = Ledger()
    last: dict[str, ResourceClaim] = {}
    assumed: set[str] = set()
    for what, one in events:
        name = one.metadata.name
        assert one.status.allocation is not None
        match what:
            case "add":
                ledger.add(one)
                last[name] = one
                assumed.discard(name)
            case "remove":
                ledger.remove(one)
                last.pop(name, None)
                assumed.discard(name)
            case "assume":
                ledger.assume(one, one.status.allocation)
                last[name] = one
                assumed.add(name)
            case "forget":
                ledger.forget(one)
                if name in assumed:
                    last.pop(name)
                assumed.discard(name)
            case "copy":
                ledger = ledger.copy()
            case _:
                ledger.snapshot()
    fresh = Ledger()
    for one in last.values():
        fresh.add(one)
    assert entered(ledger) == entered(fresh)


def test_a_claim_without_an_allocation_leaves_an_assumption_alone() -> None:
    """The informer delivers the claim as it was before the allocation was written."""
    ledger = Ledger()
    assumed = held("a")
    assert assumed.status.allocation is not None
    ledger.assume(assumed, assumed.status.allocation)
    ledger.add(claim(exactly(), name="holder"))
    assert ledger.is_assumed(assumed)
    ledger.add(assumed)
    assert not ledger.is_assumed(assumed)
    ledger.forget(assumed)
    assert [one.claim for one in ledger.snapshot().holders("drv", "p", "a")] == ["ns/holder"]


def test_an_event_names_its_devices_and_a_snapshot_stays() -> None:
    ledger = Ledger()
    ledger.add(held("a", name="h1"))
    before = ledger.snapshot()
    ledger.add(held("b", "c", name="h2", pool="q"))
    after = ledger.snapshot()
    assert after.mark.since(before.mark) == {("drv", "q", "b"), ("drv", "q", "c")}
    assert after.pools["drv", "p"] is before.pools["drv", "p"]
    assert before.pool(("drv", "q")) is NOTHING


def test_a_pool_with_very_many_holdings_is_kept_like_a_small_one() -> None:
    """Above a thousand devices its holdings are shared between snapshots instead of being copied."""
    names = [f"d{number}" for number in range(1500)]
    ledger = Ledger()
    for name in names:
        ledger.add(held(name, name=f"h-{name}"))
    before = ledger.snapshot()
    ledger.remove(held("d7", name="h-d7"))
    assert sorted(before.pool(("drv", "p")).holdings) == sorted(names)
    assert sorted(ledger.snapshot().pool(("drv", "p")).holdings) == sorted(set(names) - {"d7"})
    for name in names:
        ledger.remove(held(name, name=f"h-{name}"))
    assert entered(ledger) == {}


def test_shares_of_a_device_add_up_by_claim() -> None:
    ledger = Ledger()
    ledger.add(held(name="h1", shares={"a": {"mem": 2}}))
    ledger.add(held(name="h2", shares={"a": {"mem": 3}}))
    consumed = [of.consumed for of in ledger.snapshot().holders("drv", "p", "a")]
    assert consumed == [(("drv/mem", 2 * 10**9),), (("drv/mem", 3 * 10**9),)]


@pytest.mark.parametrize("number", [3, 100])
def test_the_devices_that_are_held_as_a_whole_are_taken_beside_shares_and_without_them(number: int) -> None:
    names = [f"d{index}" for index in range(number)]
    world = World([resource_slice(*[device(name) for name in names])], [held("d1", "gone", name="h1")])
    (pool,) = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node()).usable

    def taken() -> int:
        return PoolState.of(pool, world.ledger.snapshot().pool(pool.id), shares=True).taken

    assert taken() == 0b10
    world.ledger.add(held(name="h2", shares={"d2": {"mem": 2}}))
    assert taken() == 0b10
    world.ledger.remove(held(name="h2", shares={"d2": {"mem": 2}}))
    assert taken() == 0b10


@pytest.mark.parametrize("shares", [True, False])
def test_the_state_of_a_pool_says_what_is_taken(shares: bool) -> None:
    made = ["a", device("b", shareable=True, capacity={"mem": 5})]
    world = World([resource_slice(*made)], [held("a", shares={"b": {"mem": 2}})])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    (state,) = supply.states(world.ledger.snapshot(), shares=shares)
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
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    (state,) = supply.states(world.ledger.snapshot(), shares=True)
    assert state.available == {("g", "m"): 5 * 10**9}


def test_states_are_told_apart_by_their_keys() -> None:
    world = World([resource_slice("a", "b")])
    supply = NodeSupplyCache(world.inventory.snapshot(), world.features).of(node())
    (free,) = supply.states(world.ledger.snapshot(), shares=True)
    world.ledger.add(held("b"))
    (taken,) = supply.states(world.ledger.snapshot(), shares=True)
    assert free.key is None
    assert taken.key == 0b10
