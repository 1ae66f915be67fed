"""Test bench of a check: the running driver, claims for it, the CDI documents that it writes, and its process."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from cathedra.cdi.catalogue import load
from cathedra.cdi.spec import CDIError
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import Clock
from cathedra.drivercheck.claims import AllocatedClaim, Claims
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped, DriverCheckError
from cathedra.drivercheck.plugin import ExaminedPlugin, PluginDirectory, tell
from cathedra.drivercheck.program import DriverProgram
from cathedra.node.plugins.client import ClaimReference, PluginCallError, PluginDevice

PATIENCE: Final = 60.0
"""Seconds within which a driver must show itself and publish."""
T = TypeVar("T")


@dataclass(slots=True)
class DriverInstance:
    """A driver's process, if it was started here, and its sockets."""

    plugin: ExaminedPlugin
    process: asyncio.subprocess.Process | None


class Bench:
    """One driver on one node."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Clock,
        directory: PluginDirectory,
        cdi_directories: Sequence[Path],
        claims: Claims,
        program: DriverProgram | None,
    ) -> None:
        """``program`` is None where the driver runs already, and must not be ended."""
        self.claims = claims
        self.cdi_directories = tuple(cdi_directories)
        self.directory = directory
        self._client = client
        self._clock = clock
        self.neighbour: Bench | None = None
        """The same driver on a second node."""
        self.previous: DriverProgram | None = None
        """The driver's previous version, where one was given."""
        self._program = program
        self._running: DriverInstance | None = None

    @property
    def instance(self) -> DriverInstance:
        """The driver as it runs now.

        Raises:
            DriverCheckError: it does not.
        """
        if self._running is None:
            raise DriverCheckError("the driver is not running")
        return self._running

    @property
    def plugin(self) -> ExaminedPlugin:
        """Return the running driver's plugin, as its sockets show it."""
        return self.instance.plugin

    def require_program(self) -> DriverProgram:
        """Return the driver's program, which can be started and stopped.

        Raises:
            CheckSkipped: it was not started here.
        """
        if self._program is None:
            raise CheckSkipped("needs a driver that is started here: put its command after --")
        return self._program

    def require_neighbour(self) -> Bench:
        """Return the bench of the second node.

        Raises:
            CheckSkipped: there is one node alone.
        """
        if self.neighbour is None:
            raise CheckSkipped("needs a second node: --nodes 2")
        return self.neighbour

    def require_previous(self) -> DriverProgram:
        """Return the program of the driver's previous version.

        Raises:
            CheckSkipped: none was given.
        """
        if self.previous is None:
            raise CheckSkipped("needs the command of the previous version: --upgrade-from")
        return self.previous

    async def connect(self, driver: str) -> None:
        """Start the driver, if it is to be started here, find it, and wait until its pools are complete.

        Raises:
            DriverCheckError: it does not come, ends by itself, or publishes nothing.
        """
        self._running = await self.join(driver, self._program)
        self.claims.driver = self.plugin.info.name
        await self.claims.open()
        await self._unless_ended(self.until_published(), self._running.process)

    async def join(
        self,
        driver: str,
        program: DriverProgram | None,
        *,
        but: frozenset[Path] = frozenset(),
        pod_uid: str = "",
    ) -> DriverInstance:
        """Start ``program``, if any, and return the instance at a socket that is none of ``but``, registered.

        Raises:
            DriverCheckError: it does not come, or ends by itself.
        """
        process = None
        if program is not None:
            process = await program.start(**({"POD_UID": pod_uid} if pod_uid else {}))
        try:
            info = await self._unless_ended(self.directory.find(driver, but=but, seconds=PATIENCE), process)
            with contextlib.suppress(PluginCallError):
                # A check of its own fails if the driver cannot be notified.
                await tell(info.socket, registered=True)
        except BaseException:
            if process is not None and program is not None:
                await program.kill(process)
            raise
        return DriverInstance(ExaminedPlugin(info, self._clock), process)

    async def _unless_ended(self, waiting: Coroutine[Any, Any, T], process: asyncio.subprocess.Process | None) -> T:
        """Return the result of ``waiting``, unless the driver ends before.

        Raises:
            DriverCheckError: the process has ended before.
        """
        task = asyncio.ensure_future(waiting)
        ended = asyncio.ensure_future(process.wait() if process is not None else asyncio.Event().wait())
        try:
            await asyncio.wait({task, ended}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        finally:
            for one in (task, ended):
                one.cancel()
            await asyncio.gather(task, ended, return_exceptions=True)
        said = self._program.said() if self._program is not None else ""
        raise DriverCheckError(f"the driver has ended by itself{': ' if said else ''}{said}")

    async def until_published(self) -> None:
        """Wait until there is a slice and every pool of the driver is complete.

        Raises:
            DriverCheckError: that does not come about.
        """
        changed = asyncio.Event()
        informer = Informer(self._client, RESOURCESLICES, clock=self._clock)
        informer.add_handler(*[lambda *_: changed.set()] * 3)
        task = asyncio.create_task(informer.run())
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self._pools_are_complete():
                    await changed.wait()
                    changed.clear()
        except TimeoutError as error:
            raise DriverCheckError(f"within {PATIENCE:g} s it has published no slice, or no complete pool") from error
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _pools_are_complete(self) -> bool:
        slices = await self.claims.slices()
        newest: dict[str, int] = {}
        for one in slices:
            newest[one.spec.pool.name] = max(newest.get(one.spec.pool.name, 0), one.spec.pool.generation)
        current = [one for one in slices if one.spec.pool.generation == newest[one.spec.pool.name]]
        return bool(current) and all(
            sum(other.spec.pool.name == one.spec.pool.name for other in current) == one.spec.pool.resource_slice_count
            for one in current
        )

    async def restart(self, *, kill: bool = False, reboot: bool = False) -> None:
        """Restart the driver; ``reboot``: directories that a boot clears are cleared in between.

        Raises:
            CheckSkipped: it was not started here.
            CheckFailed: it does not end, or does not come back.
        """
        driver = self.plugin.info.name
        await self.end(self.instance, kill=kill)
        if reboot:
            for directory in self.cdi_directories:
                shutil.rmtree(directory, ignore_errors=True)
        try:
            await self.connect(driver)
        except DriverCheckError as error:
            raise CheckFailed(f"it does not come back: {error}") from error

    async def rejoin(self) -> None:
        """Remove the node from the cluster, join it again under its name, and start the driver there again.

        Raises:
            CheckSkipped: it was not started here.
            CheckFailed: it does not come back.
        """
        driver = self.plugin.info.name
        await self.end(self.instance, kill=True)
        await self.claims.renew_node()
        try:
            await self.connect(driver)
        except DriverCheckError as error:
            raise CheckFailed(f"it does not come back on a node that has joined again: {error}") from error

    async def switch(self, program: DriverProgram) -> None:
        """End the driver and run ``program`` in its place, as an update without surge does.

        Raises:
            CheckSkipped: it was not started here.
            CheckFailed: it does not end.
            DriverCheckError: ``program`` does not come, or publishes nothing.
        """
        # After a version that did not come up nothing runs; the driver must be started again all the same.
        if self._running is not None:
            await self.end(self._running)
        self._program = program
        await self.connect(self.claims.driver)

    async def hand_over(self, newer: DriverInstance, program: DriverProgram) -> None:
        """End the driver, and go on with an instance of ``program`` that runs beside it.

        Raises:
            CheckFailed: it does not end.
        """
        await self.end(self.instance)
        self._running, self._program = newer, program

    async def end(self, instance: DriverInstance, *, kill: bool = False) -> None:
        """End an instance that was started here.

        Raises:
            CheckSkipped: it was not.
            CheckFailed: it does not end.
        """
        program, process = self._leave(instance)
        await instance.plugin.close()
        if kill:
            await program.kill(process)
            return
        try:
            await program.stop(process)
        except TimeoutError as error:
            raise CheckFailed("it does not end after SIGTERM") from error

    async def end_within(self, instance: DriverInstance, seconds: float) -> None:
        """End an instance that was started here, while its connections stay open; it is killed after ``seconds``.

        Raises:
            CheckSkipped: it was not started here.
            TimeoutError: it did not end by itself.
        """
        program, process = self._leave(instance)
        try:
            await program.stop(process, seconds)
        finally:
            await instance.plugin.close()

    def _leave(self, instance: DriverInstance) -> tuple[DriverProgram, asyncio.subprocess.Process]:
        """Count an instance as ended; return its program and process."""
        program = self.require_program()
        assert instance.process is not None, "what a program starts has a process"
        if instance is self._running:
            self._running = None
        return program, instance.process

    async def close(self) -> None:
        """Stop all started programs, and close connections."""
        if self._running is None:
            return
        await self._running.plugin.close()
        if self._program is not None and self._running.process is not None:
            await self._program.kill(self._running.process)

    async def tidy(self) -> None:
        """Unprepare every claim of a check on every node, as far as the driver allows it."""
        for claim in tuple(self.claims.made):
            with contextlib.suppress(PluginCallError, CheckFailed, DriverCheckError):
                await self.plugin.unprepare([claim.ref])
            await self.claims.delete(claim)
        if self.neighbour is not None:
            await self.neighbour.tidy()

    async def prepare(self, claim: AllocatedClaim, version: str = "") -> tuple[PluginDevice, ...]:
        """Return its devices, prepared.

        Raises:
            CheckFailed: that did not succeed.
        """
        return await prepared_by(self.plugin, claim.ref, version)

    async def unprepare(self, claim: AllocatedClaim) -> None:
        """Have the driver unprepare a claim.

        Raises:
            CheckFailed: that did not succeed.
        """
        await unprepared_by(self.plugin, claim.ref)

    async def refuses(self, ref: ClaimReference) -> bool:
        """Return True if the driver refuses to prepare the claim, alone or with the whole call."""
        try:
            answers = await self.plugin.prepare([ref])
        except PluginCallError:
            return True
        return ref.uid in answers and bool(answers[ref.uid].error)

    def check_names(self, devices: Sequence[PluginDevice]) -> None:
        """Insist that valid documents define all CDI names.

        Raises:
            CheckFailed: some do not.
        """
        names = dict.fromkeys(name for device in devices for name in device.cdi_device_ids)
        catalogue = load(self.cdi_directories)
        try:
            catalogue.resolve(names)
        except CDIError as error:
            faults = "; ".join(text for texts in catalogue.faults.values() for text in texts)
            places = ", ".join(map(str, self.cdi_directories))
            raise CheckFailed(f"{error} in {places}{': ' if faults else ''}{faults}") from error

    def documents_of(self, claim: AllocatedClaim) -> list[Path]:
        """Return the CDI documents that are named after a claim."""
        return sorted(path for where in self.cdi_directories for path in where.glob(f"*{claim.uid}*"))


async def prepared_by(plugin: ExaminedPlugin, ref: ClaimReference, version: str = "") -> tuple[PluginDevice, ...]:
    """Return the devices that an instance reports for a claim.

    Raises:
        CheckFailed: it answers something else, or nothing.
    """
    try:
        answers = await plugin.prepare([ref], version)
    except PluginCallError as error:
        raise CheckFailed(f"prepare fails: {error}") from error
    if ref.uid not in answers:
        raise CheckFailed("the answer of prepare lacks the requested claim")
    if answers[ref.uid].error:
        raise CheckFailed(f"prepare fails: {answers[ref.uid].error}")
    return answers[ref.uid].devices


async def unprepared_by(plugin: ExaminedPlugin, ref: ClaimReference) -> None:
    """Require that an instance unprepares a claim.

    Raises:
        CheckFailed: it does not.
    """
    try:
        answers = await plugin.unprepare([ref])
    except PluginCallError as error:
        raise CheckFailed(f"unprepare fails: {error}") from error
    if answers.get(ref.uid, "no answer"):
        raise CheckFailed(f"unprepare fails: {answers.get(ref.uid, 'no answer for the claim')}")
