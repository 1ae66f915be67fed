"""Differences between the releases in which drivers allocate."""

from __future__ import annotations

from cathedra.releases import FeatureGates, classic
from cathedra.releases.table import CLASSIC_RELEASES, RELEASES


def test_drivers_allocate_in_the_classic_releases_alone() -> None:
    held = [release for release in RELEASES if FeatureGates.for_release(release).has(classic.DRIVERS_ALLOCATE)]
    assert tuple(held) == CLASSIC_RELEASES
