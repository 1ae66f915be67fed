"""The arithmetic of rolling updates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.controllers.workloads.rollout import down_step, limits, up_step


@given(st.integers(0, 50), st.integers(0, 100), st.integers(0, 100), st.integers(0, 50), st.integers(0, 50))
def test_rollouts_never_exceed_their_limits(replicas: int, surge: int, lost: int, new: int, old: int) -> None:
    above, below = limits(replicas, f"{surge}%", f"{lost}%")
    assert above + below > 0
    wanted = up_step(replicas, above, min(new, replicas), min(new, replicas) + old)
    assert wanted >= min(new, replicas)
    assert wanted + old <= max(replicas + above, min(new, replicas) + old)
    assert down_step(replicas, below, new + old, 0) <= max(0, new + old - replicas + below)


@pytest.mark.parametrize(
    ("surge", "unavailable", "expected"),
    [("25%", "25%", (1, 1)), (0, 0, (0, 1)), ("50%", 2, (2, 2)), (None, None, (1, 1))],
)
def test_percentages_round_in_favour_of_the_rollout(surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(4, surge, unavailable) == expected
