"""The releases and their order."""

from __future__ import annotations

import pytest

from cathedra.releases import NEWEST, RELEASES, Behaviour, git_version, order
from cathedra.releases.table import nearest_release


def test_releases_are_listed_from_the_oldest_to_the_newest() -> None:
    assert list(RELEASES) == sorted(RELEASES, key=order)
    assert RELEASES[-1] == NEWEST


def test_releases_are_ordered_by_number_not_by_text() -> None:
    assert order("1.9") < order("1.36")


def test_a_release_is_shown_as_the_patch_release_that_was_compared_with() -> None:
    assert git_version("1.37") == "v1.37.1"
    assert git_version("1.36") == "v1.36.2"
    assert git_version("1.35") == "v1.35.0"


@pytest.mark.parametrize(
    ("version", "release"),
    [("v1.33.2", "1.33"), ("1.34", "1.34"), ("v1.99.0-alpha", NEWEST), ("v1.2.3", RELEASES[0]), ("", ""), ("x", "")],
)
def test_the_nearest_release_is_the_last_one_that_is_not_newer(version: str, release: str) -> None:
    assert nearest_release(version) == release


# A named difference between releases.


@pytest.mark.parametrize(
    ("since", "until", "held"),
    [("", "1.30", "1.30"), ("1.31", "", "1.31 1.32"), ("1.31", "1.31", "1.31"), ("", "", "1.30 1.31 1.32")],
)
def test_a_behaviour_holds_from_its_first_release_to_its_last(since: str, until: str, held: str) -> None:
    behaviour = Behaviour("It does so.", since=since, until=until)
    assert [release for release in ("1.30", "1.31", "1.32") if behaviour.holds_in(release)] == held.split()
