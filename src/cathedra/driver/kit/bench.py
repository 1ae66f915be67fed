"""Runs a driver on a simulated node. Claims are allocated by hand or by the allocator, and tests check the driver's
answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from cathedra.allocation import AllocationError
from cathedra.api import resource
from cathedra.api.core.core_v1 import Node
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import RawJSON, replace
from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import ContainerEdits
from cathedra.client.client import Client
from cathedra.client.resources import NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.clock import Clock, SystemClock
from cathedra.driver.claim import Ref
from cathedra.driver.driver import Driver
from cathedra.driver.kit.memoryapi import MemoryAPI, asked, results_for, smallest_requests
from cathedra.driver.preparing.checkpoint import DeviceAnswer
from cathedra.driver.preparing.service import PrepareResult
from cathedra.driver.run import DriverPlacement, DriverRunner

NODE: Final = "kit-node"
NAMESPACE: Final = "default"


class KitError(Exception):
    """A driver did not do what the test wanted to build on; the text is the driver's own."""


class Kit:
    """A driver on a bench. Use it as an async context manager; files are real, in a directory of its own."""

    def __init__(self, make_driver: Callable[[], Driver], *, clock: Clock | None = None) -> None:
        """``make_driver`` is called for every start, as a new process would."""
        self._make_driver = make_driver
        self._clock = clock or SystemClock()
        self._directory = Path()
        self._boots = 1
        self._runner: DriverRunner | None = None
        self._task: asyncio.Task[None] | None = None
        self._claims = 0
        self.client = Client(MemoryAPI(), clock=self._clock, field_manager="kit")
        """The cluster's API, as an administrator sees it."""

    async def __aenter__(self) -> Self:
        self._directory = Path(tempfile.mkdtemp(prefix="driver-kit-"))
        await self.client.resource(NODES).create(Node(metadata=ObjectMeta(name=NODE)))
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def driver(self) -> Driver:
        """The driver that is running now."""
        return self._running.driver

    @property
    def _running(self) -> DriverRunner:
        if self._runner is None:
            raise KitError("the driver is not running")
        return self._runner

    @property
    def cdi_directory(self) -> Path:
        """Directory of the driver's CDI files."""
        return self._directory / "cdi"

    async def _start(self) -> None:
        driver = self._make_driver()
        self._runner = runner = DriverRunner(
            driver,
            self.client,
            DriverPlacement(
                node_name=NODE,
                plugin_dir=self._directory / "plugin",
                cdi_dir=self.cdi_directory,
                boot_id=f"boot-{self._boots}",
            ),
            clock=self._clock,
            random=Random(1),
        )
        self._task = asyncio.ensure_future(runner.run())
        published = asyncio.ensure_future(runner.slices.wait_published())
        await asyncio.wait({self._task, published}, return_when=asyncio.FIRST_COMPLETED)
        if self._task.done():
            published.cancel()
            await self._task

    async def _stop(self) -> None:
        task, self._task, self._runner = self._task, None, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def restart(self) -> None:
        """End the driver as a process ends, and start it again: memory is lost, files stay."""
        await self._stop()
        await self._start()

    async def reboot(self) -> None:
        """Restart the machine: what is in /var/run, as CDI files, is lost too."""
        await self._stop()
        shutil.rmtree(self.cdi_directory, ignore_errors=True)
        self._boots += 1
        await self._start()

    # The cluster

    async def slices(self) -> list[resource.ResourceSlice]:
        """Return the published slices, sorted by name."""
        page = await self.client.resource(RESOURCESLICES).list()
        return sorted(page.items, key=lambda found: found.metadata.name)

    async def devices(self) -> list[tuple[str, str]]:
        """Pool and name of every device that is published."""
        return [(found.spec.pool.name, device.name) for found in await self.slices() for device in found.spec.devices]

    async def claim(
        self,
        *devices: str,
        name: str = "",
        request: str = "device",
        config: Mapping[str, Any] | None = None,
        others: Sequence[resource.DeviceRequestAllocationResult] = (),
    ) -> Ref:
        """A claim that has been allocated these devices of the driver; ``config``: its opaque parameters.

        ``others``: results of other drivers in the same claim.

        Raises:
            KitError: the driver has not published such a device.
        """
        self._claims += 1
        name = name or f"claim-{self._claims}"
        results = (*[await self._result(device, request) for device in devices], *others)
        exactly = resource.ExactDeviceRequest(device_class_name=self.driver.name)
        requests = dict.fromkeys(result.request.partition("/")[0] for result in results)
        spec = resource.DeviceClaim(requests=tuple(resource.DeviceRequest(name=r, exactly=exactly) for r in requests))
        claims = self.client.resource(RESOURCECLAIMS, NAMESPACE)
        made = await claims.create(
            resource.ResourceClaim(metadata=ObjectMeta(name=name), spec=resource.ResourceClaimSpec(devices=spec))
        )
        allocation = resource.AllocationResult(
            devices=resource.DeviceAllocationResult(results=results, config=self._config(config))
        )
        await claims.update_status(replace(made, status=resource.ResourceClaimStatus(allocation=allocation)))
        return Ref(NAMESPACE, name, made.metadata.uid)

    async def allocate(
        self, selector: str = "", *, count: int = 1, name: str = "", config: Mapping[str, Any] | None = None
    ) -> Ref:
        """A claim that the allocator gives devices of the driver, from what is published and not taken. Of devices that
        claims share, it gets the least amount.

        Args:
            selector: a CEL expression over ``device``, as in a claim; "" for any device.
            config: opaque parameters of the claim.

        Raises:
            KitError: it gives none; the text is the allocator's refusal.
        """
        self._claims += 1
        claims = self.client.resource(RESOURCECLAIMS, NAMESPACE)
        least = smallest_requests(await self.slices())
        claim = asked(self.driver.name, name or f"claim-{self._claims}", NAMESPACE, selector, count, least)
        try:
            outcome = await results_for(self.client, self.driver.name, NODE, claim)
        except AllocationError as error:
            raise KitError(str(error)) from error
        if isinstance(outcome, str):
            raise KitError(outcome)
        (allocation,) = outcome.results
        made = await claims.create(claim)
        devices = replace(allocation.devices, config=self._config(config))
        status = resource.ResourceClaimStatus(allocation=replace(allocation, devices=devices))
        await claims.update_status(replace(made, status=status))
        return Ref(NAMESPACE, made.metadata.name, made.metadata.uid)

    async def _result(self, device: str, request: str) -> resource.DeviceRequestAllocationResult:
        for pool, name in await self.devices():
            if name == device:
                return resource.DeviceRequestAllocationResult(
                    request=request, driver=self.driver.name, pool=pool, device=device
                )
        raise KitError(f"{self.driver.name} has published no device {device}")

    def _config(self, parameters: Mapping[str, Any] | None) -> tuple[resource.DeviceAllocationConfiguration, ...]:
        if parameters is None:
            return ()
        opaque = resource.OpaqueDeviceConfiguration(driver=self.driver.name, parameters=RawJSON.of(dict(parameters)))
        return (resource.DeviceAllocationConfiguration(source="FromClaim", opaque=opaque),)

    async def delete(self, claim: Ref) -> None:
        """Delete a claim's object without a call to the driver."""
        await self.client.resource(RESOURCECLAIMS, claim.namespace).delete(claim.name)

    # The node agent

    async def prepare(self, claim: Ref) -> tuple[DeviceAnswer, ...]:
        """Prepare one claim; answers its devices.

        Raises:
            KitError: that did not succeed.
        """
        result = (await self.prepare_all(claim)).get(claim.uid)
        if result is None:
            raise KitError(f"no answer for claim {claim}")
        if result.error:
            raise KitError(result.error)
        return result.devices

    async def prepare_all(self, *claims: Ref) -> dict[str, PrepareResult]:
        """Make one prepare call for these claims. Return the answers by UID.

        Raises:
            CallFailed: the call as a whole was refused.
        """
        return await self._running.service.node_prepare_resources(claims)

    async def unprepare(self, claim: Ref) -> None:
        """Unprepare one claim.

        Raises:
            KitError: that did not succeed.
        """
        answers = await self._running.service.node_unprepare_resources([claim])
        if answers.get(claim.uid, "no answer"):
            raise KitError(answers.get(claim.uid, f"no answer for claim {claim}"))

    def edits(self, devices: Sequence[DeviceAnswer]) -> ContainerEdits:
        """Return the edits that the CDI files on disk have for these devices.

        Raises:
            UnresolvableDevices: the files lack some names.
        """
        names = dict.fromkeys(name for device in devices for name in device.cdi_device_ids)
        return load([self.cdi_directory]).edits(names)
