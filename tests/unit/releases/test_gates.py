"""Feature gates: defaults of a release, overrides, dependencies."""

from __future__ import annotations

import pytest

from cathedra.releases import FeatureGates, UnknownGate, parse_overrides


@pytest.mark.parametrize(
    ("gate", "since"),
    [
        ("DRAAdminAccess", "1.34"),
        ("DRAConsumableCapacity", "1.36"),
        ("DRADeviceTaints", "1.36"),
        ("DRADeviceTaintRules", "1.37"),
        ("DRAExtendedResource", "1.36"),
    ],
)
def test_a_gate_is_open_by_default_from_its_release_on(gate: str, since: str) -> None:
    for release in ("1.34", "1.35", "1.36", "1.37"):
        assert FeatureGates.for_release(release)[gate] is (int(release[2:]) >= int(since[2:]))


def test_a_gate_can_be_overridden_unless_it_is_locked() -> None:
    assert FeatureGates.for_release("1.37", {"DRAListTypeAttributes": True})["DRAListTypeAttributes"]
    with pytest.raises(UnknownGate, match="locked"):
        FeatureGates.for_release("1.37", {"DRAAdminAccess": False})


def test_a_gate_needs_those_it_depends_on() -> None:
    with pytest.raises(UnknownGate, match="depends on disabled features: GenericWorkload"):
        FeatureGates.for_release("1.37", {"DRAWorkloadResourceClaims": True})


def test_an_unknown_gate_is_refused() -> None:
    with pytest.raises(UnknownGate):
        FeatureGates.for_release("1.37", {"Nonsense": True})


def test_overrides_are_read_from_a_flag() -> None:
    assert parse_overrides("A=true,B=false") == {"A": True, "B": False}
