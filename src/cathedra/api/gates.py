"""Feature gates: one table (gate, release → default), one value that is passed in.

`FeatureGates` is made once per process from a release and overrides, and handed to whatever depends on it. The table
holds the gates of DRA with their whole history, and those of the surrounding machinery that some part asks for
(docs/spec/api.md §1.5; docs/spec/node.md §22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["NEWEST", "RELEASES", "FeatureGates", "GateState", "Stage", "UnknownGate", "parse_overrides", "state_of"]

RELEASES: Final = tuple(f"1.{minor}" for minor in range(26, 38))
"""Every release whose defaults are known, oldest first."""

NEWEST: Final = RELEASES[-1]


class UnknownGate(ValueError):
    """No gate of that name exists, or it cannot be changed."""


class Stage:
    """How far a feature has come."""

    ALPHA: Final = "ALPHA"
    BETA: Final = "BETA"
    GA: Final = "GA"


class GateState(msgspec.Struct, frozen=True):
    """A gate in one release: its stage, its default, and whether that can be changed."""

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


def _gone(since: str) -> GateState:
    return GateState(since, Stage.ALPHA, default=False, removed=True)


_HISTORY: Final[Mapping[str, tuple[GateState, ...]]] = {
    "DynamicResourceAllocation": (_alpha("1.26"), _beta("1.32", on=False), _ga("1.34"), _ga("1.35", locked=True)),
    "DRAControlPlaneController": (_alpha("1.31"), _gone("1.32")),
    "DRAAdminAccess": (_alpha("1.32"), _beta("1.34"), _ga("1.36", locked=True)),
    "DRAResourceClaimDeviceStatus": (_alpha("1.32"), _beta("1.33"), _ga("1.37", locked=True)),
    "DRAPrioritizedList": (_alpha("1.33"), _beta("1.34"), _ga("1.36"), _ga("1.37", locked=True)),
    "DRAPartitionableDevices": (_alpha("1.33"), _beta("1.36")),
    "DRADeviceTaints": (_alpha("1.33"), _beta("1.36"), _ga("1.37")),
    "DRADeviceTaintRules": (_alpha("1.35"), _beta("1.36", on=False), _ga("1.37")),
    "DRAConsumableCapacity": (_alpha("1.34"), _beta("1.36")),
    "DRADeviceBindingConditions": (_alpha("1.34"), _beta("1.36")),
    "DRAExtendedResource": (_alpha("1.34"), _beta("1.36"), _ga("1.37", locked=True)),
    "DRASchedulerFilterTimeout": (_beta("1.34"),),
    "DRAListTypeAttributes": (_alpha("1.36"),),
    "DRANodeAllocatableResources": (_alpha("1.36"),),
    "DRAResourcePoolStatus": (_alpha("1.36"),),
    "DRAResourceClaimGranularStatusAuthorization": (_beta("1.36"),),
    "DRAWorkloadResourceClaims": (_alpha("1.36"), _beta("1.37", on=False)),
    "GenericWorkload": (_alpha("1.35"), _beta("1.37", on=False)),
    "GangScheduling": (_alpha("1.35"), _beta("1.37", on=False)),
    "CompositePodGroup": (_alpha("1.37"),),
    "DRAOptionalNodeOperations": (_alpha("1.37"),),
    "DRAPartitionableDevicesType": (_alpha("1.37"),),
    "DRADeviceCompatibilityGroups": (_alpha("1.37"),),
    "DRADerivedAttributes": (_alpha("1.37"),),
    "DRAFractionalCapacityRange": (_beta("1.37"),),
    "ResourceHealthStatus": (_alpha("1.31"), _beta("1.36")),
    "ResourceHealthStatusMessage": (_beta("1.36"),),
    "KubeletPodResourcesDynamicResources": (_alpha("1.27"), _beta("1.34"), _ga("1.36")),
    "KubeletPodResourcesGet": (_alpha("1.27"), _beta("1.34"), _ga("1.36")),
    "KubeletPodResourcesListUseActivePods": (_beta("1.34"),),
    "NominatedNodeNameForExpectation": (_alpha("1.34"), _beta("1.35")),
    "ClearingNominatedNodeNameAfterBinding": (_alpha("1.34"), _beta("1.35")),
    "NodeDeclaredFeatures": (_alpha("1.35"), _beta("1.36"), _ga("1.37")),
    "ExtendWebSocketsToKubelet": (_beta("1.36"),),
    "AuthorizeNodeWithSelectors": (_alpha("1.31"), _beta("1.32"), _ga("1.34")),
    "AuthorizePodWebsocketUpgradeCreatePermission": (_beta("1.35"),),
    "MutatingAdmissionPolicy": (_alpha("1.32"), _beta("1.34", on=False), _ga("1.36", locked=True)),
    "PodTopologyLabelsAdmission": (_alpha("1.33"), _beta("1.35")),
    "MaxUnavailableStatefulSet": (_alpha("1.26"), _beta("1.35")),
    "MutablePodResourcesForSuspendedJobs": (_alpha("1.35"), _beta("1.36")),
    "MutableSchedulingDirectivesForSuspendedJobs": (_alpha("1.35"), _beta("1.36")),
    "DeclarativeValidationBeta": (_beta("1.37"),),
}

_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "DRAControlPlaneController": ("DynamicResourceAllocation",),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus",),
    "DRAResourceClaimGranularStatusAuthorization": ("DRAResourceClaimDeviceStatus",),
    "DRAWorkloadResourceClaims": ("GenericWorkload",),
    "GangScheduling": ("GenericWorkload",),
    "CompositePodGroup": ("GenericWorkload",),
    "DRAPartitionableDevicesType": ("DRAResourcePoolStatus", "DRAPartitionableDevices"),
    "DRADeviceCompatibilityGroups": ("DRAPartitionableDevices",),
    "ResourceHealthStatusMessage": ("ResourceHealthStatus",),
}
"""What must be on for a gate to be switched on; every DRA gate needs DynamicResourceAllocation besides."""


@cache
def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def state_of(gate: str, release: str) -> GateState | None:
    """How a gate stands in a release; None where the release does not know it.

    Raises:
        UnknownGate: no release has it.
    """
    if gate not in _HISTORY:
        raise UnknownGate(f"unrecognized feature gate: {gate}")
    reached = [state for state in _HISTORY[gate] if _order(state.since) <= _order(release)]
    return reached[-1] if reached and not reached[-1].removed else None


def parse_overrides(text: str) -> dict[str, bool]:
    """Overrides as on the command line: ``A=true,B=false``.

    Raises:
        UnknownGate: an entry is not of that form.
    """
    overrides = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        gate, equals, value = (part.strip() for part in entry.partition("="))
        if not equals:
            raise UnknownGate(f"missing bool value for {gate}")
        if value.lower() not in ("true", "t", "1", "false", "f", "0"):
            raise UnknownGate(f"invalid value of {gate}={value}, err: it must be true or false")
        overrides[gate] = value.lower() in ("true", "t", "1")
    return overrides


class FeatureGates(Mapping[str, bool]):
    """Gate → on or off. Immutable; asking for a gate that does not exist is an error.

    A gate that the release does not have yet is off, and cannot be switched on.
    """

    __slots__ = ("_enabled", "_reached", "release")

    def __init__(self, enabled: Mapping[str, bool], release: str = NEWEST) -> None:
        self._enabled = MappingProxyType(dict(enabled))
        self._reached = frozenset(known for known in RELEASES if _order(known) <= _order(release))
        self.release = release

    @staticmethod
    def for_release(release: str = NEWEST, overrides: Mapping[str, bool] = MappingProxyType({})) -> FeatureGates:
        """The defaults of a release with some gates set otherwise; ``AllAlpha`` and ``AllBeta`` set a whole stage.

        Raises:
            UnknownGate: the release is unknown, an override names no gate of it, or one that is locked to its
                default, or one that is on while a gate it depends on is off.
        """
        if release not in RELEASES:
            raise UnknownGate(f"unknown Kubernetes version {release!r}: known are {RELEASES[0]} to {RELEASES[-1]}")
        states = {gate: state_of(gate, release) for gate in _HISTORY}
        enabled = {gate: state is not None and state.default for gate, state in states.items()}
        for stage, word in ((Stage.ALPHA, "AllAlpha"), (Stage.BETA, "AllBeta")):
            if word in overrides:
                enabled |= {gate: overrides[word] for gate, state in states.items() if state and state.stage == stage}
        for gate, on in overrides.items():
            if gate in ("AllAlpha", "AllBeta"):
                continue
            state = states.get(gate)
            if state is None:
                raise UnknownGate(f"unrecognized feature gate: {gate}")
            if state.locked and on is not state.default:
                raise UnknownGate(
                    f"cannot set feature gate {gate} to {str(on).lower()}, "
                    f"feature is locked to {str(state.default).lower()}"
                )
            enabled[gate] = on
        _check_dependencies(enabled, overrides)
        return FeatureGates(enabled, release)

    def __getitem__(self, gate: str) -> bool:
        try:
            return self._enabled[gate]
        except KeyError as error:
            raise UnknownGate(f"unrecognized feature gate: {gate}") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._enabled)

    def __len__(self) -> int:
        return len(self._enabled)

    def __repr__(self) -> str:
        return f"FeatureGates.for_release({self.release!r}, {self.overrides()!r})"

    def overrides(self) -> dict[str, bool]:
        """The gates that are not at their release's default."""
        return {gate: on for gate, on in self._enabled.items() if on is not _default(gate, self.release)}

    def within(self, first: str, last: str) -> bool:
        """Whether this is a release from ``first`` to ``last``; "" is open."""
        if first and not self.at_least(first):
            return False
        return not last or _order(self.release) <= _order(last)

    @property
    def admin_access(self) -> bool:
        """Whether claims may ask for admin access: 1.31 had that without a gate."""
        return self["DRAAdminAccess"] or not self.at_least("1.32")

    @property
    def merged_taint_rules(self) -> bool:
        """Whether DeviceTaintRules are merged into slices before anything else reads these, as in 1.33 and 1.34."""
        return self.within("1.33", "1.34") and self["DRADeviceTaints"]

    def at_least(self, release: str) -> bool:
        """Whether this is that release or a newer one."""
        return release in self._reached or _order(self.release) >= _order(release)


def _default(gate: str, release: str) -> bool:
    state = state_of(gate, release)
    return state is not None and state.default


def _check_dependencies(enabled: Mapping[str, bool], overrides: Mapping[str, bool]) -> None:
    """A gate that was switched on by name needs its dependencies; defaults are quietly ineffective without them."""
    for gate, needs in _NEEDS.items():
        missing = [need for need in needs if not enabled[need]]
        if overrides.get(gate) and missing:
            raise UnknownGate(f"{gate} depends on disabled features: {', '.join(missing)}")
