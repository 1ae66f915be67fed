"""The example driver: publishes the simulated devices of a profile and passes them to containers as variables.

It runs on any machine and needs no hardware. While it runs it accepts commands (`controls`): devices get taints or
become unhealthy, calls fail or block.

With binding conditions a pod is bound only after the driver has declared its devices ready. The scheduler allocates,
then waits for the conditions of the allocation result; the controller here sets them in the claim's status (KEP-5007;
docs/spec/driver-sdk.md §14 and §17.6). It handles claims with devices of its node's pool, so it runs in the node's
driver, and needs the permission to watch claims.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from cathedra.api.resource import DeviceRequestAllocationResult, ResourceClaim
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.devicemetadata.stream import KNOWN_VERSIONS
from cathedra.driver import Claim, Device, DeviceHealth, Driver, Edits, Pool, Prepared, PreparedClaim, Ref
from cathedra.driver.claim import ClaimedDevice
from cathedra.driver.fabric.conditions import (
    BindingConditionTypes,
    BindingOutcome,
    device_key,
    is_ready,
    own_results,
    status_entries,
)
from cathedra.driver.preparing.status import write_device_status
from cathedra.drivers.example.controls import PREPARE, UNPREPARE, Controls, serving_controls
from cathedra.drivers.example.profile import DriverProfile, PrepareContext, Site, variable_name

if TYPE_CHECKING:
    import grpc.aio


class DriverOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the example driver beside its profile."""

    name: str = ""
    """The driver's name; "": ``FAMILY.example.com``."""
    metadata_versions: Sequence[str] = KNOWN_VERSIONS
    """The versions of the metadata files in containers, preferred ones first."""
    publish_status: bool = False
    """True if devices are reported in the status of claims."""
    binding_conditions: bool = False
    """True if a pod is bound only after the driver has declared its devices ready."""


class ExampleDriver(Driver):
    """A driver of simulated devices."""

    def __init__(self, profile: DriverProfile, options: DriverOptions | None = None) -> None:
        self.profile = profile
        self.options = options or DriverOptions()
        self.name = self.options.name or f"{profile.family}.example.com"
        self.configs = profile.configs
        self.cdi_vendor = f"k8s.{self.name}"
        self.cdi_class = profile.family
        self.metadata_versions = self.options.metadata_versions
        self.validate_names = not profile.spells_own_domain
        self.controls = Controls(lambda: [device.name for device in self.devices()], self.republish)

    @property
    def site(self) -> Site:
        """Driver and node of the devices."""
        return Site(self.name, self.node_name)

    def resume(self, prepared: Sequence[PreparedClaim]) -> None:
        """Restore the commands that were given before the driver was restarted."""
        if self.directory is not None:
            self.controls.keep_in(self.directory)

    def devices(self) -> list[Device]:
        """Return the profile's devices: equal for one node at every start."""
        return list(self.profile.pool(self.site).devices)

    def resources(self) -> Pool:
        """Return the pool of this node, with the taints that devices were given."""
        pool = self.profile.pool(self.site)
        return dataclasses.replace(pool, devices=tuple(map(self._as_ordered, pool.devices)))

    def _as_ordered(self, device: Device) -> Device:
        taints = self.controls.taints(device.name)
        if taints:
            device = dataclasses.replace(device, taints=(*device.taints, *taints))
        if not self.options.binding_conditions:
            return device
        return dataclasses.replace(
            device, binding_conditions=(BINDING_CONDITION,), binding_failure_conditions=(FAILURE_CONDITION,)
        )

    def common_edits(self) -> Edits:
        """Return variables for every container: the node's and the driver's name."""
        return Edits(env={"KUBERNETES_NODE_NAME": self.node_name, "DRA_RESOURCE_DRIVER_NAME": self.name})

    async def prepare(self, claim: Claim) -> AsyncIterator[Prepared]:
        """Yield the variables of each device."""
        await self.controls.passing(PREPARE, f"{claim.ref}")
        published = {device.name: device for device in self.devices()}
        for allocation in claim.allocations:
            if allocation.device not in published:
                raise ValueError(f"there is no device {allocation.device!r}")
            context = PrepareContext(self.site, claim, allocation, published[allocation.device])
            status = self.profile.status(context) if self.options.publish_status else None
            yield allocation.prepared(
                Edits(env={**self.profile.environment(context), **self._environment(claim, allocation)}),
                metadata=context.device.attributes,
                network_data=None if status is None else status.network_data,
                status=status,
            )

    async def unprepare(self, ref: Ref, prepared: PreparedClaim) -> None:
        """Undo nothing; the call fails or waits if a command requires it."""
        await self.controls.passing(UNPREPARE, f"{ref}")

    async def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        """Report all devices as healthy until a command changes that."""
        while True:
            changed = self.controls.changed()
            yield self.controls.health()
            await changed.wait()

    def interceptors(self) -> Sequence[grpc.aio.ServerInterceptor[Any, Any]]:
        """Return the interceptor that records calls and injects faults."""
        # The import of gRPC is slow, and a simulated node does not need it.
        from cathedra.drivers.example.recording import RecordingInterceptor

        return (RecordingInterceptor(self.controls.passing_server, self.controls.record),)

    async def background(self, client: Client, directory: Path | None) -> None:
        """Accept commands, and satisfy the binding conditions of devices."""
        controls = self.controls
        binding = None
        if self.options.binding_conditions:
            binding = BindingConditions(
                client, self.name, self.node_name, mode=lambda: controls.binding, changed=controls.changed
            )
        if directory is None:
            if binding is not None:
                await binding.run()
            return
        async with serving_controls(controls, directory):
            await (controls.forever() if binding is None else binding.run())

    def _environment(self, claim: Claim, allocation: ClaimedDevice) -> dict[str, str]:
        prefix = self.profile.family.upper()
        return {
            f"{prefix}_DEVICE_{variable_name(allocation.device)}_RESOURCE_CLAIM": claim.uid,
            "DRA_ADMIN_ACCESS": "true" if allocation.admin else "false",
        }


