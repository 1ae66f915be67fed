"""Bounds on what is still to be placed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation.search.lookahead import matchable


@settings(max_examples=80)
@given(st.lists(st.integers(0, 31), max_size=5))
def test_units_are_matchable_exactly_if_some_choice_gives_each_its_own(units: list[int]) -> None:
    def serve(rest: list[int], taken: int) -> bool:
        return not rest or any(
            rest[0] >> at & 1 and not taken >> at & 1 and serve(rest[1:], taken | 1 << at) for at in range(5)
        )

    assert matchable(units) == (len(units) < 2 or serve(units, 0))
