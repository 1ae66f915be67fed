"""Limits of states and time of a search."""

from __future__ import annotations

import pytest

from cathedra.allocation import UNLIMITED, Aborted, Budget
from cathedra.allocation.search.budget import BudgetExceeded, Meter


def test_the_step_after_the_last_is_refused() -> None:
    meter = Meter(Budget(states=3).begin())
    for _ in range(3):
        meter.step()
    with pytest.raises(BudgetExceeded, match="stopped after 3 states"):
        meter.step()


def test_the_clock_is_read_every_8_states() -> None:
    now = [100.0]
    meter = Meter(Budget(seconds=5.0, monotonic=lambda: now[0]).begin())
    meter.step()
    now[0] = 105.1
    with pytest.raises(BudgetExceeded, match="stopped after 9 states"):
        _walk(meter, 1000)
    assert meter.states == 9


def test_all_searches_of_one_allowance_share_its_seconds() -> None:
    now = [100.0]
    allowance = Budget(seconds=5.0, monotonic=lambda: now[0]).begin()
    Meter(allowance).step()
    now[0] = 105.1
    with pytest.raises(BudgetExceeded):
        Meter(allowance).step()
    assert allowance.exhausted


def _walk(meter: Meter, steps: int) -> None:
    for _ in range(steps):
        meter.step()


def test_a_cancelled_search_says_why() -> None:
    meter = Meter(Budget(cancelled=lambda: "the pod is gone").begin())
    with pytest.raises(Aborted, match="filter operation aborted: the pod is gone"):
        meter.step()


def test_an_unlimited_budget_is_never_used_up() -> None:
    meter = Meter(UNLIMITED.begin())
    for _ in range(10_000):
        meter.step()
    assert meter.states == 10_000
