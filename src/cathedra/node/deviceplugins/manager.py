"""The devices of plugins on one node: how many there are, and which container has which.

As the kubelet's device manager: pods get devices when they are admitted, init containers hand theirs on to the
containers after them, and a plugin that goes away leaves its resource without allocatable devices, and after five
minutes without capacity. Extended resources that a claim stands for are left to that claim.

Which devices of plugins which containers have, kept over restarts of the agent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.nesting import load_json
from cathedra.cdi.spec import DeviceNode
from cathedra.clock import Clock
from cathedra.files.atomic import write_atomic
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import PluginCallError
from cathedra.node.runtime.runtime import BindMount, RuntimeFailure
from cathedra.semantics.pods import is_sidecar

KEPT_SECONDS: Final = 300.0
"""Time for which the capacity of an absent plugin stays."""


class DevicesUnavailable(Exception):
    """A container cannot get its devices. The text is the kubelet's."""


class PluginOptions(msgspec.Struct, frozen=True):
    """Optional calls that a plugin supports."""

    pre_start: bool = False
    preferred: bool = False


class DeviceGrant(msgspec.Struct, frozen=True):
    """Environment, mounts, device nodes and CDI devices of a container's allocated devices."""

    environment: Mapping[str, str] = msgspec.field(default_factory=dict)
    mounts: tuple[BindMount, ...] = ()
    nodes: tuple[DeviceNode, ...] = ()
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()


class DevicePluginClient(Protocol):
    """A device plugin. Each call raises `PluginCallError` when it fails."""

    async def options(self) -> PluginOptions:
        """Return the optional calls that the plugin supports."""

    def watch(self) -> AsyncIterator[Mapping[str, bool]]:
        """Yield all devices of the plugin, by ID, and whether each is healthy; again at each change, until it ends."""

    async def preferred(self, available: Sequence[str], needed: Sequence[str], size: int) -> Sequence[str]:
        """Return ``size`` of the available devices, including all ``needed`` ones."""

    async def allocate(self, devices: Sequence[str]) -> DeviceGrant:
        """Give these devices to a container."""

    async def pre_start(self, devices: Sequence[str]) -> None:
        """Note that a container with these devices is about to start."""


class _Plugin(msgspec.Struct, eq=False):
    client: DevicePluginClient
    options: PluginOptions = msgspec.field(default_factory=PluginOptions)
    devices: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """ID → whether it is healthy."""
    gone: bool = False