BINDING_CONDITION: Final = "BindingConditions"
FAILURE_CONDITION: Final = "BindingFailureConditions"
"""The names of the reference driver."""

_READY: Final = BindingOutcome("Ready", "Device is ready", ready=True)
_FAILED: Final = BindingOutcome("Failed", "Device cannot be made ready", failed=True)

Key = tuple[str, str]
"""Namespace and name of a claim."""


class BindingConditions:
    """The controller of one driver on one node."""

    def __init__(
        self,
        client: Client,
        driver: str,
        node: str,
        *,
        mode: Callable[[], str] = lambda: "ready",
        changed: Callable[[], asyncio.Event] = asyncio.Event,
    ) -> None:
        """``mode`` returns the treatment of conditions: ``ready``, ``fail``, or ``hold`` to leave them as they are;
        ``changed`` returns an event that is set when the mode may have changed.
        """
        self._client = client.as_manager(f"{driver}-binding")
        self._driver = driver
        self._node = node
        self._mode = mode
        self._mode_changed = changed
        self._queue: WorkQueue[Key] = WorkQueue(client.clock)
        self._claims: Informer[ResourceClaim] = Informer(client, RESOURCECLAIMS, clock=client.clock)
        self._claims.add_handler(on_add=self._look, on_update=lambda _, new: self._look(new))

    async def run(self) -> None:
        """Follow claims and synchronize their devices until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            await self._claims.wait_synced()
            group.create_task(self._follow_mode())
            group.create_task(run_workers(self._queue, self._sync))

    async def _follow_mode(self) -> None:
        while True:
            await self._mode_changed().wait()
            for claim in self._claims.store.list():
                self._look(claim)

    def _look(self, claim: ResourceClaim) -> None:
        if self._undecided(claim):
            self._queue.add((claim.metadata.namespace, claim.metadata.name))

    def _results(self, claim: ResourceClaim) -> list[DeviceRequestAllocationResult]:
        """Return the claim's devices of this driver on this node that have binding conditions."""
        results = own_results(claim, self._driver)
        return [one for one in results if one.pool == self._node and one.binding_conditions]

    def _undecided(self, claim: ResourceClaim) -> bool:
        return any(not is_ready(claim, one, _types(one)) for one in self._results(claim))

    async def _sync(self, key: Key) -> float | None:
        claim = self._claims.store.get(*key)
        mode = self._mode()
        if claim is None or not self._undecided(claim) or mode == "hold":
            return None
        results = self._results(claim)
        outcome = _FAILED if mode == "fail" else _READY
        entries = [
            entry for one in results for entry in status_entries(claim, [one], {device_key(one): outcome}, _types(one))
        ]
        ref = Ref(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)
        await write_device_status(self._client, ref, entries)
        return None


def _types(result: DeviceRequestAllocationResult) -> BindingConditionTypes:
    return BindingConditionTypes(result.binding_conditions, result.binding_failure_conditions)
