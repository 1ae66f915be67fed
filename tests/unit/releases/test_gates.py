"""Feature gates: defaults of a release, overrides, dependencies."""

from __future__ import annotations

import pytest

from cathedra.releases import DEFAULT_RELEASE, RELEASES, UNRELEASED, FeatureGates, UnknownGate, parse_overrides


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


def test_a_gate_that_is_removed_once_it_was_locked_leaves_its_feature_on() -> None:
    """kubernetes/kubernetes#141946."""
    assert FeatureGates.for_release("1.38")["DynamicResourceAllocation"]
    with pytest.raises(UnknownGate, match="unrecognized feature gate: DynamicResourceAllocation"):
        FeatureGates.for_release("1.38", {"DynamicResourceAllocation": True})


@pytest.mark.parametrize("gate", ["GangScheduling", "WorkloadAwarePreemption"])
def test_from_137_on_one_gate_switches_gangs(gate: str) -> None:
    """kubernetes/kubernetes#139520."""
    with pytest.raises(UnknownGate, match=f"unrecognized feature gate: {gate}"):
        FeatureGates.for_release("1.37", {"GenericWorkload": True, gate: True})
    assert FeatureGates.for_release("1.37", {"GenericWorkload": True}).gang_scheduling
    assert not FeatureGates.for_release("1.36", {"GenericWorkload": True}).gang_scheduling
    assert FeatureGates.for_release("1.36", {"GenericWorkload": True, "GangScheduling": True}).gang_scheduling


@pytest.mark.parametrize("gate", ["DRADeviceTaints", "DRADeviceTaintRules"])
def test_in_138_device_taints_cannot_be_switched_off(gate: str) -> None:
    """kubernetes/kubernetes#140256."""
    assert not FeatureGates.for_release("1.37", {"DRADeviceTaints": False, "DRADeviceTaintRules": False})[gate]
    with pytest.raises(UnknownGate, match="locked to true"):
        FeatureGates.for_release("1.38", {gate: False})


def test_the_default_is_the_newest_release_that_is_out() -> None:
    assert FeatureGates.for_release().release == DEFAULT_RELEASE
    assert DEFAULT_RELEASE not in UNRELEASED
    assert RELEASES.index(DEFAULT_RELEASE) == len(RELEASES) - 1 - len(UNRELEASED)


def test_a_gate_that_was_withdrawn_is_as_the_last_patch_release_has_it() -> None:
    """On in 1.35.0 to 1.35.3, off from 1.35.4 on (kubernetes/kubernetes#137904), on again in 1.37 (#139466)."""
    on = [release for release in RELEASES if FeatureGates.for_release(release)["MaxUnavailableStatefulSet"]]
    assert on == list(RELEASES[RELEASES.index("1.37") :])


def test_the_switch_of_beta_validation_is_on_since_it_exists() -> None:
    on = [release for release in RELEASES if FeatureGates.for_release(release)["DeclarativeValidationBeta"]]
    assert on == list(RELEASES[RELEASES.index("1.36") :])


def test_a_gate_that_needs_peers_of_its_release_is_on_from_the_next_one_on() -> None:
    """Kubernetes' parts assume by default that others of the control plane are one release older."""
    assert [FeatureGates.for_release(one)["DRAFractionalCapacityRange"] for one in ("1.37", "1.38")] == [False, True]


def test_gates_that_switch_nothing_here_are_accepted_and_named() -> None:
    gates = FeatureGates.for_release("1.37", {"MemoryQoS": False, "HPAScaleToZero": True, "DRADerivedAttributes": True})
    assert (gates["MemoryQoS"], gates["HPAScaleToZero"]) == (False, True)
    assert gates.without_effect() == ["MemoryQoS"]  # HPAScaleToZero is at its default


@pytest.mark.parametrize(
    ("release", "gate", "on", "message"),
    [
        ("1.37", "ImageVolume", False, "cannot set feature gate ImageVolume to false, feature is locked to true"),
        ("1.37", "KubeletPodResourcesGet", False, "feature is locked to true"),
        ("1.36", "MemoryQos", True, "unrecognized feature gate: MemoryQos"),
        ("1.36", "PodsAPI2", True, "unrecognized feature gate"),
        ("1.35", "PodsAPI", True, "unrecognized feature gate: PodsAPI"),
        ("1.38", "CRDValidationRatcheting", True, "unrecognized feature gate: CRDValidationRatcheting"),
        ("1.33", "ClusterTrustBundleProjection", True, "depends on disabled features: ClusterTrustBundle"),
    ],
)
def test_gates_that_switch_nothing_here_are_validated(release: str, gate: str, on: bool, message: str) -> None:
    with pytest.raises(UnknownGate, match=message):
        FeatureGates.for_release(release, {gate: on})


def test_what_a_server_reports_of_gates_without_effect_changes_nothing() -> None:
    gates = FeatureGates.for_release("1.37")
    assert gates.with_reported({"MemoryQoS": False}).overrides() == {}
