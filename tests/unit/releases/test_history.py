"""The history of feature gates."""

from __future__ import annotations

import pytest

from cathedra.releases import RELEASES, Stage, order, state_of
from cathedra.releases.history import HISTORY, NEEDS, OTHERS, OTHERS_NEED


def test_a_gates_states_are_in_order_and_begin_in_known_releases() -> None:
    for gate, states in HISTORY.items():
        begins = [state.since for state in states]
        assert begins == sorted(begins, key=order), gate
        assert set(begins) <= set(RELEASES), gate


def test_a_gate_never_goes_back_to_an_earlier_stage_unless_it_is_removed() -> None:
    rank = {Stage.ALPHA: 0, Stage.BETA: 1, Stage.GA: 2, Stage.DEPRECATED: 3}
    for gate, states in (*HISTORY.items(), *OTHERS.items()):
        stages = [rank[state.stage] for state in states if not state.removed]
        assert stages == sorted(stages), gate


def test_a_gate_needs_only_gates_that_exist() -> None:
    assert set(NEEDS) <= set(HISTORY)
    assert {need for needs in NEEDS.values() for need in needs} <= set(HISTORY)
    assert set(OTHERS_NEED) <= set(OTHERS)
    assert {need for needs in OTHERS_NEED.values() for need in needs} <= set(OTHERS)


def test_a_gate_has_an_effect_or_none_and_its_states_are_in_order() -> None:
    assert not HISTORY.keys() & OTHERS.keys()
    for gate, states in OTHERS.items():
        begins = [state.since for state in states]
        assert begins == sorted(set(begins), key=order), gate


AS_LISTED = """
CompositePodGroup ALPHA off
DRAAdminAccess GA on locked
DRAConsumableCapacity BETA on
DRADerivedAttributes ALPHA off
DRADeviceBindingConditions BETA on
DRADeviceCompatibilityGroups ALPHA off
DRADeviceTaintRules GA on
DRADeviceTaints GA on
DRAExtendedResource GA on locked
DRAFractionalCapacityRange BETA off
DRAListTypeAttributes ALPHA off
DRANodeAllocatableResources ALPHA off
DRAOptionalNodeOperations ALPHA off
DRAPartitionableDevices BETA on
DRAPrioritizedList GA on locked
DRAResourceClaimDeviceStatus GA on locked
DRASchedulerFilterTimeout BETA on
DRAWorkloadResourceClaims BETA off
DynamicResourceAllocation GA on locked
GenericWorkload BETA off
NodeDeclaredFeatures GA on locked
NominatedNodeNameForExpectation BETA on
PodGroupPreemptionPolicy ALPHA off
TopologyAwareWorkloadScheduling ALPHA off
"""
"""The gates of kube-scheduler 1.37 that are known here, as its list of features has them."""


@pytest.mark.parametrize("row", AS_LISTED.split("\n")[1:-1])
def test_a_gate_of_the_scheduler_has_the_state_that_kubernetes_lists_for_1_37(row: str) -> None:
    gate, *state = row.split()
    found = state_of(gate, "1.37")
    assert found is not None
    assert [found.stage, "on" if found.default else "off", *(["locked"] * found.locked)] == state
