"""Claims made from templates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.controllers.resourceclaim.generation import generate_name


@given(st.text("abc", min_size=1, max_size=80), st.text("xyz", min_size=1, max_size=63))
def test_generated_names_leave_room_for_five_characters(owner: str, entry: str) -> None:
    prefix = generate_name(owner, entry)
    assert len(prefix) <= 57 + 1
    assert len(prefix) + 5 <= 63
    if len(owner) + len(entry) + 2 <= 57:
        assert prefix == f"{owner}-{entry}-"


def test_long_names_are_cut_in_proportion() -> None:
    assert generate_name("p" * 60, "g") == "p" * 54 + "-"
