"""Termination by signals, and the switch interval of threads.

SIGINT and SIGTERM set an event, and everything ends in order.

The store's writer thread needs the interpreter lock a few times for each statement, and by default waits 5 ms each time
while the event loop is busy. The busier the server, the longer a commit takes: with 64 clients that create objects this
was most of a write's latency. Processes with a store therefore shorten the interval.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final


def end_as_interrupted() -> None:
    """From now on SIGTERM and SIGHUP end a program without a loop of its own as Ctrl-C does: with its clean-up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)


def _interrupt(*_: object) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell without job control starts programs in the background with SIGINT ignored. Passed on as SIGINT,
        # SIGTERM would be ignored too, and nothing but SIGKILL would end the program.
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


@contextmanager
def held_back() -> Iterator[None]:
    """Let a signal that ends programs wait until the block has ended; to be used on the main thread."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.signal(number, lambda number, _: came.append(number))) for number in numbers]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        for interruption in came:
            signal.raise_signal(interruption)


def stop_event() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set from now on; to be called on the running loop."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped


async def run_until(stopped: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run ``work`` until it ends or ``stopped`` is set; then it is cancelled and awaited.

    Raises:
        Exception: whatever ``work`` ended with.
    """
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
        outcomes = await asyncio.gather(working, stopping, return_exceptions=True)
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]


_SECONDS: Final = 0.0005
"""A step of the loop is about as long; shorter would interrupt most of them."""


def switch_soon() -> None:
    """Let no thread of this process wait longer than half a millisecond for its turn. For processes with a store."""
    sys.setswitchinterval(_SECONDS)
