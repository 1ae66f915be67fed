"""gRPC over unix sockets, with the error texts of Go's gRPC.

Most drivers and container runtimes are written in Go, and tools match the texts that its gRPC prints.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

_GO_CODES: Final = {"CANCELLED": "Canceled", "OK": "OK"}
_OPTIONS: Final = (
    # Two instances must never share a connection: a socket that was created again belongs to another instance.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A path is no host name; servers of any language accept this one.
    ("grpc.default_authority", "localhost"),
)


def open_channel(path: str) -> grpc.aio.Channel:
    """Return a channel to a unix socket; it connects when it is first used."""
    return grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS)


async def serve_at(server: grpc.aio.Server, path: Path) -> None:
    """Serve at a new unix socket until cancelled; calls in progress are then cancelled too."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # The real path may be longer than a socket's address can be.
        server.add_insecure_port(f"unix:/proc/self/fd/{folder}/{path.name}")
        await server.start()
    finally:
        os.close(folder)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        await server.stop(None)


def go_status(error: grpc.aio.AioRpcError) -> tuple[str, str]:
    """Return code and description of a failed call, as Go names and words them."""
    name = error.code().name
    code = _GO_CODES.get(name) or "".join(word.capitalize() for word in name.split("_"))
    text = "context deadline exceeded" if name == "DEADLINE_EXCEEDED" else error.details() or ""
    return code, text
