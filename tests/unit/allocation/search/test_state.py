"""What placements have used up."""

from __future__ import annotations

import pytest

from cathedra.allocation.search.shares import ShareState
from cathedra.allocation.search.state import State

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
