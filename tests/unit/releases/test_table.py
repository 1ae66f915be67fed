"""The releases and their order."""

from __future__ import annotations

from cathedra.releases import NEWEST, RELEASES, order


def test_releases_are_listed_from_the_oldest_to_the_newest() -> None:
    assert list(RELEASES) == sorted(RELEASES, key=order)
    assert RELEASES[-1] == NEWEST


def test_releases_are_ordered_by_number_not_by_text() -> None:
    assert order("1.9") < order("1.36")
