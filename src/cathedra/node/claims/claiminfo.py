"""The claim-info cache: prepared claims of the node's pods (docs/spec/node.md §6).

It is keyed by namespace and name, so that a claim that was deleted and created again under the same name is detected.
All methods are synchronous. No other task runs between two awaits, so the cache needs no lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cathedra.node.plugins.client import ClaimReference, PluginDevice

SKIP_PREPARE = frozenset({"NodePrepareResources", "*"})
"""Either of these among a device's skipped operations means: no prepare call."""
SKIP_UNPREPARE = frozenset({"NodeUnprepareResources", "*"})
"""Either of these means: no unprepare call."""


class DriverState(msgspec.Struct, frozen=True):
    """Devices that one driver has prepared for one claim, and the operations that it skips."""

    devices: tuple[PluginDevice, ...] = ()
    skip: frozenset[str] = frozenset()

    @property
    def skips_prepare(self) -> bool:
        """Return True if the driver needs no prepare call."""
        return bool(self.skip & SKIP_PREPARE)

    @property
    def skips_unprepare(self) -> bool:
        """Return True if the driver needs no unprepare call."""
        return bool(self.skip & SKIP_UNPREPARE)


class ClaimInfo(msgspec.Struct):
    """A claim, the pods that use it, and the result of each driver."""

    namespace: str
    name: str
    uid: str
    pod_uids: set[str] = msgspec.field(default_factory=set)
    drivers: dict[str, DriverState] = msgspec.field(default_factory=dict)
    prepared: bool = False
    """True if all drivers have succeeded since this process started; never stored."""

    @property
    def reference(self) -> ClaimReference:
        """Return the claim as drivers receive it."""
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
        """Add a claim, or replace the one of its namespace and name."""
        self._infos[info.namespace, info.name] = info

    def remove(self, info: ClaimInfo) -> None:
        """Remove a claim; an unknown one is ignored."""
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
