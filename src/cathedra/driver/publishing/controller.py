"""Keeps the cluster's ResourceSlices equal to the driver's pools.

The driver sets the desired pools and continues; the controller writes the slices, retries when the API server refuses,
and restores what others change. Work is queued per pool and done by one worker (docs/spec/driver-sdk.md §11).

`keep_published` calls the driver for its devices, and again on each notification. If the first call fails, the driver
does not start. If a later one fails, the published devices stay until the next notification (docs/spec/driver-sdk.md
§10).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from cathedra.api import resource
from cathedra.api.core import core_v1, meta_v1
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.api.undecodable import Undecodable, UndecodableObject
from cathedra.client.client import Client
from cathedra.client.informer import Informer, InformerSelection
from cathedra.client.resources import NODES, RESOURCESLICES
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.clock import Clock
from cathedra.driver.device import Pool
from cathedra.driver.errors import DeviceError, DroppedFieldsError, PoolError
from cathedra.driver.publishing.counterslices import counters_apart, counters_at_devices
from cathedra.driver.publishing.layout import (
    DesiredPool,
    DesiredSlice,
    Plan,
    Publisher,
    adopt_taint_times,
    check,
    lay_out,
    plan,
    without_refused,
)
from cathedra.releases import DEFAULT_RELEASE, behaviours
from cathedra.releases.table import nearest_release

MUTATION_CACHE_TTL = 60.0
"""Seconds for which a slice that was written counts although the watch has not shown it."""
INVALID: Final = 422
SYNC_DELAY = 30.0
"""Seconds after which a change by another writer is checked."""
RESTORE_DELAY = 1.0
"""Seconds after which slices are written again that were deleted while a node agent started."""

ErrorHandler = Callable[[Exception, str], None]
"""Called with recoverable errors, and the action that failed."""


@dataclass(slots=True)
class SliceStatistics:
    """Numbers of writes so far."""

    creates: int = 0
    updates: int = 0
    deletes: int = 0


class _ServerVersion(msgspec.Struct, frozen=True, rename="camel"):
    """The part of the answer of ``/version`` that is read."""

    git_version: str = ""


class _Reduced(Exception):
    """The API server has refused a part of the desired pool, which was left out."""


@dataclass(frozen=True, slots=True)
class SliceScope:
    """Visibility and ownership of a driver's slices."""

    node_name: str = ""
    """The node that the slices belong to and with which they are deleted; "": none."""
    pool_name: str = ""
    """The only pool that is published, visible to the whole cluster although a node owns it; "": all pools."""
    owner: meta_v1.OwnerReference | None = None
    """For slices without a node, the object with which they are deleted; None: they stay."""


