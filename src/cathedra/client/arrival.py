"""Waiting for an API server that starts later than its parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from cathedra.client.backoff import ExponentialBackoff
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.clock import Clock

Connector = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
_PAUSES: Final = (0.2, 5.0)
"""First and longest pause between attempts, in seconds."""
_CONNECT_SECONDS: Final = 5.0


async def server_arrives(target: Target, stopped: asyncio.Event, *, clock: Clock, say: Callable[[str], None]) -> bool:
    """Wait until something listens at a server of ``target``. Return False if the process was stopped first.

    Raises:
        KubeconfigError: a server of the target is no URL with a host.
    """
    connectors = _connectors(target)
    pauses = ExponentialBackoff(clock, base=_PAUSES[0], factor=2.0, maximum=_PAUSES[1], reset_after=3600.0)
    told = False
    while not stopped.is_set():
        problem = await _problem_of_all(connectors)
        if not problem:
            if told:
                say(f"the API server at {target.server} is there")
            return True
        if not told:
            say(f"waiting for the API server at {target.server}: {problem}")
            told = True
        await _pause(stopped, pauses.delay(), clock)
    return False


def _connectors(target: Target) -> Sequence[Connector]:
    if target.socket is not None:
        return (partial(asyncio.open_unix_connection, str(target.socket)),)
    return [_connector(server) for server in target.servers]


def _connector(server: str) -> Connector:
    url = urlsplit(server)
    if not url.hostname:
        raise KubeconfigError(f"the kubeconfig's server {server!r} is no URL of an API server")
    return partial(asyncio.open_connection, url.hostname, url.port or (80 if url.scheme == "http" else 443))


async def _problem_of_all(connectors: Sequence[Connector]) -> str:
    """Return the reason why a connection to the first server fails; "" if one to any server succeeds."""
    attempts = [asyncio.create_task(_problem(connect)) for connect in connectors]
    try:
        for attempt in asyncio.as_completed(attempts):
            if not await attempt:
                return ""
        return await attempts[0]
    finally:
        for task in attempts:
            task.cancel()


async def _problem(connect: Connector) -> str:
    """Return the reason why a connection fails; "" if it succeeds."""
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            _, writer = await connect()
    except TimeoutError:
        return f"no answer within {_CONNECT_SECONDS:g} s"
    except OSError as error:
        # The names of hosts have errors of their own, with negative numbers.
        known = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        return (known or str(error)).lower()
    writer.close()
    return ""


async def _pause(stopped: asyncio.Event, seconds: float, clock: Clock) -> None:
    """Wait, at most until the process is stopped."""
    sleeping, stopping = asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((sleeping, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()
        stopping.cancel()
        await asyncio.gather(sleeping, stopping, return_exceptions=True)
