"""What a driver looks like from the node agent: prepare and unprepare, with nothing of the wire in it.

`GRPCPluginClient` speaks to a real driver on its socket. A simulation hands a driver's own object over instead:
anything with these methods is a `PluginClient`, and thousands of nodes in one process need neither sockets nor files.

What can be wrong with drivers on this node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from cathedra.clock import Clock
from cathedra.node.metrics import NodeMetrics

__all__ = [
    "ClaimReference",
    "ConnectedPlugin",
    "DeviceCondition",
    "DialPlugin",
    "HealthClient",
    "MakeDial",
    "PluginCallError",
    "PluginClient",
    "PluginDevice",
    "PluginError",
    "PluginNotRegistered",
    "PrepareOutcome",
    "RegistrationError",
    "ReportedHealth",
]


class ClaimReference(NamedTuple):
    """A claim as drivers are told of it."""

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
    """A call failed as a whole. The text is what Go's gRPC prints, since tools look for it."""

    def __init__(self, code: str, description: str) -> None:
        self.code, self.description = code, description
        super().__init__(f"rpc error: code = {code} desc = {description}")


class PluginClient(Protocol):
    """A driver instance. Both calls raise `PluginCallError` when they fail as a whole."""

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID."""
        ...

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Let go of the claims; by claim UID, an error text or ""."""
        ...


class DeviceCondition(Enum):
    """How a device does."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


class ReportedHealth(msgspec.Struct, frozen=True):
    """One device in a driver's report; ``timeout`` in seconds, zero and below mean the default."""

    pool: str
    device: str
    health: DeviceCondition
    timeout: float = 0.0
    message: str = ""


class HealthClient(Protocol):
    """A driver instance that reports the health of its devices."""

    def watch_health(self) -> AsyncIterator[tuple[ReportedHealth, ...]]:
        """Reports until the stream ends; raises `PluginCallError` when it breaks (Unimplemented: there is none)."""
        ...


class ConnectedPlugin(PluginClient, Protocol):
    """A driver instance behind a connection."""

    async def follow_connection(self, on_connection: Callable[[bool], None]) -> None:
        """Keep connecting, and report each beginning and end, until cancelled."""
        ...

    async def close(self) -> None:
        """Let go of the connection; calls under way are cancelled."""
        ...


class DialPlugin(Protocol):
    """Connects to a driver that registers."""

    def __call__(
        self, driver: str, endpoint: str, offered: tuple[str, ...]
    ) -> tuple[ConnectedPlugin, HealthClient | None]:
        """The driver behind ``endpoint``, and what reports its devices' health, if anything does.

        Raises:
            RegistrationError: nothing among the ``offered`` versions is known here.
        """
        ...

    async def run(self) -> None:
        """Do what connections to drivers need beside them, until cancelled or done."""
        ...


MakeDial = Callable[[Clock, NodeMetrics], DialPlugin]
"""Makes what connects to drivers, for an agent with that clock and these metrics."""


class PluginError(Exception):
    """Base of what this package raises, calls to drivers apart (see `PluginCallError`)."""


class PluginNotRegistered(PluginError, LookupError):
    """No instance of the driver is known here."""


class RegistrationError(PluginError):
    """A plugin cannot be registered as it presents itself."""
