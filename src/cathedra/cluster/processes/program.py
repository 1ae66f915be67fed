"""What every child process does: hear what it is told, work until the parent has gone, tell how it ends.

Ctrl-C reaches every process of a terminal; only the first one takes it, and ends its children in order.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final

from cathedra.apiserver.storage.primary import PrimaryStore
from cathedra.cluster.parts.gctuning import suspend_collection
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.processes.channel import LIMIT, ChannelClosed, ChildLine, read_order
from cathedra.cluster.processes.order import Order

__all__ = ["STOPPED_EARLY", "Inherited", "Work", "run_child", "while_stored"]

STOPPED_EARLY: Final = 1
"""The exit code of a child that was ended, or failed."""
Inherited = Mapping[str, socket.socket]
"""The sockets that a child has from its parent: its ``line``, ``store`` if its API server is on the first one's store,
``connections`` if it serves clients."""
Work = Callable[[Order, ChildLine, Inherited], Awaitable[None]]
"""What a child does, until its parent has gone."""


def run_child(words: list[str], work: Work) -> int:
    """Do ``work`` with the inherited sockets that the words name, as ``line=3``; the exit code."""
    import uvloop  # start-up time: in programs alone

    suspend_collection()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    named = (word.partition("=") for word in words)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve({name: _socket(number) for name, _, number in named}, work))


async def while_stored(work: Coroutine[Any, Any, None], primary: PrimaryStore | None) -> None:
    """Do ``work``, unless the primary goes; None: the store is no other process'."""
    working = {asyncio.create_task(work)}
    if primary is not None:
        working.add(asyncio.create_task(primary.lost()))
    try:
        await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in working:
            task.cancel()
        await asyncio.wait(working)
    for task in working:
        if not task.cancelled():
            task.result()


def _socket(number: str) -> socket.socket:
    inherited = socket.socket(fileno=int(number))
    inherited.setblocking(False)
    return inherited


async def _serve(inherited: Inherited, work: Work) -> int:
    reader, writer = await asyncio.open_connection(sock=inherited["line"], limit=LIMIT)
    try:
        order = Order.read(await read_order(reader))
    except ChannelClosed:
        return STOPPED_EARLY
    configure_logging(order.log_level, order.log_format)  # type: ignore[arg-type]  # one of the option's choices
    line = ChildLine(reader, writer)
    working = asyncio.ensure_future(work(order, line, inherited))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    try:
        await working
    except asyncio.CancelledError:
        return STOPPED_EARLY
    except Exception as error:
        # The last resort: the parent decides whether this ends the cluster, and shows it.
        await line.fail(_innermost(error), traceback.format_exc())
        return STOPPED_EARLY
    return 0


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
