"""A node of this process that is started again after a failure.

A kubelet that fails is started again by its machine, and nothing else of the cluster notices. In `cathedra up` all
nodes share a process with the API server, so one node's failure, as a damaged state file, must not end more than that
node.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.cluster.parts.nodes import ClusterNode
from cathedra.node.claims.errors import CorruptCheckpoint
from cathedra.node.runtime.runtime import UnusableRuntime
from cathedra.node.server.tls import UnprotectedServer

__all__ = ["SupervisedNode"]

_RETRY: Final = (1.0, 30.0)
"""First and longest pause, in seconds, before a node is started again."""
_STABLE: Final = 60.0
"""Seconds after which a node counts as running, so that the next failure begins with the first pause."""
_OPTIONS: Final = (UnusableRuntime, UnprotectedServer)
"""Errors in what the user asked for: no later attempt can succeed, and the cluster ends with them."""
_EXPECTED: Final = (OSError, CorruptCheckpoint)
"""Errors of a node's surroundings, whose text says what to do. All others are logged with their traceback."""

_LOG = logging.getLogger(__name__)


class SupervisedNode:
    """Runs one node until cancelled. ``make`` makes it, for each attempt anew."""

    def __init__(self, name: str, make: Callable[[], ClusterNode], clock: Clock) -> None:
        self.name = name
        self.node = make()
        """The node of the present attempt."""
        self.failure = ""
        """Error of the last attempt; empty while the node runs."""
        self._make = make
        self._clock = clock
        self._failed = asyncio.Event()

    async def run(self) -> None:
        """Run the node until cancelled.

        Raises:
            UnusableRuntime: the container runtime that was asked for cannot be used here.
            UnprotectedServer: the node's server could not check its callers.
        """
        pauses = DoublingPauses(*_RETRY)
        while True:
            begun = self._clock.monotonic()
            try:
                return await self.node.run()
            except Exception as error:
                cause = _cause(error)
                if isinstance(cause, _OPTIONS):
                    raise cause from error
                if self._clock.monotonic() - begun > _STABLE:
                    pauses.reset()
                pause = pauses.take()
                self._note(cause, pause)
            await self._clock.sleep(pause)
            self.failure = ""
            self.node = self._make()

    async def wait_settled(self) -> None:
        """Wait until the node is ready for the first time, or has failed."""
        ready = asyncio.ensure_future(self.node.wait_ready())
        failed = asyncio.ensure_future(self._failed.wait())
        try:
            await asyncio.wait((ready, failed), return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                ready.result()
        finally:
            ready.cancel()
            failed.cancel()
            await asyncio.gather(ready, failed, return_exceptions=True)

    def _note(self, cause: BaseException, pause: float) -> None:
        self.failure = str(cause) or type(cause).__name__
        self._failed.set()
        shown = None if isinstance(cause, _EXPECTED) else cause
        _LOG.error("node %s failed and starts again in %g s: %s", self.name, pause, self.failure, exc_info=shown)


def _cause(error: BaseException) -> BaseException:
    """Return the first error within ``error`` that is no group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
