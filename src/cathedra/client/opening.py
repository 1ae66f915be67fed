"""The way to an API server that a kubeconfig names: its port, or the socket of a server on the same machine.

Over TLS sessions in the binary protocol are asked for. ``CATHEDRA_DISABLE_SESSIONS`` in the environment, with any
value, leaves it at HTTP, which tools for debugging can read.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from cathedra.client.denials import Denials
from cathedra.client.kubeconfig import Target

if TYPE_CHECKING:
    from cathedra.client.transport import Transport

__all__ = ["DISABLED", "open_transport"]

DISABLED: Final = "CATHEDRA_DISABLE_SESSIONS"
"""The variable that leaves it at HTTP, as ``DISABLE_HTTP2`` leaves it at HTTP/1.1 for clients of Kubernetes."""


@asynccontextmanager
async def open_transport(
    target: Target, *, user_agent: str, denials: Denials | None = None
) -> AsyncIterator[Transport]:
    """A transport to ``target`` while the context lasts; nothing is sent yet.

    Refusals for want of a right are reported to ``denials``.

    Raises:
        ssl.SSLError: certificates or keys cannot be read.
    """
    if target.socket is None:
        from cathedra.client.http import HTTPTransport  # start-up time: one way alone is needed

        async with await HTTPTransport.open(target, user_agent=user_agent, denials=denials) as http:
            if http.tls is None or target.username or os.environ.get(DISABLED):
                yield http
                return
            from cathedra.client.upgrading import UpgradingTransport  # start-up time: as above

            transport = UpgradingTransport(http, target, agent=user_agent)
            try:
                yield transport
            finally:
                await transport.close()
        return
    from cathedra.client.local.transport import LocalTransport  # start-up time: with a socket alone
    from cathedra.client.local.unix import LocalConnection  # start-up time: with a socket alone

    connection = LocalConnection(target.socket, denials)
    try:
        yield LocalTransport(connection, target.token, agent=user_agent)
    finally:
        connection.close()
