"""Capacity that shares take of devices."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.shares import Shares
from tests.unit.allocation.building import World, claim, device, exactly, held, problem_of, resource_slice

GIGA = 10**9


def posed(world: World, *requests: dict[str, Any]) -> tuple[Shares, list[RequestOption]]:
    prepared, problem = problem_of(world, [claim(*requests)])
    tables = OptionTables(prepared.plans, world.features, problem.view.interner)
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
