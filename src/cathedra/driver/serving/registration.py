"""The driver's side of plugin registration: socket paths, announced services, and the node agent's response.

The handshake may be repeated at any time (the agent restarts, or an attempt failed), and a refusal is not final, so
nothing here ends the driver (docs/spec/driver-sdk.md §4). During a rolling update two instances of a driver run side by
side, each with sockets named after its pod; names too long for a socket address are replaced by hashes. The names are
those of the Go helper, so that instances of both kinds can replace each other (docs/spec/driver-sdk.md §2 and §7).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from cathedra.driver.errors import OptionError, RegistrationFailed

PLUGIN_TYPE = "DRAPlugin"
DRA_V1 = "v1.DRAPlugin"
DRA_V1BETA1 = "v1beta1.DRAPlugin"
HEALTH_V1 = "v1.DRAResourceHealth"
HEALTH_V1ALPHA1 = "v1alpha1.DRAResourceHealth"


DRA_OF_131 = "1.0.0"
"""The version that a kubelet of 1.31 accepts, and only alone: it parses versions as numbers, and calls
``v1alpha3.Node``. Kubelets of 1.32 and 1.33 accept it too, later ones refuse it.
"""

SERVICES = (DRA_V1, DRA_V1BETA1, HEALTH_V1, HEALTH_V1ALPHA1)
"""Default services, most preferred first."""


def supported_services(wanted: Sequence[str], *, health: bool) -> tuple[str, ...]:
    """Return the services that are announced, most preferred first.

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
    """The response to ``GetInfo``."""

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
        """The node agent's last response; None before the first."""
        self.error = ""
        self._changed = asyncio.Event()

    def get_info(self) -> PluginInfo:
        """Return the driver's information to the node agent."""
        self.attempts += 1
        return self.info

    def notify(self, *, registered: bool, error: str) -> None:
        """Handle the node agent's response.

        Raises:
            RegistrationFailed: it refused the driver. The exception acknowledges that to the caller.
        """
        self.registered, self.error = registered, error
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if not registered:
            raise RegistrationFailed(f"failed registration process: {error}")

    def changed(self) -> asyncio.Event:
        """Return an event that is set at the node agent's next response."""
        return self._changed

    async def wait_registered(self, timeout: float, where: str) -> None:
        """Wait until the driver is registered; ``timeout`` in seconds, ``where`` for the error's text.

        Raises:
            RegistrationFailed: it was not within that time. The text has the reason, if it is known.
        """
        try:
            async with asyncio.timeout(timeout):
                while not self.registered:
                    await self._changed.wait()
        except TimeoutError as late:
            reason = self.error or f"no node agent has looked at {where}"
            raise RegistrationFailed(f"not registered within {timeout:g} s: {reason}") from late


MAX_PATH = 107
"""Bytes of the longest socket path that Linux takes."""


class SocketPaths(msgspec.Struct, frozen=True):
    """The two sockets of a driver instance."""

    service: Path
    registration: Path


def socket_paths(driver: str, plugin_dir: Path, registry_dir: Path, pod_uid: str = "") -> SocketPaths:
    """Return the sockets of an instance; ``pod_uid`` names it during rolling updates.

    Raises:
        OptionError: a path is too long for a socket, however it is named.
    """
    if not pod_uid:
        service: tuple[str, ...] = ("dra.sock",)
        registration: tuple[str, ...] = (f"{driver}-reg.sock",)
    else:
        service = (f"dra-{pod_uid}.sock", f"dra-{_hash(pod_uid, 8)}")
        registration = (
            f"{driver}-{pod_uid}-reg.sock",
            f"{driver}-{_hash(pod_uid, 8)}-reg.sock",
            f"dra-{_hash(chr(0).join((driver, pod_uid)), 16)}-reg.sock",
        )
    return SocketPaths(_first_fitting(plugin_dir, service), _first_fitting(registry_dir, registration))


def _first_fitting(directory: Path, names: Iterable[str]) -> Path:
    path = directory
    for name in names:
        path = directory / name
        if len(str(path).encode()) <= MAX_PATH:
            return path
    raise OptionError(
        f"socket path {path} has {len(str(path).encode())} bytes, at most {MAX_PATH} are possible; "
        f"choose a shorter directory than {directory}"
    )


def _hash(text: str, length: int) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:length]).decode().rstrip("=")
