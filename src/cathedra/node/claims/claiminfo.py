"""What this node knows of the claims that its pods use: the claim-info cache.

docs/spec/node.md §6. Keyed by namespace and name, so that a claim that was deleted and made again under the same
name is noticed. All methods are plain functions: between two awaits nothing else runs, which is the cache's lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cathedra.node.plugins.client import ClaimReference, PluginDevice

__all__ = ["SKIP_PREPARE", "SKIP_UNPREPARE", "ClaimInfo", "ClaimInfoCache", "DriverState"]

SKIP_PREPARE = frozenset({"NodePrepareResources", "*"})
"""Either of these among a device's skipped operations means: no prepare call."""
SKIP_UNPREPARE = frozenset({"NodeUnprepareResources", "*"})
"""Either of these means: no unprepare call."""


class DriverState(msgspec.Struct, frozen=True):
    """What one driver prepared for one claim, and which operations it wants to be spared."""

    devices: tuple[PluginDevice, ...] = ()
    skip: frozenset[str] = frozenset()

    @property
    def skips_prepare(self) -> bool:
        """Whether the driver is not to be asked to prepare."""
        return bool(self.skip & SKIP_PREPARE)

    @property
    def skips_unprepare(self) -> bool:
        """Whether the driver is not to be asked to unprepare."""
        return bool(self.skip & SKIP_UNPREPARE)


class ClaimInfo(msgspec.Struct):
    """One claim: who uses it, and what each driver made ready."""

    namespace: str
    name: str
    uid: str
    pod_uids: set[str] = msgspec.field(default_factory=set)
    drivers: dict[str, DriverState] = msgspec.field(default_factory=dict)
    prepared: bool = False
    """Whether all drivers answered well since this process began; never stored."""

    @property
    def reference(self) -> ClaimReference:
        """The claim as drivers are told of it."""
        return ClaimReference(self.namespace, self.uid, self.name)


class ClaimInfoCache(msgspec.Struct):
    """All claim infos of the node."""

    _infos: dict[tuple[str, str], ClaimInfo] = msgspec.field(default_factory=dict)

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(tuple(self._infos.values()))

    def __len__(self) -> int:
        return len(self._infos)

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """The info of a claim, if it is known."""
        return self._infos.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        """Enter an info."""
        self._infos[info.namespace, info.name] = info

    def remove(self, info: ClaimInfo) -> None:
        """Forget a claim."""
        self._infos.pop((info.namespace, info.name), None)

    def of_pod(self, pod_uid: str) -> list[ClaimInfo]:
        """Infos that a pod refers to."""
        return [info for info in self._infos.values() if pod_uid in info.pod_uids]

    def pod_uids(self) -> set[str]:
        """Every pod that refers to some claim."""
        return {uid for info in self._infos.values() for uid in info.pod_uids}

    def with_device(self, driver: str, devices: Iterable[tuple[str, str]]) -> set[str]:
        """UIDs of pods that use one of ``devices`` (pool, device) of ``driver``."""
        wanted = set(devices)
        return {
            uid
            for info in self._infos.values()
            if any((d.pool, d.device) in wanted for d in info.drivers.get(driver, DriverState()).devices)
            for uid in info.pod_uids
        }
