"""What a hook tells the driver: which addresses an interface has in the network of its pod.

Whether a pod has a network of its own is known only when its first container is made. So the status of a claim tells
of its interface after the hook has moved it, and tells what the kernel says of it there (docs/spec/driver-sdk.md §14).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from cathedra.api.resource import NetworkDeviceData

__all__ = ["REPORT_SOCKET", "Report", "receiving_reports", "report_of"]

REPORT_SOCKET: Final = "net.sock"
"""The socket's name in the driver's directory."""

_LOG: Final = logging.getLogger(__name__)


class Report(msgspec.Struct, frozen=True):
    """An interface in the network of a pod."""

    namespace: str
    """The name of the network, by which the claim is found."""
    name: str
    mac: str = ""
    addresses: tuple[str, ...] = ()
    """As ``10.0.0.5/24``."""

    def data(self) -> NetworkDeviceData:
        """The same for the status of a claim."""
        return NetworkDeviceData(interface_name=self.name, ips=self.addresses, hardware_address=self.mac)


def report_of(namespace: str, link: Mapping[str, Any]) -> Report:
    """What is to be told of an interface as ``ip -json address`` shows it."""
    addresses = tuple(
        f"{one['local']}/{one['prefixlen']}" for one in link.get("addr_info", ()) if one.get("scope") == "global"
    )
    return Report(namespace, str(link["ifname"]), str(link.get("address", "")), addresses)


class _Receiver(asyncio.DatagramProtocol):
    def __init__(self, heard: Callable[[Report], None]) -> None:
        self._heard = heard

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            report = msgspec.json.decode(data, type=Report)
        except msgspec.DecodeError as error:
            _LOG.warning("a report of an interface cannot be read: %s", error)
            return
        self._heard(report)


@asynccontextmanager
async def receiving_reports(directory: Path, heard: Callable[[Report], None]) -> AsyncIterator[None]:
    """Hand over what hooks tell while the body runs.

    Raises:
        OSError: the socket cannot be made.
    """
    path = directory / REPORT_SOCKET
    path.unlink(missing_ok=True)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Receiver(heard), local_addr=str(path), family=socket.AF_UNIX
    )
    path.chmod(0o600)
    try:
        yield
    finally:
        transport.close()
        path.unlink(missing_ok=True)
