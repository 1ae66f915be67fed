"""How many requests are worked on at the same time, and whose turn it is.

There is a number of seats. When all are taken requests wait in a queue per user, and seats that become free go round
the users, so that one with a thousand requests does not keep the others waiting. A request that finds its queue full,
or waits too long, is refused (429 with ``Retry-After``). Administrators are never kept waiting: they have to be able to
see what goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, failure
from cathedra.apiserver.authentication.user import UserInfo

__all__ = ["Flow"]

SEATS: Final = 600
QUEUE: Final = 200
"""Requests of one user that may wait."""
WAIT_SECONDS: Final = 15.0


def refused() -> StatusError:
    """429: come again."""
    text = "Too many requests, please try again later."
    return failure(429, "TooManyRequests", text, StatusDetails(retry_after_seconds=1))


class Flow:
    """The seats and the queues of one server."""

    def __init__(self, *, seats: int = SEATS, queue: int = QUEUE, wait: float = WAIT_SECONDS) -> None:
        self._free = seats
        self._limit = queue
        self._wait = wait
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self.seats = seats
        self.rejected = 0

    @property
    def taken(self) -> int:
        """How many seats are taken."""
        return self.seats - self._free

    @property
    def waiting(self) -> int:
        """How many requests wait for a seat."""
        return sum(map(len, self._queues.values()))

    @staticmethod
    def exempt(user: UserInfo) -> bool:
        """Whether the user never waits."""
        return user.is_master

    def acquire(self) -> bool:
        """Take a seat if one is free and no request waits."""
        if self._free <= 0 or self._queues:
            return False
        self._free -= 1
        return True

    async def queue_up(self, user: UserInfo) -> None:
        """Wait for a seat and take it.

        Raises:
            StatusError: 429, too many of the user's requests wait already, or none became free in time.
        """
        queue = self._queues.setdefault(user.name, deque())
        if len(queue) >= self._limit:
            self.rejected += 1
            raise refused()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            async with asyncio.timeout(self._wait):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release()  # the seat came at the last moment
            else:
                self._forget(user.name, turn)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                raise refused() from None
            raise

    def release(self) -> None:
        """Give the seat to the next request in turn, or free it."""
        while self._queues:
            name = next(iter(self._queues))
            queue = self._queues.pop(name)
            turn = queue.popleft()
            if queue:
                self._queues[name] = queue  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _forget(self, name: str, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(name)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[name]