class DeviceManager:
    """Devices by resource, and allocations by pod, container and resource."""

    def __init__(self, clock: Clock, metrics: NodeMetrics, directory: Path | None = None) -> None:
        """``directory``: where allocations are kept; None: they end with the agent."""
        self._clock = clock
        self._metrics = metrics
        self._file = DeviceCheckpoint(directory / "allocations.json" if directory is not None else None)
        self._allocations = {(one.pod_uid, one.container, one.resource): one for one in self._file.load()}
        self._plugins: dict[str, _Plugin] = {}
        self._removed: set[str] = set()
        self._arrived: asyncio.Queue[tuple[str, _Plugin]] = asyncio.Queue()
        self._changed = asyncio.Event()
        # Pods are admitted at the same time, and allocation waits for plugins in between: without the lock two pods
        # could be
        # given one device.
        self._choosing = asyncio.Lock()

    # Plugins

    def register(self, resource: str, client: DevicePluginClient) -> None:
        """Take a plugin, in place of an earlier one for the resource."""
        self._metrics.plugin_registered(resource)
        plugin = _Plugin(client)
        self._plugins[resource] = plugin
        self._arrived.put_nowait((resource, plugin))

    async def run(self) -> None:
        """Follow the plugins until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._follow(*await self._arrived.get()))

    async def _follow(self, resource: str, plugin: _Plugin) -> None:
        try:
            plugin.options = await plugin.client.options()
            async for devices in plugin.client.watch():
                # Another plugin has registered for the resource; its devices count from now on.
                if self._plugins.get(resource) is not plugin:
                    return
                plugin.devices = devices
                self._removed.discard(resource)
                self._notify()
        except PluginCallError:
            pass  # the plugin ended without closing its stream
        plugin.gone = True
        self._notify()
        # A plugin that restarts must not make the scheduler evict or refuse pods.
        await self._clock.sleep(KEPT_SECONDS)
        if self._plugins.get(resource) is plugin:
            del self._plugins[resource]
            self._removed.add(resource)
            self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def wait_changed(self) -> None:
        """Wait until `capacity` is another."""
        await self._changed.wait()

    def capacity(self) -> dict[str, tuple[int, int]]:
        """Return by resource how many devices there are, and how many of them pods may have."""
        found = {resource: (len(plugin.devices), len(_healthy(plugin))) for resource, plugin in self._plugins.items()}
        return dict.fromkeys(self._removed, (0, 0)) | found

    # Pods

    async def admit(self, pod: Pod) -> None:
        """Allocate the devices of the pod's containers. A pod that has devices keeps them.

        Raises:
            DevicesUnavailable: too few devices are free, or the plugin refuses. Nothing is allocated to the pod.
        """
        async with self._choosing:
            try:
                handed_on: dict[str, list[str]] = {}
                for container, stays in _containers(pod):
                    for resource, count in self._wanted(pod, container):
                        reusable = handed_on.setdefault(resource, [])
                        chosen = await self._allocate(pod, container, resource, count, reusable)
                        kept = [device for device in reusable if device not in chosen]
                        handed_on[resource] = kept if stays else [*kept, *chosen]
            except (DevicesUnavailable, PluginCallError) as error:
                self.release(pod.metadata.uid)
                raise DevicesUnavailable(f"Allocate failed due to {error}, which is unexpected") from error

    def _wanted(self, pod: Pod, container: Container) -> Iterator[tuple[str, int]]:
        status = pod.status.extended_resource_claim_status
        by_claim = {
            one.resource_name
            for one in (status.request_mappings if status is not None else ())
            if one.container_name == container.name
        }
        for resource, amount in container.resources.limits.items():
            if resource in self._plugins and resource not in by_claim and amount.value() > 0:
                yield resource, amount.value()

    async def _allocate(
        self, pod: Pod, container: Container, resource: str, count: int, reusable: list[str]
    ) -> tuple[str, ...]:
        key = (pod.metadata.uid, container.name, resource)
        known = self._allocations.get(key)
        # After a restart of the agent: the container runs with these devices, whatever is free now.
        if known is not None:
            return known.devices
        plugin = self._plugins[resource]
        healthy = _healthy(plugin)
        needed = [device for device in reusable if device in healthy][:count]
        taken = {device for each in self._allocations.values() if each.resource == resource for device in each.devices}
        # Sorted, so that equal situations give equal results.
        free = sorted(set(healthy) - taken)
        if len(needed) + len(free) < count:
            raise DevicesUnavailable(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {count}, Available: {len(needed) + len(free)}"
            )
        chosen = tuple(await self._choose(plugin, needed, free, count))
        with self._metrics.allocation(resource):
            grant = await plugin.client.allocate(chosen)
        self._allocations[key] = PodDevicesEntry(*key, chosen, grant)
        # Before the container starts: a crash in between leaves a device reserved, never used twice.
        self._file.save(self._allocations)
        return chosen

    async def _choose(self, plugin: _Plugin, needed: list[str], free: list[str], count: int) -> list[str]:
        if plugin.options.preferred and len(needed) < count < len(needed) + len(free):
            wished = await plugin.client.preferred([*needed, *free], needed, count)
            found = [device for device in dict.fromkeys(wished) if device in free]
            free = [*found, *(device for device in free if device not in found)]
        return [*needed, *free][:count]

    def grants(self, pod: Pod, container: Container) -> tuple[DeviceGrant, ...]:
        """Return what a container needs for its allocated devices."""
        return tuple(each.grant for each in self._having(pod, container))

    def _having(self, pod: Pod, container: Container) -> list[PodDevicesEntry]:
        key = (pod.metadata.uid, container.name)
        return [each for each in self._allocations.values() if (each.pod_uid, each.container) == key]

    async def before_start(self, pod: Pod, container: Container) -> None:
        """Call PreStartContainer of the plugins that require it, before a container with their devices starts.

        Raises:
            RuntimeFailure: one of them keeps it from starting.
        """
        for each in self._having(pod, container):
            plugin = self._plugins.get(each.resource)
            if plugin is None or plugin.gone or not plugin.options.pre_start:
                continue
            try:
                await plugin.client.pre_start(each.devices)
            except PluginCallError as error:
                text = f"device plugin PreStartContainer rpc failed with err: {error}"
                raise RuntimeFailure("PreStartHookError", text) from error

    def release(self, pod_uid: str) -> None:
        """Note that the pod's containers have ended: its devices are free."""
        kept = {key: each for key, each in self._allocations.items() if each.pod_uid != pod_uid}
        if len(kept) != len(self._allocations):
            self._allocations = kept
            self._file.save(kept)


