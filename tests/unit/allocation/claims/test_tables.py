"""Facts about devices that are computed before a search."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Allocation, AllocationError, Refusal
from cathedra.allocation.claims.tables import LIMIT, SPEC_CACHE, Bases, OptionTables, bases
from cathedra.allocation.search.matching import positions
from cathedra.api.resource import DeviceClass, ResourceClaim
from cathedra.api.struct import encode, from_dict, replace
from tests.unit.allocation.building import (
    World,
    claim,
    device,
    exactly,
    first_available,
    held,
    node,
    problem_of,
    resource_slice,
)


def known(world: World, *requests: dict[str, Any]) -> Bases:
    prepared, problem = problem_of(world, [claim(*requests)])
    return bases(OptionTables(prepared.plans, world.features, problem.supply.interner), problem)


def test_a_device_is_a_candidate_of_the_requests_whose_selectors_it_passes() -> None:
    made = [device(name, attributes={"index": number}) for number, name in enumerate("abc")]
    found = known(
        World([resource_slice(*made)]),
        exactly("r", 1, 'device.attributes["drv"].index > 0'),
        exactly("s", 1, 'device.attributes["drv"].index < 1'),
    )
    assert [list(positions(mask)) for mask in found.masks] == [[1, 2], [0]]


def test_devices_in_use_are_no_candidates_but_for_admin_access() -> None:
    found = known(World([resource_slice("a", "b")], [held("a")]), exactly("r"), exactly("s", 1, adminAccess=True))
    assert [list(positions(mask)) for mask in found.masks] == [[1], [0, 1]]


def test_a_device_on_which_a_selector_fails_is_a_risk_and_no_candidate() -> None:
    made = [device("a", attributes={"index": 1}), device("b")]
    found = known(World([resource_slice(*made)]), exactly("r", 1, 'device.attributes["drv"].index > 0'))
    assert (list(positions(found.masks[0])), list(positions(found.risky[0]))) == ([0], [1])


def test_a_shareable_device_is_a_candidate_while_its_capacity_lasts() -> None:
    made = [device(name, shareable=True, capacity={"mem": 5}) for name in "ab"]
    world = World([resource_slice(*made)], [held(shares={"a": {"mem": 4}})])
    found = known(world, exactly("r", 1, capacity={"mem": 2}), exactly("s", 1, capacity={"mem": 1}))
    assert [list(positions(mask)) for mask in found.masks] == [[1], [0, 1]]
    assert list(positions(found.shareable)) == [0, 1]


def test_tainted_devices_are_candidates_of_those_who_tolerate_them() -> None:
    tolerations = [{"operator": "Exists"}]
    world = World([resource_slice(device("a", taints={"broken": "NoSchedule"}), "b")])
    found = known(world, exactly("r"), exactly("s", 1, tolerations=tolerations))
    assert [list(positions(mask)) for mask in found.masks] == [[1], [0, 1]]


HOLDS = st.tuples(st.sampled_from(["hold", "share", "free"]), st.integers(0, 4), st.integers(0, 19))


@settings(max_examples=30, deadline=None)
@given(st.lists(HOLDS, max_size=12))
def test_what_is_kept_of_many_pools_is_what_one_who_knows_nothing_finds(steps: list[tuple[str, int, int]]) -> None:
    parts = [device("whole"), device("part", shareable=True, capacity={"mem": 5}), device("odd")]
    slices = [resource_slice(*parts, name=f"s{pool}", pool=f"p{pool}") for pool in range(20)]
    asked = [exactly("r", 1, capacity={"mem": 2}), exactly("s"), exactly("t", 1, adminAccess=True)]
    world = World(slices)
    claims: dict[int, ResourceClaim] = {}
    for step, number, pool in steps:
        if step == "free":
            if number in claims:
                world.ledger.remove(claims.pop(number))
        else:
            shares = {"part": {"mem": 4}} if step == "share" else {}
            names = [] if shares else ["whole"]
            claims[number] = held(*names, name=f"c{number}", pool=f"p{pool}", shares=shares)
            world.ledger.add(claims[number])
        kept, fresh = known(world, *asked), known(World(slices, claims.values()), *asked)
        assert (kept.masks, kept.risky) == (fresh.masks, fresh.risky)
        assert (kept.shareable, kept.shared) == (fresh.shareable, fresh.shared)


SLICE = resource_slice(*[device(f"d{at}", attributes={"numa": at % 2, "serial": f"s{at}"}) for at in range(4)])
SPECS = [
    claim(exactly("a", 1, 'device.attributes["drv"].numa == 1')),
    claim(exactly("a", 2), constraints=[{"matchAttribute": "drv/numa"}]),
    claim(first_available("a", x=exactly("x", 3), y=exactly("y", 1))),
    claim(exactly("a", 0, allocationMode="All")),
    claim(exactly("a", 1, 'device.attributes["drv"].gone == 1')),
    claim(exactly("a", 1, deviceClassName="gone")),
    claim(exactly("a", 33)),
]
"""Some of them fit, one fails on a device, one has no class, and one requests too much."""


def named(index: int, number: int) -> ResourceClaim:
    """Return a claim with the same spec object as all others of that index."""
    one = SPECS[index]
    return replace(one, metadata=replace(one.metadata, name=f"k{number}", uid=f"uid-{number}"))


def said(world: World, asked: list[ResourceClaim]) -> object:
    try:
        outcome = world.allocate(*asked)
    except AllocationError as error:
        return str(error)
    if isinstance(outcome, Refusal):
        return str(outcome)
    return encode(outcome.results)


ROUNDS = st.lists(
    st.tuples(
        st.lists(st.integers(0, len(SPECS) - 1), min_size=1, max_size=2),
        st.integers(0, 3),
        st.sampled_from(["", "class", "free"]),
    ),
    max_size=8,
)


@settings(max_examples=80, deadline=None)
@given(ROUNDS)
def test_claims_of_one_spec_get_what_each_gets_alone(rounds: list[tuple[list[int], int, str]]) -> None:
    """In their own names, whatever is held, and whichever classes there are."""
    kept = World([SLICE])
    holding: dict[str, ResourceClaim] = {}
    for number, (specs, at, change) in enumerate(rounds):
        if change == "class":
            kept.classes["c"] = _class(f'device.attributes["drv"].numa == {at % 2}')
        elif change == "free":
            kept.ledger.remove(held(name=f"h{at}"))
            holding.pop(f"h{at}", None)
        else:
            holding[f"h{at}"] = held(f"d{at}", name=f"h{at}")
            kept.ledger.add(holding[f"h{at}"])
        fresh = World([SLICE], holding.values())
        fresh.classes.update(kept.classes)
        asked = [named(index, 10 * number + place) for place, index in enumerate(specs)]
        assert said(kept, asked) == said(fresh, asked)


def _class(expression: str) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return from_dict(DeviceClass, {"metadata": {"name": "c"}, "spec": spec})


def test_claims_of_one_spec_are_taken_apart_once() -> None:
    world = World([SLICE])
    first, second = (world.allocator().prepare([named(0, number)]) for number in range(2))
    assert first._specs is second._specs
    assert isinstance(first.on(node()), Allocation)
    assert isinstance(second.on(node()), Allocation)
    assert second._plans is None
    assert second.plans[0].claim.metadata.name == "k1"


def test_a_refusal_names_the_claim_that_was_refused() -> None:
    world = World([SLICE])
    for number in range(2):
        with pytest.raises(AllocationError, match=f"claim ns/k{number}, request a"):
            world.allocate(named(6, number))


def test_few_sorts_of_claims_are_remembered_and_faulty_ones_not_at_all() -> None:
    world = World([SLICE])
    allocator = world.allocator()
    for count in range(LIMIT + 1):
        allocator.prepare([claim(exactly("a", 1 + count % 4))])
    allocator.prepare([claim(exactly("a", 1, deviceClassName="gone"))])
    known = allocator.inventory.caches.of(SPEC_CACHE)._known
    assert len(known) == LIMIT
    assert all(asked.key is not None for asked in known.values())
