"""Sets of completion indexes in their short form."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.controllers.job.indexes import format_indexes, parse_indexes


@given(st.frozensets(st.integers(0, 200)))
def test_the_short_form_of_indexes_is_lossless(indexes: frozenset[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 201) == indexes


def test_the_short_form_of_indexes() -> None:
    assert format_indexes([0, 2, 3, 4, 7, 8]) == "0,2-4,7,8"
    assert format_indexes([]) == ""
