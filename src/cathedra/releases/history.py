"""The history of every feature gate: in which release it entered which stage, its default, and whether it is locked.

The table holds the gates of DRA with their whole history, and those of the surrounding machinery that some part reads
(docs/spec/api.md §1.5; docs/spec/node.md §22). The source is ``pkg/features/kube_features.go`` of Kubernetes, and
``staging/src/k8s.io/apiserver/pkg/features`` for the gates of the generic API server.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec


class Stage:
    """Maturity of a feature, as Kubernetes writes it in ``--help`` and in metrics."""

    ALPHA: Final = "ALPHA"
    BETA: Final = "BETA"
    GA: Final = "GA"


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


def _gone(since: str, *, on: bool = False) -> GateState:
    """A removed gate: it cannot be named any more, and what it switched is ``on`` for good or gone."""
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
    "DRAFractionalCapacityRange": (_beta("1.37"),),
    # No release of Kubernetes has this gate yet: KEP-5690 describes it (docs/deviations.md).
    "DRAPreemption": (_alpha("1.37"),),
    "DRASharedConsumableCapacity": (_alpha("1.38"),),
    "ManagedFieldsOptOut": (_alpha("1.38"),),
    "ResourceHealthStatus": (_alpha("1.31"), _beta("1.36")),
    "ResourceHealthStatusMessage": (_beta("1.36"),),
    "KubeletPodResourcesDynamicResources": (_alpha("1.27"), _beta("1.34"), _ga("1.36")),
    "KubeletPodResourcesGet": (_alpha("1.27"), _beta("1.34"), _ga("1.36")),
    "KubeletPodResourcesListUseActivePods": (_beta("1.34"),),
    "NominatedNodeNameForExpectation": (_alpha("1.34"), _beta("1.35")),
    "ClearingNominatedNodeNameAfterBinding": (_alpha("1.34"), _beta("1.35")),
    "NodeDeclaredFeatures": (_alpha("1.35"), _beta("1.36"), _ga("1.37", locked=True)),
    "ExtendWebSocketsToKubelet": (_beta("1.36"),),
    "AuthorizeNodeWithSelectors": (_alpha("1.31"), _beta("1.32"), _ga("1.34")),
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
