"""What a driver looks like from the node agent: prepare and unprepare, with nothing of the wire in it.

`GRPCPluginClient` speaks to a real driver on its socket. A simulation hands a driver's own object over instead:
anything with these methods is a `PluginClient`, and thousands of nodes in one process need neither sockets nor files.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

__all__ = [
    "ClaimReference",
    "DeviceHealth",
    "Health",
    "HealthClient",
    "PluginCallError",
    "PluginClient",
    "PrepareOutcome",
    "PreparedDevice",
]


class ClaimReference(NamedTuple):
    """A claim as drivers are told of it."""

    namespace: str
    uid: str
    name: str


@dataclass(frozen=True, slots=True)
class PreparedDevice:
    """A device that a driver made ready; no request names means that it serves every request of the claim."""

    pool: str
    device: str
    request_names: tuple[str, ...] = ()
    cdi_device_ids: tuple[str, ...] = ()
    share_id: str | None = None


@dataclass(frozen=True, slots=True)
class PrepareOutcome:
    """A driver's answer for one claim: devices, or an error text."""

    devices: tuple[PreparedDevice, ...] = ()
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


class Health(Enum):
    """How a device does."""

    UNKNOWN = "Unknown"
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """One device in a driver's report; ``timeout`` in seconds, zero and below mean the default."""

    pool: str
    device: str
    health: Health
    timeout: float = 0.0
    message: str = ""


class HealthClient(Protocol):
    """A driver instance that reports the health of its devices."""

    def watch_health(self) -> AsyncIterator[tuple[DeviceHealth, ...]]:
        """Reports until the stream ends; raises `PluginCallError` when it breaks (Unimplemented: there is none)."""
        ...
