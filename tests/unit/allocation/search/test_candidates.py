"""The devices that may be placed next."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import Features
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates, Restriction
from cathedra.allocation.search.matching import positions
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice


def candidates(world: World, *requests: dict[str, Any], **more: Any) -> Candidates:
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    return Candidates(problem, bases(OptionTables(prepared.plans, world.features, problem.supply.interner), problem))


THREE = World([resource_slice(*[device(name, attributes={"numa": at // 2}) for at, name in enumerate("abc")])])


def test_a_placed_device_is_gone_for_all_but_admin_access_of_others() -> None:
    found = candidates(THREE, exactly("r"), exactly("s", 1, adminAccess=True))
    choices = [request.choices[0] for request in found.problem.requests[0]]
    after, placement = found.place(choices[0], 1, found.first)
    assert placement.position == 1
    assert list(positions(found.of(choices[0].option, after))) == [0, 2]
    assert list(positions(found.of(choices[1].option, after))) == [0, 2], "the claim has it already"
    later = after.for_next_claim(0)
    assert list(positions(found.untied(choices[1].option, later))) == [0, 1, 2]
    assert list(positions(found.untied(choices[0].option, later))) == [0, 2]


def test_constraints_narrow_what_is_left_and_the_state_before_stays() -> None:
    found = candidates(THREE, exactly("r", 2), constraints=[{"matchAttribute": "drv/numa"}])
    choice = found.problem.requests[0][0].choices[0]
    after, _ = found.place(choice, 0, found.first)
    assert list(positions(found.of(choice.option, after))) == [1]
    assert list(positions(found.untied(choice.option, after))) == [1, 2]
    assert list(positions(found.of(choice.option, found.first))) == [0, 1, 2]
    assert (after.placed, found.first.placed) == (1, 0)


def test_all_restrictions_must_find_enough() -> None:
    found = candidates(THREE, exactly("r", 2), constraints=[{"matchAttribute": "drv/numa"}])
    option = found.problem.requests[0][0].choices[0].option
    assert found.suffice(option, found.first, 0b111, 2)
    assert not found.suffice(option, found.first, 0b111, 3)
    assert not found.suffice(option, found.first, 0b101, 2)


FIVE = ("a", "b", "c", "d", "e")


def posed(world: World, *requests: dict[str, Any], **more: Any) -> tuple[Candidates, RequestOption]:
    """The candidates of a claim on the node, and the option of its first request."""
    prepared, problem = problem_of(world, [claim(*requests, **more)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    return Candidates(problem, bases(tables, problem)), tables.options[0]


def constrained(attribute: str) -> tuple[Restriction, RequestOption]:
    values = dict(zip(FIVE, (1, 1, 2, 2, 3), strict=True))
    made = [device(name, attributes={"numa": value}) for name, value in values.items()]
    candidates, option = posed(
        World([resource_slice(*made)]), exactly("r", 2), constraints=[{attribute: "drv/numa", "requests": []}]
    )
    return candidates.rules[0][0], option


def counted() -> tuple[Restriction, RequestOption]:
    amounts = dict(zip(FIVE, (1, 2, 3, 1, 2), strict=True))
    made = [device(name, consumes={"g": {"m": amount}}) for name, amount in amounts.items()]
    world = World(
        [
            resource_slice(*made, count=2),
            resource_slice(name="counters", count=2, counters={"g": {"m": 4}}),
        ]
    )
    candidates, option = posed(world, exactly("r", 2))
    assert candidates.counters is not None
    return candidates.counters, option


def shared() -> tuple[Restriction, RequestOption]:
    made = [device(name, shareable=True, capacity={"mem": 5}) for name in FIVE]
    candidates, option = posed(World([resource_slice(*made)]), exactly("r", 2, capacity={"drv/mem": 3}))
    return candidates.shares, option


KINDS = {
    "match": lambda: constrained("matchAttribute"),
    "distinct": lambda: constrained("distinctAttribute"),
    "counters": counted,
    "shares": shared,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_placement_makes_another_state_and_leaves_the_first_as_it_was(kind: str) -> None:
    restriction, option = KINDS[kind]()
    before = restriction.admitted(option, restriction.first, 0b11111)
    for position in positions(before):
        after = restriction.after(option, restriction.first, position)
        assert restriction.admitted(option, after, before) & ~before == 0
        assert restriction.admitted(option, restriction.first, 0b11111) == before


@pytest.mark.parametrize("kind", KINDS)
def test_only_devices_that_were_asked_about_are_admitted(kind: str) -> None:
    restriction, option = KINDS[kind]()
    for left in range(32):
        assert restriction.admitted(option, restriction.first, left) & ~left == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_placed_is_never_called_too_little(kind: str) -> None:
    """A bound may accept a state that fails, and never rejects one that succeeds."""
    restriction, option = KINDS[kind]()

    def most(state: Any, left: int) -> int:
        admitted = restriction.admitted(option, state, left)
        reached = (1 + most(restriction.after(option, state, at), left & ~(1 << at)) for at in positions(admitted))
        return max(reached, default=0)

    for left in range(32):
        admitted = restriction.admitted(option, restriction.first, left)
        for needed in range(1, most(restriction.first, left) + 1):
            assert restriction.suffices(option, restriction.first, admitted, needed)


@pytest.mark.parametrize(
    ("kind", "first", "admitted"),
    [
        ("match", 0, [1]),
        ("match", 2, [3]),
        ("distinct", 0, [2, 3, 4]),
        ("counters", 2, [0, 3]),
        ("shares", 1, [0, 2, 3, 4]),
    ],
)
def test_what_is_placed_decides_what_may_join(kind: str, first: int, admitted: list[int]) -> None:
    restriction, option = KINDS[kind]()
    after = restriction.after(option, restriction.first, first)
    assert list(positions(restriction.admitted(option, after, 0b11111 & ~(1 << first)))) == admitted


def test_a_constraint_leaves_requests_alone_that_it_does_not_name() -> None:
    made = [device(name, attributes={"numa": number}) for number, name in enumerate(FIVE)]
    candidates, _ = posed(
        World([resource_slice(*made)]),
        exactly("free"),
        exactly("one"),
        exactly("two"),
        constraints=[{"matchAttribute": "drv/numa", "requests": ["one", "two"]}],
    )
    rule = candidates.rules[0][0]
    free, one, two = (request.choices[0].option for request in candidates.problem.requests[0])
    assert not rule.concerns(free)
    state = rule.after(free, rule.first, 3)
    assert state is rule.first
    state = rule.after(one, state, 3)
    assert list(positions(rule.admitted(two, state, 0b11111))) == [3]
    assert rule.admitted(free, state, 0b11111) == 0b11111
    assert rule.suffices(free, state, 0b11111, 5)


def test_a_device_in_use_by_an_earlier_share_is_not_charged_again() -> None:
    partition = device("a", shareable=True, capacity={"mem": 5}, consumes={"g": {"m": 3}})
    slices = [
        resource_slice(partition, device("b", consumes={"g": {"m": 1}}), count=2),
        resource_slice(name="counters", count=2, counters={"g": {"m": 4}}),
    ]
    world = World(slices, [held(shares={"a": {"mem": 1}})], features=Features())
    candidates, option = posed(world, exactly("r", 2))
    counters = candidates.counters
    assert counters is not None
    assert counters.after(option, counters.first, 0) is counters.first
    charged = counters.after(option, counters.first, 1)
    assert charged.pools != counters.first.pools
    assert counters.admitted(option, charged, 0b11) & 0b01


def test_shares_add_up_with_what_was_in_use_before() -> None:
    world = World([resource_slice(device("a", shareable=True, capacity={"mem": 5}))], [held(shares={"a": {"mem": 2}})])
    candidates, option = posed(world, exactly("r", 1, capacity={"drv/mem": 2}))
    shares = candidates.shares
    assert shares.used_before(0) == {"drv/mem": 2 * 10**9}
    after = shares.after(option, shares.first, 0)
    assert after.used == {0: {"drv/mem": 4 * 10**9}}
    assert shares.first.used == {}
    assert shares.admitted(option, after, 1) == 0
