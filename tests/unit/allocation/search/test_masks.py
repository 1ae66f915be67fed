"""Sets of devices as integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.allocation.search.masks import bits, mask_of, positions


@given(st.sets(st.integers(0, 200)))
def test_a_mask_holds_its_positions_in_ascending_order(members: set[int]) -> None:
    assert list(positions(mask_of(members))) == sorted(members)


@given(st.integers(0, 2**70))
def test_the_bits_of_a_mask_add_up_to_it(mask: int) -> None:
    assert sum(bits(mask)) == mask
    assert [bit.bit_count() for bit in bits(mask)] == [1] * mask.bit_count()
