"""Device health as drivers report it, and as pod statuses show it (docs/spec/node.md §14).

There is one stream per driver, from its latest instance. A report older than its timeout is void: the device is then
Unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Container, Pod, ResourceHealth, ResourceStatus
from cathedra.api.nesting import load_json
from cathedra.clock import Clock
from cathedra.files.atomic import write_atomic
from cathedra.node.claims.checkpoint import ClaimInfoCache, PrepareError
from cathedra.node.claims.manager import claim_devices, container_claims
from cathedra.node.concurrency import Event
from cathedra.node.plugins.client import DeviceCondition, PluginCallError, PluginDevice, ReportedHealth
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry, RegistryListener
from cathedra.releases import FeatureGates

DEFAULT_TIMEOUT: Final = 30.0
_RETRY_SECONDS: Final = 5.0
_WORST_FIRST: Final = (DeviceCondition.UNHEALTHY, DeviceCondition.UNKNOWN, DeviceCondition.HEALTHY)
_MAX_MESSAGE: Final = 1024
MOST_DEVICES: Final = 16_384
"""Devices of one driver whose reports are kept: 128 slices of 128."""
_POOL_LENGTH: Final = 253
_DEVICE_LENGTH: Final = 63
"""Characters that a pool's and a device's name may have; a device with a longer one cannot be published."""
SAVE_SECONDS: Final = 1.0
"""Between two writes of the state file."""
_LOG = logging.getLogger(__name__)


class _Report(msgspec.Struct, frozen=True):
    health: DeviceCondition
    at: float
    timeout: float
    message: str


class HealthCache:
    """The latest report for each device; kept in ``path`` across restarts, if there is one."""

    def __init__(self, clock: Clock, gates: FeatureGates, path: Path | None = None) -> None:
        self._clock = clock
        self._gates = gates
        self._path = path
        self._reports: dict[str, dict[tuple[str, str], _Report]] = {}
        self._full_until: dict[str, float] = {}
        """For a driver with too many devices: the time at which the first of its reports becomes too old."""
        self.is_saved = True
        """True if the state file is up to date."""
        self._load()

    def receive(self, driver: str, report: Iterable[ReportedHealth]) -> set[tuple[str, str]]:
        """Enter a report. Return the devices (pool, device) that are not as they were. Devices that cannot be published
        are ignored, and so are those beyond `MOST_DEVICES`."""
        known = self._reports.setdefault(driver, {})
        changed: set[tuple[str, str]] = set()
        now = self._clock.now()
        for device in report:
            key = (device.pool, device.device)
            if key not in known and not (_is_publishable(device) and self._has_room(driver, now)):
                continue
            message = device.message
            if len(message) > _MAX_MESSAGE:
                message = message[: _MAX_MESSAGE - 3] + "..."
            timeout = device.timeout if device.timeout > 0 else DEFAULT_TIMEOUT
            new = _Report(device.health, now, timeout, message)
            old = known.get(key)
            known[key] = new
            same = old is not None and (old.health, old.message, old.timeout) == (new.health, message, timeout)
            if not same or old is None or now - old.at > old.timeout:
                changed.add(key)
        if changed:
            self.is_saved = False
        return changed

    def _has_room(self, driver: str, now: float) -> bool:
        """Return True if another device of a driver may be kept. If there are too many, those give way whose reports
        are too old to count."""
        known = self._reports[driver]
        if len(known) < MOST_DEVICES:
            return True
        # All reports are searched only when one of them has become too old, not for each device that is refused.
        if now <= self._full_until.get(driver, -math.inf):
            return False
        for key in [key for key, report in known.items() if now - report.at > report.timeout]:
            del known[key]
        self._full_until[driver] = min((report.at + report.timeout for report in known.values()), default=now)
        return len(known) < MOST_DEVICES

    def clear(self, driver: str) -> set[tuple[str, str]]:
        """Drop all reports of the driver. Return the devices that they were about."""
        gone = set(self._reports.pop(driver, ()))
        self._full_until.pop(driver, None)
        if gone:
            self.is_saved = False
        return gone

    def next_expiry(self) -> float | None:
        """Return the time at which the next report expires, in seconds since the epoch; None if none does."""
        now = self._clock.now()
        times = [r.at + r.timeout for known in self._reports.values() for r in known.values()]
        return min((time for time in times if time >= now), default=None)

    def expired_at(self, moment: float) -> dict[str, set[tuple[str, str]]]:
        """Return the devices, by driver, whose report got too old at ``moment``."""
        return {
            driver: {key for key, report in known.items() if report.at + report.timeout == moment}
            for driver, known in self._reports.items()
        }

    def of(self, driver: str, pool: str, device: str) -> tuple[DeviceCondition, str]:
        """Return the current health of a device, and the driver's message."""
        report = self._reports.get(driver, {}).get((pool, device))
        if report is None or self._clock.now() - report.at > report.timeout:
            return DeviceCondition.UNKNOWN, ""
        return report.health, report.message

    def resource_status(self, pod: Pod, container: Container, claims: ClaimInfoCache) -> tuple[ResourceStatus, ...]:
        """Return the health of a container's devices, for its status; () with the gate off."""
        if not self._gates["ResourceHealthStatus"]:
            return ()
        statuses: list[ResourceStatus] = []
        with contextlib.suppress(PrepareError):  # claims that do not exist yet have no devices
            for claim, request in container_claims(pod, container, self._gates):
                info = claims.get(pod.metadata.namespace, claim.name)
                if info is None or not claim.entry:
                    continue
                resources = self._resources(claim_devices(info, request))
                name = f"claim:{claim.entry}/{request}" if request else f"claim:{claim.entry}"
                if resources:
                    statuses.append(ResourceStatus(name=name, resources=resources))
        return tuple(statuses)

    def _resources(self, devices: Iterable[tuple[str, PluginDevice]]) -> tuple[ResourceHealth, ...]:
        """Return the health of each device, the worst first, then by identity: the order in which a driver lists
        devices may change, and would cause writes of the pod's status."""
        # Shares of one device have one health.
        distinct = {(driver, device.pool, device.device): device.cdi_device_ids for driver, device in devices}
        users = Counter(name for names in distinct.values() for name in dict.fromkeys(names))
        found = []
        for key, names in distinct.items():
            # A driver may give all its devices a common CDI name. Such a name would make one entry of several devices.
            identity = next((name for name in names if users[name] == 1), "/".join(key))
            health, message = self.of(*key)
            shown = message if message and self._gates["ResourceHealthStatusMessage"] else None
            found.append(ResourceHealth(resource_id=identity, health=health.value, message=shown))
        return tuple(sorted(found, key=lambda one: (_WORST_FIRST.index(DeviceCondition(one.health)), one.resource_id)))

    def _load(self) -> None:
        if self._path is None:
            return
        with contextlib.suppress(OSError, msgspec.DecodeError, ValueError, KeyError, TypeError, AttributeError):
            content: dict[str, Any] = load_json(self._path.read_bytes())
            for driver, state in content.items():
                self._reports[driver] = {
                    (d["PoolName"], d["DeviceName"]): _Report(
                        DeviceCondition(d["Health"]),
                        d["LastUpdated"],
                        d["HealthCheckTimeout"] / 1e9,
                        d["Message"],
                    )
                    for d in (state.get("Devices") or {}).values()
                }

    def save(self) -> None:
        """Write the state file if the content has changed."""
        if self._path is not None and not self.is_saved:
            self.is_saved = True
            self._write(self._path, self._content())

    async def save_later(self) -> None:
        """Call `save`, whose disk does not hold up the event loop."""
        # The content is encoded here and only written in the thread: reports may change while the disk is slow.
        if self._path is not None and not self.is_saved:
            self.is_saved = True
            await asyncio.to_thread(self._write, self._path, self._content())

    @staticmethod
    def _write(path: Path, content: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):
            write_atomic(path, msgspec.json.encode(content))

    def _content(self) -> dict[str, Any]:
        return {
            driver: {
                "Devices": {
                    f"{pool}/{device}": {
                        "PoolName": pool,
                        "DeviceName": device,
                        "Health": report.health.value,
                        "LastUpdated": report.at,
                        "HealthCheckTimeout": int(report.timeout * 1e9),
                        "Message": report.message,
                    }
                    for (pool, device), report in known.items()
                }
            }
            for driver, known in self._reports.items()
        }


