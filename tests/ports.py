"""Ports for servers that a test stops and starts again."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

PORTS = range(15_000, 30_000)


def free_port() -> int:
    """Return a port that is free now, below those from which the kernel takes the ports of connections.

    While the server of another port is down, a client's connection could take it, even a connection with itself: then
    the client takes the server for one that listens, and the server cannot start.
    """
    # Of the system: tests seed the common generator, and processes beside this one would choose the same ports.
    choice = random.SystemRandom()
    while True:
        port = choice.choice(PORTS)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