def _healthy(plugin: _Plugin) -> list[str]:
    return [] if plugin.gone else [device for device, healthy in plugin.devices.items() if healthy]


def _containers(pod: Pod) -> Iterator[tuple[Container, bool]]:
    """Yield each container, and whether it runs beside those after it: an ordinary init container ends before."""
    for container in pod.spec.init_containers:
        yield container, is_sidecar(container)
    for container in pod.spec.containers:
        yield container, True


_VERSION: Final = "cathedra.dev/v1"


class PodDevicesEntry(msgspec.Struct, frozen=True):
    """Devices of one resource that one container has."""

    pod_uid: str
    container: str
    resource: str
    devices: tuple[str, ...]
    grant: DeviceGrant


class DeviceCheckpoint:
    """The file at ``path``; None: nothing is kept."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def load(self) -> list[PodDevicesEntry]:
        """Return the allocations saved last. An unreadable file counts as empty: its pods are admitted again."""
        if self._path is None:
            return []
        try:
            content: Any = load_json(self._path.read_bytes())
            return [_allocation(each) for each in content["allocations"]] if content["version"] == _VERSION else []
        except (OSError, msgspec.DecodeError, ValueError, KeyError, TypeError):
            return []

    def save(self, allocations: Mapping[tuple[str, str, str], PodDevicesEntry]) -> None:
        """Replace what is saved.

        Raises:
            OSError: the file cannot be written.
        """
        if self._path is None:
            return
        content = {"version": _VERSION, "allocations": [_written(each) for each in allocations.values()]}
        write_atomic(self._path, json.dumps(content).encode())


def _written(allocation: PodDevicesEntry) -> dict[str, Any]:
    grant = allocation.grant
    return {
        "pod": allocation.pod_uid,
        "container": allocation.container,
        "resource": allocation.resource,
        "devices": list(allocation.devices),
        "environment": dict(grant.environment),
        "mounts": [msgspec.structs.asdict(mount) for mount in grant.mounts],
        "nodes": [[node.path, node.host_path, node.permissions] for node in grant.nodes],
        "annotations": dict(grant.annotations),
        "cdiDevices": list(grant.cdi_devices),
    }


def _allocation(written: Mapping[str, Any]) -> PodDevicesEntry:
    grant = DeviceGrant(
        environment=written["environment"],
        mounts=tuple(BindMount(**mount) for mount in written["mounts"]),
        nodes=tuple(DeviceNode(path=p, host_path=h, permissions=allowed) for p, h, allowed in written["nodes"]),
        annotations=written["annotations"],
        cdi_devices=tuple(written["cdiDevices"]),
    )
    devices = tuple(written["devices"])
    return PodDevicesEntry(written["pod"], written["container"], written["resource"], devices, grant)
