"""A named difference between releases."""

from __future__ import annotations

import pytest

from cathedra.releases import Behaviour


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [("", "1.30", "1.30"), ("1.31", "", "1.31 1.32"), ("1.31", "1.31", "1.31"), ("", "", "1.30 1.31 1.32")],
)
def test_a_behaviour_holds_from_its_first_release_to_its_last(since: str, until: str, held: str) -> None:
    behaviour = Behaviour("It does so.", since=since, until=until)
    assert [release for release in ("1.30", "1.31", "1.32") if behaviour.holds_in(release)] == held.split()
