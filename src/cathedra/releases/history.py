"""The history of every feature gate: in which release it entered which stage, its default, and whether it is locked.

`HISTORY` holds the gates that some part of Cathedra reads (docs/spec/api.md §1.5; docs/spec/node.md §22).
`OTHERS` holds the other gates of Kubernetes. They are accepted, validated and shown, because users bring the flags of
their clusters, and they switch nothing. The source is Kubernetes' own list of gates,
``test/compatibility_lifecycle/reference/versioned_feature_list.yaml``. Gates that were removed before 1.34 are absent
from `OTHERS`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

import msgspec


class Stage:
    """Maturity of a feature, as Kubernetes writes it in ``--help`` and in metrics."""

    ALPHA: Final = "ALPHA"
    BETA: Final = "BETA"
    GA: Final = "GA"
    DEPRECATED: Final = "DEPRECATED"


class GateState(msgspec.Struct, frozen=True):
    """State of a gate from release ``since`` on, until its next state begins."""

    since: str
    stage: str
    default: bool
    locked: bool = False
    removed: bool = False


def _alpha(since: str, *, on: bool = False) -> GateState:
    return GateState(since, Stage.ALPHA, on)


def _beta(since: str, *, on: bool = True) -> GateState:
    return GateState(since, Stage.BETA, on)


def _ga(since: str, *, locked: bool = False) -> GateState:
    return GateState(since, Stage.GA, default=True, locked=locked)


def _deprecated(since: str, *, on: bool) -> GateState:
    return GateState(since, Stage.DEPRECATED, on)


def _gone(since: str, *, on: bool = False) -> GateState:
    """Return a removed gate: it cannot be named any more, and what it switched is ``on`` for good or gone."""
    return GateState(since, Stage.GA if on else Stage.ALPHA, default=on, removed=True)


HISTORY: Final[Mapping[str, tuple[GateState, ...]]] = {
    "DynamicResourceAllocation": (
        _alpha("1.26"),
        _beta("1.32", on=False),
        _ga("1.34"),
        _ga("1.35", locked=True),
        _gone("1.38", on=True),
    ),
    "DRAControlPlaneController": (_alpha("1.31"), _gone("1.32")),
    "DRAAdminAccess": (_alpha("1.32"), _beta("1.34"), _ga("1.36", locked=True)),
    "DRAResourceClaimDeviceStatus": (_alpha("1.32"), _beta("1.33"), _ga("1.37", locked=True)),
    "DRAPrioritizedList": (_alpha("1.33"), _beta("1.34"), _ga("1.36"), _ga("1.37", locked=True)),
    "DRAPartitionableDevices": (_alpha("1.33"), _beta("1.36"), _ga("1.38")),
    "DRADeviceTaints": (_alpha("1.33"), _beta("1.36"), _ga("1.37"), _ga("1.38", locked=True)),
    "DRADeviceTaintRules": (_alpha("1.35"), _beta("1.36", on=False), _ga("1.37"), _ga("1.38", locked=True)),
    "DRAConsumableCapacity": (_alpha("1.34"), _beta("1.36"), _ga("1.38")),
    "DRADeviceBindingConditions": (_alpha("1.34"), _beta("1.36"), _ga("1.38")),
    "DRAExtendedResource": (_alpha("1.34"), _beta("1.36"), _ga("1.37", locked=True)),
    "DRASchedulerFilterTimeout": (_beta("1.34"),),
    "DRAListTypeAttributes": (_alpha("1.36"),),
    "DRANodeAllocatableResources": (_alpha("1.36"),),
    "DRAResourcePoolStatus": (_alpha("1.36"),),
    "DRAResourceClaimGranularStatusAuthorization": (_beta("1.36"),),
    "DRAWorkloadResourceClaims": (_alpha("1.36"), _beta("1.37", on=False)),
    "GenericWorkload": (_alpha("1.35"), _beta("1.37", on=False)),
    "GangScheduling": (_alpha("1.35"), _gone("1.37")),
    "WorkloadAwarePreemption": (_alpha("1.36"), _gone("1.37")),
    "CompositePodGroup": (_alpha("1.37"), _beta("1.38", on=False)),
    "TopologyAwareWorkloadScheduling": (_alpha("1.36"), _beta("1.38", on=False)),
    "PodGroupPreemptionPolicy": (_alpha("1.37"),),
    "WorkloadWithJob": (_alpha("1.36"),),
    "DRAOptionalNodeOperations": (_alpha("1.37"),),
    "DRAPartitionableDevicesType": (_alpha("1.37"),),
    "DRADeviceCompatibilityGroups": (_alpha("1.37"),),
    "DRADerivedAttributes": (_alpha("1.37"),),
    # Kubernetes turns it on if every part of the control plane is at least 1.37. By default a part assumes that its
    # peers may be one release older (--min-compatibility-version).
    "DRAFractionalCapacityRange": (_beta("1.37", on=False), _beta("1.38")),
    # No release of Kubernetes has this gate yet: KEP-5690 describes it (docs/deviations.md).
    "DRAPreemption": (_alpha("1.37"),),
    "DRASharedConsumableCapacity": (_alpha("1.38"),),
    "ManagedFieldsOptOut": (_alpha("1.38"),),
    "ResourceHealthStatus": (_alpha("1.31"), _beta("1.36")),
    "ResourceHealthStatusMessage": (_beta("1.36"),),
    "KubeletPodResourcesDynamicResources": (_alpha("1.27"), _beta("1.34"), _ga("1.36", locked=True)),
    "KubeletPodResourcesGet": (_alpha("1.27"), _beta("1.34"), _ga("1.36", locked=True)),
    "KubeletPodResourcesListUseActivePods": (_deprecated("1.34", on=True),),
    "NominatedNodeNameForExpectation": (_alpha("1.34"), _beta("1.35")),
    "ClearingNominatedNodeNameAfterBinding": (_alpha("1.34"), _beta("1.35")),
    "NodeDeclaredFeatures": (_alpha("1.35"), _beta("1.36"), _ga("1.37", locked=True)),
    "ExtendWebSocketsToKubelet": (_beta("1.36"),),
    "AuthorizeNodeWithSelectors": (
        _alpha("1.31"),
        _beta("1.32"),
        _ga("1.34", locked=True),
        _gone("1.37", on=True),
    ),
    "AuthorizePodWebsocketUpgradeCreatePermission": (_beta("1.35"),),
    "MutatingAdmissionPolicy": (_alpha("1.32"), _beta("1.34", on=False), _ga("1.36")),
    "PodTopologyLabelsAdmission": (_alpha("1.33"), _beta("1.35")),
    # On by default in 1.35.0 to 1.35.3 only: it broke parallel pod management (kubernetes/kubernetes#137904).
    "MaxUnavailableStatefulSet": (_alpha("1.26"), _beta("1.35", on=False), _beta("1.37")),
    "MutablePodResourcesForSuspendedJobs": (_alpha("1.35"), _beta("1.36")),
    "MutableSchedulingDirectivesForSuspendedJobs": (_alpha("1.35"), _beta("1.36")),
    "DeclarativeValidationBeta": (_beta("1.36"),),
}
"""Gate → its states, oldest first."""

NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "DRAControlPlaneController": ("DynamicResourceAllocation",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GenericWorkload",),
    "CompositePodGroup": ("GenericWorkload",),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "PodGroupPreemptionPolicy": ("GenericWorkload",),
    "WorkloadWithJob": ("GenericWorkload",),
    "DRAPartitionableDevicesType": ("DRAResourcePoolStatus", "DRAPartitionableDevices"),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "DRASharedConsumableCapacity": ("DRAPartitionableDevices", "DRAConsumableCapacity"),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
}
"""Gate → the gates that must be on before it can be switched on by name."""

_LETTERS: Final[Mapping[str, tuple[str, bool]]] = {
    "a": (Stage.ALPHA, False),
    "b": (Stage.BETA, False),
    "g": (Stage.GA, False),
    "l": (Stage.GA, True),
    "d": (Stage.DEPRECATED, False),
    "k": (Stage.DEPRECATED, True),
}
"""Letter of a state in ``othergates.tsv`` → its stage, and whether it is locked. A capital letter means on."""
_REMOVED: Final = "-"


def _read_others() -> Iterator[tuple[str, tuple[GateState, ...], tuple[str, ...]]]:
    lines = files("cathedra.releases").joinpath("othergates.tsv").read_text(encoding="utf-8").splitlines()
    for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        states: list[GateState] = []
        for since, _, letter in (state.partition(":") for state in row["states"].split()):
            if letter == _REMOVED:
                states.append(_gone(since, on=states[-1].default))
                continue
            stage, locked = _LETTERS[letter.lower()]
            states.append(GateState(since, stage, letter.isupper(), locked))
        yield row["gate"], tuple(states), tuple(row["needs"].split())


_OTHERS: Final = tuple(_read_others())
OTHERS: Final[Mapping[str, tuple[GateState, ...]]] = {gate: states for gate, states, _ in _OTHERS}
"""Gate that switches nothing here → its states, oldest first. The first may be older than every known release."""
OTHERS_NEED: Final[Mapping[str, tuple[str, ...]]] = {gate: needs for gate, _, needs in _OTHERS if needs}
"""As `NEEDS`, for the gates of `OTHERS`."""
