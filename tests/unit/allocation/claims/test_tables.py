"""What is known about devices before a search."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.claims.tables import Bases, OptionTables, bases
from cathedra.allocation.search.masks import positions
from cathedra.api.resource import ResourceClaim
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice


def known(world: World, *requests: dict[str, Any]) -> Bases:
    prepared, problem = problem_of(world, [claim(*requests)])
    return bases(OptionTables(prepared.plans, world.features, problem.view.interner), problem)


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
