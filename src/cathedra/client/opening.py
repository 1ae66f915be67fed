"""The way to an API server that a kubeconfig names: HTTP, or the socket of a server on the same machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from cathedra.client.kubeconfig import Target

if TYPE_CHECKING:
    from cathedra.client.transport import Transport

__all__ = ["open_transport"]


@asynccontextmanager
async def open_transport(target: Target, *, user_agent: str) -> AsyncIterator[Transport]:
    """A transport to ``target`` while the context lasts; nothing is sent yet.

    Raises:
        ssl.SSLError: certificates or keys cannot be read.
    """
    if target.socket is None:
        from cathedra.client.http import HTTPTransport  # start-up time: one way alone is needed

        async with await HTTPTransport.open(target, user_agent=user_agent) as transport:
            yield transport
        return
    from cathedra.client.local.transport import LocalTransport  # start-up time: with a socket alone
    from cathedra.client.local.unix import LocalConnection  # start-up time: with a socket alone

    connection = LocalConnection(target.socket)
    try:
        yield LocalTransport(connection, target.token, agent=user_agent)
    finally:
        connection.close()