class ResourceSliceController:
    """The slices of one driver on one node, or of a driver that serves all nodes."""

    def __init__(
        self,
        client: Client,
        driver: str,
        scope: SliceScope = SliceScope(),
        *,
        clock: Clock,
        on_error: ErrorHandler,
        validate_names: bool = True,
    ) -> None:
        """``validate_names``: names with the driver's own domain are refused."""
        self.statistics = SliceStatistics()
        self._client = client
        self._slices = client.resource(RESOURCESLICES)
        self._driver = driver
        self._clock = clock
        self._on_error = on_error
        self._node_name = scope.node_name
        self._pool_name = scope.pool_name
        self._own_domain = driver if validate_names else ""
        self._owner = scope.owner
        self._desired: dict[str, DesiredPool] = {}
        self._started = False
        self._agent_came = -math.inf
        """Time at which a node agent took the driver, in seconds of the clock."""
        self._reported: set[str] = set()
        """Errors of devices that were reported since the last change of the desired pools."""
        self._reported_before: set[str] = set()
        """The same, of the pools before."""
        self._written: dict[str, tuple[resource.ResourceSlice, float]] = {}
        self._deleted: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._synced_pools: set[str] = set()
        self._progress = asyncio.Event()
        self._changed = asyncio.Event()
        self._informer = self._make_informer()

    def update(self, pools: Mapping[str, DesiredPool]) -> None:
        """Replace the desired state; old and new pools are brought up to date at once."""
        if self._pool_name:
            foreign = sorted(pools.keys() - {self._pool_name})
            if foreign:
                self._on_error(
                    PoolError(f'pool "{foreign[0]}" ignored: only "{self._pool_name}" is published'),
                    "pool validation failed",
                )
            pools = {name: pool for name, pool in pools.items() if name == self._pool_name}
        self._reported_before, self._reported = self._reported, set()
        affected = tuple(dict.fromkeys((*self._desired, *pools)))
        self._desired = dict(pools)
        self._started = True
        # A new event for the next change: waiters of this one are woken exactly once and cannot miss a later one.
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        self._synced_pools.difference_update(affected)
        for name in affected:
            self._queue.add(name)
        if self.in_sync:
            self._notify_progress()  # no pools at all are published as soon as they are wanted

    def lay_out(self, pools: Iterable[Pool], node_name: str) -> dict[str, DesiredPool]:
        """Return the slices of ``pools``, without devices and attributes that have no form in the API; these are
        reported.

        Raises:
            PoolError: two pools of one name.
        """
        unusable: list[DeviceError] = []
        desired = lay_out(pools, node_name, unusable.append)
        self._report(unusable)
        return desired

    def _report(self, errors: Iterable[DeviceError]) -> None:
        """Report devices and attributes that are left out: once each, and equal errors of several devices once."""
        groups: dict[tuple[str, str], list[DeviceError]] = {}
        for error in errors:
            groups.setdefault((error.attribute, error.problem), []).append(error)
        for (attribute, problem), (first, *others) in groups.items():
            same = f" (and {len(others)} other device{'s'[: len(others) > 1]})" if others else ""
            found = DeviceError(first.device, problem + same, attribute)
            # A driver that publishes every minute would otherwise fill its log with one error.
            if str(found) not in self._reported | self._reported_before:
                what = "an attribute is left out" if attribute else "a device is left out"
                self._on_error(found, f"publishing devices: {what}")
            self._reported.add(str(found))

    def agent_came(self) -> None:
        """Restore slices at once: a node agent has taken the driver, and a starting one deletes all slices of its node.

        It may delete them before or after. So missing slices are written now, and those that are deleted in the next 30
        seconds are written again after one second and not after 30.
        """
        self._agent_came = self._clock.monotonic()
        for name in self._desired:
            self._queue.add(name)

    async def run(self) -> None:
        """Run until cancelled. The slices stay: a driver that restarts soon finds them unchanged."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            # Without the existing slices the plan would create all of them a second time.
            await self._informer.wait_synced()
            group.create_task(run_workers(self._queue, self._sync))

    def changed(self) -> asyncio.Event:
        """Return an event that is set when other devices are desired."""
        return self._changed

    def published(self) -> tuple[int, int]:
        """Return the numbers of devices and slices of the desired pools."""
        slices = [each for pool in self._desired.values() for each in pool.slices]
        return sum(len(each.devices) for each in slices), len(slices)

    def pools_of(self, device: str) -> tuple[str, ...]:
        """Return the desired pools that have a device of that name."""
        return tuple(
            name
            for name, pool in self._desired.items()
            if any(each.name == device for part in pool.slices for each in part.devices)
        )

    @property
    def in_sync(self) -> bool:
        """Return True if every desired pool has been written (or found unchanged) once."""
        return self._started and self._desired.keys() <= self._synced_pools

    async def wait_published(self) -> None:
        """Wait until every desired pool has been written (or found unchanged) once."""
        while not self.in_sync:
            progress = self._progress
            await progress.wait()

    def _make_informer(self) -> Informer[resource.ResourceSlice]:
        node = "" if self._pool_name else self._node_name
        informer = Informer(
            self._client,
            RESOURCESLICES,
            InformerSelection(field_selector=f"spec.driver={self._driver},spec.nodeName={node}"),
            clock=self._clock,
        )
        informer.store.add_index("pool", lambda found: (found.spec.pool.name,))
        informer.add_handler(
            on_add=self._sync_later,
            on_update=lambda _, new: self._sync_later(new),
            on_delete=self._vanished,
            on_undecodable=self._undecodable,
        )
        return informer

    def _sync_later(self, found: resource.ResourceSlice, delay: float = SYNC_DELAY) -> None:
        # Slices of an earlier process stay until the driver has returned its devices.
        if not self._started or (self._pool_name and found.spec.pool.name != self._pool_name):
            return
        written = self._written.get(found.metadata.name)
        # The event of our own write; checking the pool again would find nothing.
        if written is not None and written[0].metadata.resource_version == found.metadata.resource_version:
            return
        self._queue.add_after(found.spec.pool.name, delay)

    def _vanished(self, found: resource.ResourceSlice) -> None:
        self._written.pop(found.metadata.name, None)
        # Deleted by someone else, so it is restored. Our own deletions were recorded when they were made.
        if self._deleted.pop(found.metadata.uid, None) is None:
            agent_starts = self._clock.monotonic() - self._agent_came < SYNC_DELAY
            self._sync_later(found, RESTORE_DELAY if agent_starts else SYNC_DELAY)

    def _undecodable(self, what: Undecodable) -> None:
        """Enqueue the pool of a slice that cannot be decoded: the slice is replaced by one that can be."""
        if self._started:
            for name in self._desired:
                if self._is_in(what, name):
                    self._queue.add_after(name, SYNC_DELAY)

    def _is_in(self, what: Undecodable, pool_name: str) -> bool:
        """Return True if the slice is one of the pool, or may be: the informer follows this driver's slices alone."""
        spec = (what.values or {}).get("spec")
        pool = spec.get("pool") if isinstance(spec, Mapping) else None
        name = pool.get("name") if isinstance(pool, Mapping) else None
        return name == pool_name or (not isinstance(name, str) and not self._pool_name)

    async def _sync(self, pool_name: str) -> float | None:
        try:
            check(self._desired.values(), self._own_domain)
        except PoolError as error:
            self._on_error(error, "pool validation failed")
            return None
        try:
            # Each turn leaves something out, so this ends.
            while True:
                try:
                    return await self._write(pool_name)
                except _Reduced:
                    continue
        except (StatusError, ConnectionError) as error:
            self._on_error(error, "processing ResourceSlice objects")
            raise

    async def _write(self, pool_name: str) -> float | None:
        pool = self._desired.get(pool_name)
        existing = self._existing(pool_name)
        for what in tuple(self._informer.store.undecodable.values()):
            if what.name and self._is_in(what, pool_name):
                await self._delete_one(what.name, what.uid, what.resource_version)
        if pool is None:
            await self._delete(existing)
            self._done(pool_name)
            return None
        pool = await self._as_served(pool)
        todo = plan(pool, existing, await self._publisher())
        if todo.empty:
            self._done(pool_name)
            return None
        if await self._execute(pool, todo):
            self._done(pool_name)
        # A created slice may have been deleted before the watch showed it: then no event comes, and only this check
        # finds out.
        return MUTATION_CACHE_TTL if todo.create else None

    async def _as_served(self, pool: DesiredPool) -> DesiredPool:
        """Return the pool with its counters where the server's release expects them."""
        if not any(part.shared_counters for part in pool.slices):
            return pool
        # Read for each write, which is rare: the server may have been upgraded since the last one.
        apart = behaviours.COUNTERS_IN_OWN_SLICES.holds_in(await self._release())
        arranged = counters_apart(pool) if apart else counters_at_devices(pool)
        if self._desired.get(pool.name) is pool:
            self._desired[pool.name] = arranged
        return arranged

    async def _release(self) -> str:
        try:
            version = msgspec.json.decode(await self._client.read("/version"), type=_ServerVersion)
        # Without an answer the form of the newest release is published, and the server reports what is wrong with it.
        except (StatusError, msgspec.MsgspecError):
            return DEFAULT_RELEASE
        return nearest_release(version.git_version) or DEFAULT_RELEASE

    async def _execute(self, pool: DesiredPool, todo: Plan) -> bool:
        """Write. Return True if the pool is still the one that the driver has published."""
        # Deleted first, so that the pool never has a device twice.
        await self._delete(todo.delete)
        for index, changed in todo.update.items():
            stored = await self._accepted(pool, index, self._slices.update(changed))
            self.statistics.updates += 1
            self._remember(stored)
            pool = self._compare(pool, index, changed, stored)
        for index, new in todo.create.items():
            stored = await self._accepted(pool, index, self._slices.create(new))
            self.statistics.creates += 1
            self._remember(stored)
            pool = self._compare(pool, index, new, stored)
        # The driver may have changed its devices during the writes; then the queue already has the pool again.
        return self._desired.get(pool.name) is pool

    async def _accepted(
        self, pool: DesiredPool, index: int, write: Awaitable[resource.ResourceSlice]
    ) -> resource.ResourceSlice:
        """Return what the API server has stored.

        Raises:
            _Reduced: it refuses devices or attributes; they are left out of the desired pool.
        """
        try:
            return await write
        except StatusError as error:
            if error.code != INVALID:
                raise
            part, errors = without_refused(pool.slices[index], error.causes)
            if not errors:
                raise
            self._report(errors)
            # If the driver has changed its devices meanwhile, the next turn finds out whether they are valid.
            if self._desired.get(pool.name) is pool:
                slices = (*pool.slices[:index], part, *pool.slices[index + 1 :])
                self._desired[pool.name] = msgspec.structs.replace(pool, slices=slices)
            raise _Reduced from error

    async def _delete(self, slices: Iterable[resource.ResourceSlice]) -> None:
        for found in slices:
            metadata = found.metadata
            await self._delete_one(metadata.name, metadata.uid, metadata.resource_version)
            self._written.pop(metadata.name, None)
            self._deleted[metadata.uid] = self._clock.monotonic() + MUTATION_CACHE_TTL

    async def _delete_one(self, name: str, uid: str, resource_version: str) -> None:
        try:
            await self._slices.delete(name, uid=uid, resource_version=resource_version)
        except UndecodableObject:
            self.statistics.deletes += 1  # the answer alone was of no use
        except StatusError as error:
            if not error.is_not_found:
                raise
        else:
            self.statistics.deletes += 1

    async def _publisher(self) -> Publisher:
        if not self._node_name:
            return Publisher(self._driver, self._owner)
        if self._owner is None:
            node: core_v1.Node = await self._client.resource(NODES).get(self._node_name)
            self._owner = meta_v1.OwnerReference(
                api_version="v1", kind="Node", name=self._node_name, uid=node.metadata.uid, controller=True
            )
        return Publisher(self._driver, self._owner, None if self._pool_name else self._node_name)

    def _existing(self, pool_name: str) -> list[resource.ResourceSlice]:
        """Return the pool's slices: those of the watch, with later writes and deletions applied."""
        now = self._clock.monotonic()
        self._written = {name: entry for name, entry in self._written.items() if entry[1] > now}
        self._deleted = {uid: expiry for uid, expiry in self._deleted.items() if expiry > now}
        # The watch lags behind our own writes. Planning on its state alone would create slices twice.
        found = {s.metadata.name: s for s in self._informer.store.by_index("pool", pool_name)}
        for name, (written, _) in self._written.items():
            if written.spec.pool.name != pool_name:
                continue
            seen = found.get(name)
            if seen is None or _version(written) > _version(seen):
                found[name] = written
        return [s for s in found.values() if s.metadata.uid not in self._deleted]

    def _remember(self, stored: resource.ResourceSlice) -> None:
        self._written[stored.metadata.name] = (stored, self._clock.monotonic() + MUTATION_CACHE_TTL)

    def _compare(
        self, pool: DesiredPool, index: int, sent: resource.ResourceSlice, stored: resource.ResourceSlice
    ) -> DesiredPool:
        """Report fields that the API server dropped; its answer is the desired state then, or this would never end."""
        devices = adopt_taint_times(sent.spec.devices, stored.spec.devices)
        got = DesiredSlice(stored.spec.devices, stored.spec.shared_counters, stored.spec.per_device_node_selection)
        wanted = DesiredSlice(devices, sent.spec.shared_counters, sent.spec.per_device_node_selection)
        accepted = msgspec.structs.replace(
            pool,
            slices=pool.slices if wanted == got else (*pool.slices[:index], got, *pool.slices[index + 1 :]),
            skip_node_operations=stored.spec.skip_node_operations,
            partition_type_attribute=stored.spec.partition_type_attribute,
        )
        if accepted == pool:
            return pool
        if self._desired.get(pool.name) is pool:
            self._desired[pool.name] = accepted
        features = _dropped_features(replace(sent.spec, devices=devices), stored.spec)
        self._on_error(DroppedFieldsError(pool.name, index, features), "processing ResourceSlice objects")
        return accepted

    def _done(self, pool_name: str) -> None:
        self._synced_pools.add(pool_name)
        self._notify_progress()

    def _notify_progress(self) -> None:
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()


