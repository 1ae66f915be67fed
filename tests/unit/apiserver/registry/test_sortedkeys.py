"""Keys come in order, however many were added since they were read last."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cathedra.apiserver.registry.sortedkeys import SortedKeys


@pytest.mark.parametrize("count", [1, 63, 64, 200])
def test_added_keys_come_in_their_places(count: int) -> None:
    added = [f"n/{number * 7919 % 1000:04}" for number in range(count)]
    keys = SortedKeys(["n/0500-there", "n/0100-there"])
    for key in added:
        keys.add(key)
    assert keys.in_order() == sorted([*added, "n/0100-there", "n/0500-there"])
    assert keys.in_order() == sorted([*added, "n/0100-there", "n/0500-there"]), "they are added once"


def test_a_key_can_go_before_the_order_was_read() -> None:
    keys = SortedKeys(["b"])
    keys.add("a")
    keys.add("c")
    keys.remove("a")
    assert keys.in_order() == ["b", "c"]


@given(st.lists(st.text(max_size=2)))
def test_what_is_there_comes_in_order_whatever_came_and_went(steps: list[str]) -> None:
    """A key that is there already goes with its second step."""
    keys, there = SortedKeys(), set[str]()
    for key in steps:
        (keys.remove if key in there else keys.add)(key)
        there ^= {key}
    assert keys.in_order() == sorted(there)
