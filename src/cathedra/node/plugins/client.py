"""The interface between node agent and driver: prepare, unprepare and health, independent of the transport.

`GRPCPluginClient` calls a driver on its socket. A simulation passes an object of the same process: it needs neither
sockets nor files, so thousands of nodes fit into one process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, Protocol, TypeVar

import msgspec

from cathedra.clock import Clock
from cathedra.node.metrics import NodeMetrics

T = TypeVar("T")

CALL_TIMEOUT: Final = 45.0
"""Time limit of prepare and unprepare calls, in seconds."""


class ClaimReference(NamedTuple):
    """A claim as drivers receive it."""

    namespace: str
    uid: str
    name: str


class PluginDevice(msgspec.Struct, frozen=True):
    """A device that a driver made ready; no request names means that it serves every request of the claim."""

    pool: str
    device: str
    request_names: tuple[str, ...] = ()
    cdi_device_ids: tuple[str, ...] = ()
    share_id: str | None = None


class PrepareOutcome(msgspec.Struct, frozen=True):
    """A driver's answer for one claim: devices, or an error text."""

    devices: tuple[PluginDevice, ...] = ()
    error: str = ""


class PluginCallError(Exception):
    """A call failed as a whole. The text is Go's gRPC's, because tools match it."""

    def __init__(self, code: str, description: str) -> None:
        self.code, self.description = code, description
        super().__init__(f"rpc error: code = {code} desc = {description}")


class PluginClient(Protocol):
    """A driver instance. Both calls raise `PluginCallError` when they fail as a whole."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID."""

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID."""


class LimitedPlugin:
    """A driver of this process under the time limit that gRPC sets to a driver behind a socket.

    A driver that hangs would otherwise keep its pod's worker, and the calls behind it, for good.
    """

    def __init__(self, plugin: PluginClient, *, timeout: float = CALL_TIMEOUT) -> None:
        """``timeout`` is the limit of a call, in seconds."""
        self._plugin = plugin
        self._timeout = timeout

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID.

        Raises:
            PluginCallError: the call failed as a whole; code DeadlineExceeded if it took too long.
        """
        return await self._limited(self._plugin.prepare(claims))

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID.

        Raises:
            PluginCallError: the call failed as a whole; code DeadlineExceeded if it took too long.
        """
        return await self._limited(self._plugin.unprepare(claims))

    async def _limited(self, call: Awaitable[T]) -> T:
        limit = asyncio.timeout(self._timeout)
        try:
            async with limit:
                return await call
        except TimeoutError as error:
            # A TimeoutError of the driver itself is its own failure, not the end of the time.
            if not limit.expired():
                raise
            raise PluginCallError("DeadlineExceeded", "context deadline exceeded") from error


class DeviceCondition(Enum):
    """Health of a device."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class ReportedHealth(msgspec.Struct, frozen=True):
    """A device in a driver's report; ``timeout`` in seconds, zero or less means the default."""

    pool: str
    device: str
    health: DeviceCondition
    timeout: float = 0.0
    message: str = ""


class HealthClient(Protocol):
    """A driver instance that reports the health of its devices."""

    def watch_health(self) -> AsyncIterator[tuple[ReportedHealth, ...]]:
        """Reports until the stream ends; raises `PluginCallError` when it breaks (Unimplemented: there is none)."""


class ConnectedPlugin(PluginClient, Protocol):
    """A driver instance behind a connection."""

    async def follow_connection(self, on_connection: Callable[[bool], None]) -> None:
        """Keep connecting, and report each beginning and end, until cancelled."""

    async def close(self) -> None:
        """Close the connection and cancel calls in progress."""


class DialPlugin(Protocol):
    """Connects to a driver that registers."""

    def __call__(
        self, driver: str, endpoint: str, offered: tuple[str, ...]
    ) -> tuple[ConnectedPlugin, HealthClient | None]:
        """Return the driver behind ``endpoint``, and the client for its devices' health, if it reports that.

        Raises:
            RegistrationError: nothing among the ``offered`` versions is known here.
        """

    async def run(self) -> None:
        """Do what connections to drivers need beside them, until cancelled or done."""


MakeDial = Callable[[Clock, NodeMetrics], DialPlugin]
"""Makes what connects to drivers, for an agent with that clock and these metrics."""


class PluginError(Exception):
    """Base of what this package raises, calls to drivers apart (see `PluginCallError`)."""


class PluginNotRegistered(PluginError, LookupError):
    """No instance of the driver is registered on this node."""


class RegistrationError(PluginError):
    """A plugin cannot be registered as it presents itself."""