def _version(found: resource.ResourceSlice) -> int:
    text = found.metadata.resource_version
    return int(text) if text.isdecimal() else 0


def _dropped_features(sent: resource.ResourceSliceSpec, got: resource.ResourceSliceSpec) -> list[str]:
    """Return the features whose fields are in ``sent`` and not in ``got``, by the names of their gates."""
    before, after = sent.devices, got.devices

    def lost(present: Callable[[resource.Device], object]) -> bool:
        return any(present(device) for device in before) and not any(present(device) for device in after)

    found = {
        "DRADeviceTaints": lost(lambda d: d.taints),
        "DRAPartitionableDevices": bool(sent.shared_counters and not got.shared_counters)
        or bool(sent.per_device_node_selection and not got.per_device_node_selection)
        or lost(lambda d: d.consumes_counters),
        "DRADeviceBindingConditions": lost(lambda d: d.binding_conditions or d.binding_failure_conditions),
        "DRAOptionalNodeOperations": bool(sent.skip_node_operations and not got.skip_node_operations),
        "DRAConsumableCapacity": lost(lambda d: d.allow_multiple_allocations)
        or lost(lambda d: any(capacity.request_policy for capacity in d.capacity.values())),
    }
    return [feature for feature, is_lost in found.items() if is_lost]


REPUBLISH_PAUSE: Final = 0.05
"""Seconds in which further calls of `Driver.republish` are counted as one."""


async def keep_published(
    slices: ResourceSliceController,
    desired: Callable[[], Awaitable[Mapping[str, DesiredPool]]],
    wanted: asyncio.Event,
    *,
    clock: Clock,
    on_error: ErrorHandler,
) -> None:
    """Pass the result of ``desired`` to ``slices``, now and each time that ``wanted`` is set, until cancelled.

    Raises:
        Exception: the exception of ``desired`` at the first attempt.
    """
    slices.update(await desired())
    while True:
        await wanted.wait()
        await clock.sleep(REPUBLISH_PAUSE)
        wanted.clear()
        try:
            slices.update(await desired())
        except Exception as error:
            on_error(error, "asking the driver for its devices")
