"""The kernel's uevents, which report added and removed hardware, as a stream.

A driver reads the machine again after each event instead of polling. The events arrive over a netlink socket that any
user may read in the host's network namespace; in others there are none, and the devices are those found at the start.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

LOST: Final[Mapping[str, str]] = {"ACTION": "lost"}
"""Marker for events that the kernel had to drop: their content is unknown."""

_NETLINK_KOBJECT_UEVENT: Final = 15
_KERNEL_GROUP: Final = 1
_LONGEST: Final = 64 * 1024


def parse_uevent(message: bytes) -> Mapping[str, str]:
    """Return the properties of one message, as ``ACTION``, ``SUBSYSTEM`` and ``DEVPATH``; none if it is no uevent."""
    head, _, rest = message.partition(b"\0")
    if b"@" not in head:
        return {}
    entries = (entry.decode(errors="replace").partition("=") for entry in rest.split(b"\0") if entry)
    return {name: value for name, equals, value in entries if equals}


@asynccontextmanager
async def uevents() -> AsyncIterator[AsyncIterator[Mapping[str, str]]]:
    """Yield the uevents from now on; `LOST` in the place of those that came too fast.

    Raises:
        OSError: the kernel does not give them here.
    """
    loop = asyncio.get_running_loop()
    listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, _NETLINK_KOBJECT_UEVENT)
    with contextlib.closing(listening):
        listening.bind((0, _KERNEL_GROUP))
        yield read_uevents(lambda: loop.sock_recv(listening, _LONGEST))


async def read_uevents(receive: Callable[[], Awaitable[bytes]]) -> AsyncIterator[Mapping[str, str]]:
    """Yield the uevents of the messages that ``receive`` gives.

    Raises:
        OSError: ``receive`` fails for another reason than that messages came too fast.
    """
    while True:
        try:
            message = await receive()
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            yield LOST
            continue
        if properties := parse_uevent(message):
            yield properties
