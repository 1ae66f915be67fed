"""Gates and releases."""

from __future__ import annotations

import pytest

from cathedra.allocation import NEWEST, RELEASE_1_36, Features, behaviour_of


def test_a_gate_that_the_release_does_not_know_is_off() -> None:
    features = Features.from_gates({"DRAAdminAccess": True})
    assert features.admin_access
    assert not features.device_taints


def test_binding_conditions_need_both_their_gates() -> None:
    one = {"DRADeviceBindingConditions": True}
    assert not Features.from_gates(one).device_binding_and_status
    assert Features.from_gates(one | {"DRAResourceClaimDeviceStatus": True}).device_binding_and_status


def test_names_that_are_not_given_are_off_and_unknown_ones_are_an_error() -> None:
    assert Features.from_names({"ConsumableCapacity": True}) == Features.from_gates({"DRAConsumableCapacity": True})
    with pytest.raises(KeyError):
        Features.from_names({"Nope": True})


@pytest.mark.parametrize(("release", "behaviour"), [("1.35", RELEASE_1_36), ("1.36", RELEASE_1_36), ("1.38", NEWEST)])
def test_releases_before_1_37_behave_as_1_36(release: str, behaviour: object) -> None:
    assert behaviour_of(release) is behaviour


def test_counters_are_beside_their_devices_up_to_1_34() -> None:
    assert behaviour_of("1.34").counter_slices_have_devices
    assert not behaviour_of("1.35").counter_slices_have_devices


def test_features_are_keys() -> None:
    assert {Features(): 1}[Features()] == 1
    assert hash(Features(behaviour=RELEASE_1_36)) != hash(Features())


def test_the_stable_allocator_serves_what_has_no_newer_feature() -> None:
    assert not Features().stable
    assert Features.from_names({"AdminAccess": True, "PrioritizedList": True}).stable
