"""The controller of a fabric driver. One of several instances leads, publishes the pools and attaches devices.

An instance that loses its lease stops all work and exits, so that two never control the fabric at once; its supervisor
restarts it (docs/spec/driver-sdk.md §15).
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping

from cathedra.api.core import meta_v1
from cathedra.client.client import Client
from cathedra.client.leaderelection import LeaderElector, LeaseTiming
from cathedra.client.resources import DEVICECLASSES
from cathedra.driver.device import Device, Pool
from cathedra.driver.driver import resolve
from cathedra.driver.errors import DroppedFieldsError, OptionError
from cathedra.driver.fabric.attaching import AttachingController
from cathedra.driver.fabric.driver import FabricDriver
from cathedra.driver.metrics import FabricObserver, Silent
from cathedra.driver.progress import print_published
from cathedra.driver.publishing.controller import ResourceSliceController, SliceScope, keep_published
from cathedra.driver.publishing.layout import DesiredPool

TIMING = LeaseTiming(lease=15.0, renew_deadline=10.0, retry=5.0)
"""Timing of drivers' leases."""


class FabricController:
    """One instance: `run` until cancelled."""

    def __init__(
        self,
        driver: FabricDriver,
        client: Client,
        *,
        elector: LeaderElector,
        owner_class: str = "",
        observer: FabricObserver | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Set up; nothing happens before `run`.

        Args: elector: a candidate for the lease that all instances share. owner_class: a DeviceClass with which the
        slices are deleted; without one they stay when the driver is removed. Lines of progress go to the last argument.

        Raises:
            OptionError: the driver has no name.
        """
        if not driver.name:
            raise OptionError("driver name must be set")
        self.driver = driver
        self._client = client
        self._elector = elector
        self._owner_class = owner_class
        self._observer = observer or Silent()
        self._say = say
        self._wanted = asyncio.Event()
        self.slices: ResourceSliceController | None = None
        """Publishes the pools; None while another instance leads."""
        driver.install("", self._wanted.set)

    @property
    def missing(self) -> str:
        """Return the part that is not ready, or "". An instance that waits to lead is ready."""
        if self.slices is not None and not self.slices.in_sync:
            return "the devices are not published yet"
        return ""

    async def run(self) -> None:
        """Wait to lead, then work until cancelled. The lease is given back at the end; slices and devices stay.

        Raises:
            LostLeadership: another instance may lead now; the process should end.
            StatusError: the DeviceClass that is to own the slices cannot be read.
            Exception: what `FabricDriver.pools` raises at the first attempt.
        """
        self._say(f"waiting to lead: one instance holds the lease {self._elector.name}")
        # Two leaders would attach devices for the same claims, and each would withdraw the other's slices.
        await self._elector.run(self._lead)

    async def _lead(self) -> None:
        slices = self.slices = ResourceSliceController(
            self._client,
            self.driver.name,
            SliceScope(owner=await self._owner()),
            clock=self._client.clock,
            on_error=self._on_error,
            validate_names=self.driver.validate_names,
        )
        attaching = AttachingController(self._client, self.driver, observer=self._observer, on_error=self._on_error)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(slices.run())
                group.create_task(
                    keep_published(
                        slices,
                        functools.partial(self._desired, slices),
                        self._wanted,
                        clock=self._client.clock,
                        on_error=self._on_error,
                    )
                )
                group.create_task(attaching.run())
                group.create_task(print_published(slices, self._say, "leading, "))
        finally:
            # Also after an error: an instance that has lost its lease must not report itself as publishing.
            self.slices = None

    async def _owner(self) -> meta_v1.OwnerReference | None:
        if not self._owner_class:
            return None
        found = await self._client.resource(DEVICECLASSES).get(self._owner_class)
        return meta_v1.OwnerReference(
            api_version="resource.k8s.io/v1", kind="DeviceClass", name=self._owner_class, uid=found.metadata.uid
        )

    async def _desired(self, slices: ResourceSliceController) -> Mapping[str, DesiredPool]:
        answer: Pool | Iterable[Pool] = await resolve(self.driver.pools())
        pools = (answer,) if isinstance(answer, Pool) else answer
        return slices.lay_out(map(self._reachable, pools), self.driver.name)

    def _reachable(self, pool: Pool) -> Pool:
        """Return the pool with devices that wait to be attached, for all nodes unless it or a device selects some."""
        devices = tuple(map(self._waited_for, pool.devices))
        selects = pool.node_selector is not None or any(map(_selects_nodes, devices))
        # A fabric device can be attached to any node, so without a selector the pool is for all of them. A slice
        # without nodes would be refused.
        return dataclasses.replace(pool, devices=devices, all_nodes=pool.all_nodes or not selects)

    def _waited_for(self, device: Device) -> Device:
        # A driver that sets its own conditions knows more about its devices.
        if device.binding_conditions:
            return device
        return dataclasses.replace(
            device,
            binds_to_node=True if device.binds_to_node is None else device.binds_to_node,
            binding_conditions=(self.driver.attached_condition,),
            binding_failure_conditions=(self.driver.failed_condition,),
        )

    def _on_error(self, error: Exception, message: str) -> None:
        self.driver.on_error(error, message, recoverable=True)
        if isinstance(error, DroppedFieldsError):
            self.driver.on_dropped(error)


def _selects_nodes(device: Device) -> bool:
    return device.node_name is not None or device.node_selector is not None or device.all_nodes is not None
