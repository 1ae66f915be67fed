"""What a driver tells the node agent about itself, and what the node agent answers.

The handshake may come again at any time (the agent restarts, or an attempt failed), and a refusal is not final, so
nothing here ends the driver (docs/spec/driver-sdk.md §4).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from cathedra.driver.errors import OptionError, RegistrationFailed

__all__ = [
    "DRA_OF_131",
    "DRA_V1",
    "DRA_V1BETA1",
    "HEALTH_V1",
    "HEALTH_V1ALPHA1",
    "PLUGIN_TYPE",
    "SERVICES",
    "PluginInfo",
    "Registration",
    "supported_services",
]

PLUGIN_TYPE = "DRAPlugin"
DRA_V1 = "v1.DRAPlugin"
DRA_V1BETA1 = "v1beta1.DRAPlugin"
HEALTH_V1 = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1 = "v1alpha1.DRAResourceHealth"


DRA_OF_131 = "1.0.0"
"""What a kubelet of 1.31 takes, and nothing beside it: it reads versions as numbers, and calls ``v1alpha3.Node``.

Kubelets of 1.32 and 1.33 take it too, later ones refuse it.
"""

SERVICES = (DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1)
"""What is served unless a driver chooses, most preferred first."""


def supported_services(wanted: Sequence[str], *, health: bool) -> tuple[str, ...]:
    """The services that are announced, most preferred first.

    Raises:
        OptionError: one is unknown, or there is none for claims.
    """
    unknown = [service for service in wanted if service not in (*SERVICES, DRA_OF_131)]
    if unknown:
        raise OptionError(f"unknown gRPC services {unknown}; known are {[*SERVICES, DRA_OF_131]}")
    for_claims = {DRA_V1, DRA_V1BETA1, DRA_OF_131}
    if not for_claims & set(wanted):
        raise OptionError("no supported DRA gRPC API is implemented and enabled")
    return tuple(service for service in wanted if health or service in for_claims)


class PluginInfo(msgspec.Struct, frozen=True):
    """The answer to ``GetInfo``."""

    name: str
    endpoint: str
    supported_versions: tuple[str, ...]
    type: str = PLUGIN_TYPE


class Registration:
    """The state of the handshake."""

    def __init__(self, info: PluginInfo) -> None:
        self.info = info
        self.attempts = 0
        self.registered: bool | None = None
        """What the node agent said last; None while it has said nothing."""
        self.error = ""
        self._changed = asyncio.Event()

    def get_info(self) -> PluginInfo:
        """The node agent asks who is there."""
        self.attempts += 1
        return self.info

    def notify(self, *, registered: bool, error: str) -> None:
        """The node agent says whether it took the driver.

        Raises:
            RegistrationFailed: it did not; the caller hears that this was understood.
        """
        self.registered, self.error = registered, error
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if not registered:
            raise RegistrationFailed(f"failed registration process: {error}")

    def changed(self) -> asyncio.Event:
        """An event that is set when the node agent says something again."""
        return self._changed

    async def wait_registered(self, timeout: float, where: str) -> None:
        """Wait until the node agent has taken the driver; ``timeout`` in seconds, ``where`` for the error's text.

        Raises:
            RegistrationFailed: it did not within that time; the text says why, as far as it is known.
        """
        try:
            async with asyncio.timeout(timeout):
                while not self.registered:
                    await self._changed.wait()
        except TimeoutError as late:
            reason = self.error or f"no node agent has looked at {where}"
            raise RegistrationFailed(f"not registered within {timeout:g} s: {reason}") from late
