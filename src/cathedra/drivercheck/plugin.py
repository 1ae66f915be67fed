"""The kubelet's side of a driver's sockets: finds them, notifies them of the registration, and calls them in every
version."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from cathedra.clock import Clock
from cathedra.drivercheck.errors import CheckFailed, DriverCheckError
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ClaimReference, PluginCallError, PrepareOutcome, ReportedHealth
from cathedra.node.plugins.grpcclient import (
    DRA_SERVICES,
    GET_INFO_SECONDS,
    HEALTH_SERVICES,
    GRPCPluginClient,
    PluginAnnouncement,
    PluginServices,
    RegistrationSocket,
)
from cathedra.node.plugins.registration import SocketWatcher

_START_SECONDS: Final = 10.0
"""From a socket's appearance until it is served."""


async def ask(socket: Path, seconds: float = GET_INFO_SECONDS) -> PluginAnnouncement:
    """GetInfo at a registration socket.

    Raises:
        PluginCallError: it did not answer.
    """
    async with RegistrationSocket(socket) as there:
        return await there.get_info(seconds)


async def tell(socket: Path, *, registered: bool, error: str = "") -> None:
    """NotifyRegistrationStatus.

    Raises:
        PluginCallError: the driver did not take it.
    """
    async with RegistrationSocket(socket) as there:
        await there.notify(registered=registered, error=error)


async def _ask_patiently(socket: Path) -> PluginAnnouncement | None:
    """GetInfo; None where a process that was killed has left the socket, or something else listens."""
    try:
        return await ask(socket, seconds=_START_SECONDS)
    except PluginCallError:
        return None


class ExaminedPlugin:
    """One instance of the driver, connected in every version that it offers."""

    def __init__(self, info: PluginAnnouncement, clock: Clock) -> None:
        self.info = info
        self.versions = tuple(name for name in info.services if name in DRA_SERVICES)
        health = next((name for name in HEALTH_SERVICES if name in info.services), None)
        self.offers_health = health is not None
        self._clients = {
            service: GRPCPluginClient(
                info.name,
                info.endpoint or str(info.socket),
                PluginServices(service, health),
                clock=clock,
                metrics=NodeMetrics(clock),
            )
            for service in self.versions
        }

    async def close(self) -> None:
        """Close the connections in all versions."""
        for client in self._clients.values():
            await client.close()

    def client(self, version: str = "") -> GRPCPluginClient:
        """Return the connection in a version; "" for the one that a kubelet would choose.

        Raises:
            CheckFailed: the driver offers no version that a kubelet knows.
        """
        if not self.versions:
            offered = ", ".join(self.info.services) or "nothing"
            raise CheckFailed(f"it offers {offered}; a kubelet calls {' or '.join(DRA_SERVICES)}")
        return self._clients[version or self.versions[0]]

    async def prepare(self, claims: Sequence[ClaimReference], version: str = "") -> Mapping[str, PrepareOutcome]:
        """NodePrepareResources; by claim UID.

        Raises:
            PluginCallError: the call failed as a whole.
        """
        return await self.client(version).prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimReference], version: str = "") -> Mapping[str, str]:
        """NodeUnprepareResources; by claim UID, an error text or "".

        Raises:
            PluginCallError: the call failed as a whole.
        """
        return await self.client(version).unprepare(claims)

    def health(self) -> AsyncGenerator[tuple[ReportedHealth, ...], None]:
        """Return the stream of health reports."""
        return self.client().watch_health()


class PluginDirectory:
    """The registration sockets of a kubelet's directory, as they come and go."""

    def __init__(self, root: Path, clock: Clock) -> None:
        self.root = root
        self._clock = clock
        self._sockets: set[Path] = set()
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Follow the directory while the block runs."""
        watcher = SocketWatcher(self.root, self._on_socket, clock=self._clock)
        task = asyncio.create_task(watcher.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _on_socket(self, path: Path, number: int | None) -> None:
        (self._sockets.discard if number is None else self._sockets.add)(path)
        self._changed.set()

    async def find(self, driver: str, *, but: frozenset[Path] = frozenset(), seconds: float) -> PluginAnnouncement:
        """Return the driver of that name, or the only one there is, at a socket that is none of ``but``.

        Raises:
            DriverCheckError: within ``seconds`` there is none, or there are several.
        """
        try:
            async with asyncio.timeout(seconds):
                while True:
                    self._changed.clear()
                    found = await self._drivers(driver, but)
                    if len({info.name for info in found}) > 1:
                        names = ", ".join(sorted({info.name for info in found}))
                        raise DriverCheckError(f"{self.root} has several drivers; choose one with --driver: {names}")
                    if found:
                        return found[0]
                    await self._changed.wait()
        except TimeoutError as error:
            who = f"driver {driver}" if driver else "driver"
            raise DriverCheckError(f"no {who} has come to {self.root} within {seconds:g} s") from error

    async def _drivers(self, driver: str, but: frozenset[Path]) -> list[PluginAnnouncement]:
        answers = await asyncio.gather(*map(_ask_patiently, sorted(self._sockets - but)))
        return [info for info in answers if info is not None and driver in ("", info.name)]

    async def until_gone(self, socket: Path) -> None:
        """Wait until the socket is removed."""
        while socket in self._sockets:
            self._changed.clear()
            await self._changed.wait()
