"""Consumption by placements."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.state import Frame, SearchResult, Shares, ShareState, State, depth_first
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice

STATE = State(0b11, 0b10, 1, ("numa 0", None), None, ShareState({0: {"drv/mem": 5}}, 0b100))


def test_the_next_claim_begins_with_what_is_taken_and_without_what_was_its_neighbours() -> None:
    after = STATE.for_next_claim(3)
    assert (after.used, after.counters, after.shares) == (STATE.used, STATE.counters, STATE.shares)
    assert (after.mine, after.placed, after.constraints) == (0, 0, (None, None, None))


def test_a_state_never_changes_so_that_a_failed_one_can_be_remembered() -> None:
    with pytest.raises(AttributeError):
        STATE.used = 0
    STATE.for_next_claim(1)
    assert (STATE.mine, STATE.placed, STATE.constraints) == (0b10, 1, ("numa 0", None))


GIGA = 10**9


def posed(world: World, *requests: dict[str, Any]) -> tuple[Shares, list[RequestOption]]:
    prepared, problem = problem_of(world, [claim(*requests)])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    return Candidates(problem, bases(tables, problem)).shares, list(tables.options)


def two(*, taken: int = 0, size: int = 5) -> World:
    """A device «a» with shares, and «b» without."""
    made = [device("a", shareable=True, capacity={"mem": size}), device("b", capacity={"mem": size})]
    return World([resource_slice(*made)], [held(shares={"a": {"mem": taken}})] if taken else ())


def test_a_share_takes_what_its_request_asks_for() -> None:
    shares, (option,) = posed(two(), exactly("r", 1, capacity={"drv/mem": 2}))
    assert shares.usage(option, 0).amounts[0].value() == 2
    after = shares.after(option, shares.first, 0)
    assert after.used == {0: {"drv/mem": 2 * GIGA}}
    assert shares.after(option, after, 0).used == {0: {"drv/mem": 4 * GIGA}}


def test_a_device_without_shares_keeps_no_account() -> None:
    shares, (option,) = posed(two(), exactly("r", 1, capacity={"drv/mem": 2}))
    assert shares.after(option, shares.first, 1) is shares.first


def test_a_device_in_use_before_is_shared_from_the_start() -> None:
    assert posed(two(taken=2), exactly("r", 1))[0].first.shared == 0b01
    shares, (option,) = posed(two(), exactly("r", 1, capacity={"drv/mem": 1}))
    assert shares.first.shared == 0
    assert shares.after(option, shares.first, 0).shared == 0b01


def test_requests_of_one_call_share_a_device_as_long_as_it_has_room() -> None:
    shares, (small, big) = posed(
        two(), exactly("s", 1, capacity={"drv/mem": 2}), exactly("b", 1, capacity={"drv/mem": 4})
    )
    after = shares.after(small, shares.first, 0)
    assert shares.admitted(small, after, 0b11) == 0b11
    assert shares.admitted(big, after, 0b11) == 0b10
    assert shares.admitted(big, shares.first, 0b11) == 0b11


@given(st.integers(0, 6), st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_device_takes_shares_until_its_capacity_is_used_up(taken: int, sizes: list[int]) -> None:
    size = 8
    requests = [exactly(f"r{number}", 1, capacity={"drv/mem": one}) for number, one in enumerate(sizes)]
    shares, options = posed(two(taken=taken, size=size), *requests)
    state, used = shares.first, taken
    for option, one in zip(options, sizes, strict=True):
        if used > taken:
            # What was in use before the call is judged by the fixed tests, not here.
            assert bool(shares.admitted(option, state, 0b01)) is (used + one <= size)
        if used + one > size:
            break
        state = shares.after(option, state, 0)
        used += one
        assert state.used[0]["drv/mem"] == used * GIGA


@pytest.mark.parametrize("needed", [0, 1, 99])
def test_whether_all_have_room_is_judged_elsewhere(needed: int) -> None:
    shares, (option,) = posed(two(), exactly("r"))
    assert shares.suffices(option, shares.first, 0, needed)


class Choosing:
    """Tries numbers in ascending order until ``wanted`` of them stand on the trail, of which ``bad`` ones fail."""

    def __init__(self, trail: list[int], wanted: int, bad: set[int]) -> None:
        self.trail, self.wanted, self.bad = trail, wanted, bad
        self.begin = len(trail)
        self.number = trail[-1] if trail else 0

    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        if self.begin == self.wanted:
            return SearchResult.FOUND
        if result is SearchResult.EXCEEDED:
            return result
        del self.trail[self.begin :]
        while self.number < self.wanted + len(self.bad):
            self.number += 1
            if self.number not in self.bad:
                self.trail.append(self.number)
                return Choosing(self.trail, self.wanted, self.bad)
        return SearchResult.NOTHING


class Exceeding:
    def advance(self, result: SearchResult | None) -> Frame | SearchResult:
        return SearchResult.EXCEEDED


def test_the_first_solution_ends_the_search_and_stays_on_the_trail() -> None:
    trail: list[int] = []
    assert depth_first(Choosing(trail, 3, {2})) is SearchResult.FOUND
    assert trail == [1, 3, 4]


def test_a_search_may_be_deeper_than_functions_nest() -> None:
    trail: list[int] = []
    assert depth_first(Choosing(trail, 20_000, set())) is SearchResult.FOUND
    assert len(trail) == 20_000


def test_the_result_of_the_first_frame_is_that_of_the_search() -> None:
    assert depth_first(Exceeding()) is SearchResult.EXCEEDED