def _is_publishable(device: ReportedHealth) -> bool:
    return 0 < len(device.pool) <= _POOL_LENGTH and 0 < len(device.device) <= _DEVICE_LENGTH


class HealthFollower:
    """Keeps one health stream open per driver, and calls ``on_change(driver, devices)`` for every change."""

    def __init__(
        self,
        cache: HealthCache,
        registry: PluginRegistry,
        clock: Clock,
        on_change: Callable[[str, set[tuple[str, str]]], None],
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._on_change = on_change
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._news = Event()
        self._unsaved = Event()
        registry.listen(RegistryListener(on_preferred=self._prefer))

    async def run(self) -> None:
        """Receive reports until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._keep_saved())
            try:
                await self._watch_expiry()
            finally:
                self._group = None

    async def _keep_saved(self) -> None:
        """Write the state file soon after a change: once for all messages of a second."""
        try:
            while True:
                await self._unsaved.wait()
                self._unsaved.clear()
                await self._cache.save_later()
                await self._clock.sleep(SAVE_SECONDS)
        finally:
            # The last second of reports is written when the agent ends, without the event loop.
            self._cache.save()

    async def _watch_expiry(self) -> None:
        """Notify of devices whose last report has expired."""
        while True:
            self._news.clear()
            moment = self._cache.next_expiry()
            # A millisecond later than the expiry, because a report is valid up to and including it.
            wait = None if moment is None else max(0.0, moment - self._clock.now()) + 0.001
            try:
                async with asyncio.timeout(wait):
                    await self._news.wait()
            except TimeoutError:
                for driver, devices in self._cache.expired_at(moment or 0.0).items():
                    if devices:
                        self._on_change(driver, devices)

    def _prefer(self, driver: str, instance: PluginInstance | None) -> None:
        old = self._streams.pop(driver, None)
        if old is not None:
            # The old instance of a rolling update still sends reports; two streams would overwrite each other.
            old.cancel()
        if instance is None or instance.health is None:
            self._notify(driver, self._cache.clear(driver))
        elif self._group is not None:
            self._streams[driver] = self._group.create_task(self._follow(driver, instance))

    async def _follow(self, driver: str, instance: PluginInstance) -> None:
        health = instance.health
        while health is not None:
            try:
                async for report in health.watch_health():
                    self._notify(driver, self._cache.receive(driver, report))
            except PluginCallError as error:
                if error.code == "Unimplemented":
                    # The driver has no health service, and a retry would not change that.
                    self._notify(driver, self._cache.clear(driver))
                    return
                _LOG.info("health stream of driver %s: %s", driver, error)
            self._notify(driver, self._cache.clear(driver))
            await self._clock.sleep(_RETRY_SECONDS)

    def _notify(self, driver: str, changed: set[tuple[str, str]]) -> None:
        self._news.set()
        if changed:
            self._unsaved.set()
            self._on_change(driver, changed)
