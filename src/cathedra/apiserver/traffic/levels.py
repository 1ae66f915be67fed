"""Priority levels: how many requests of one kind are worked on at the same time, and whose turn it is.

Each level has seats of its own. A part of them it lends: a level takes what others lend and do not use, as far as it
may borrow. When none is left requests wait in queues, and seats that become free go round the queues, so that one user
with a thousand requests does not keep the others waiting. A request that finds its queue full, or waits too long, is
refused (429 with ``Retry-After``).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, failure

__all__ = ["QUEUE", "Level", "LevelShape", "Seat", "SharedSeats"]

QUEUE: Final = 200
"""Requests of one user that may wait where no priority level says otherwise."""
WAIT_SECONDS: Final = 15.0


def refused() -> StatusError:
    """429: come again."""
    text = "Too many requests, please try again later."
    return failure(429, "TooManyRequests", text, StatusDetails(retry_after_seconds=1))


class Seat:
    """A seat of a level, or none where requests wait for no seat. It is given back once."""

    __slots__ = ("_level",)

    def __init__(self, level: Level | None = None) -> None:
        self._level = level

    def release(self) -> None:
        """Give the seat back, if that was not done yet."""
        level, self._level = self._level, None
        if level is not None:
            level.release()


class LevelShape(msgspec.Struct, frozen=True):
    """What a level may do."""

    own: int
    """Seats that no other level takes."""
    lent: int = 0
    """Seats that others may take while they are free."""
    most: int | None = None
    """Seats at most, borrowed ones included; None: no limit."""
    queues: int = 0
    """How many queues; 0: who finds no seat is refused."""
    hand: int = 1
    """How many queues a flow may use."""
    length: int = QUEUE
    """Requests that a queue holds."""


class SharedSeats:
    """The seats that all levels of a server lend."""

    def __init__(self, levels: Iterable[Level] = ()) -> None:
        self.levels = tuple(levels)

    def has_free(self) -> bool:
        """Whether one of them is free."""
        return sum(level.borrowed for level in self.levels) < sum(level.shape.lent for level in self.levels)

    def offer(self, returning: Level) -> None:
        """Give seats that became free to those who wait, first to where they came from."""
        returning.serve()
        for level in self.levels:
            level.serve()


class Level:
    """The seats and queues of one level."""

    def __init__(self, shape: LevelShape, *, wait: float = WAIT_SECONDS) -> None:
        self.shape = shape
        self.taken = 0
        self.rejected = 0
        self._wait = wait
        self._queues: dict[int, deque[asyncio.Future[None]]] = {}
        self._shared = SharedSeats((self,))

    def join(self, shared: SharedSeats) -> None:
        """Share with other levels."""
        self._shared = shared

    @property
    def borrowed(self) -> int:
        """Seats beyond its own that it has taken; what it lends and uses itself is among them."""
        return max(0, self.taken - self.shape.own)

    @property
    def waiting(self) -> int:
        """How many requests wait for a seat."""
        return sum(map(len, self._queues.values()))

    def acquire(self) -> bool:
        """Take a seat if one is free and no request waits."""
        if self._queues or not self._free():
            return False
        self.taken += 1
        return True

    async def queue_up(self, flow: str) -> None:
        """Wait for a seat and take it; requests of one ``flow`` share their queues.

        Raises:
            StatusError: 429, there is no queue, too many wait in it already, or no seat became free in time.
        """
        number = self._queue_of(flow)
        queue = self._queues.setdefault(number, deque()) if number is not None else None
        if number is None or queue is None or len(queue) >= self.shape.length:
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
                self._forget(number, turn)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                raise refused() from None
            raise

    def release(self) -> None:
        """Give the seat back, and to who waits."""
        self.taken -= 1
        self._shared.offer(self)

    def serve(self) -> None:
        """Let those in turn have the seats that are free."""
        while self._queues and self._free():
            number = next(iter(self._queues))
            queue = self._queues.pop(number)
            turn = queue.popleft()
            if queue:
                self._queues[number] = queue  # behind all others
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def _free(self) -> bool:
        if self.shape.most is not None and self.taken >= self.shape.most:
            return False
        return self.taken < self.shape.own or self._shared.has_free()

    def _queue_of(self, flow: str) -> int | None:
        """The shortest of the queues that a flow was dealt; None if there are none."""
        if not self.shape.queues:
            return None
        dealt = _hand(flow, self.shape.queues, self.shape.hand)
        return min(dealt, key=lambda number: len(self._queues.get(number, ())))

    def _forget(self, number: int, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(number)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[number]


def _hand(flow: str, queues: int, hand: int) -> list[int]:
    """So many different queues for a flow, always the same: shuffle sharding."""
    seed = int.from_bytes(hashlib.sha256(flow.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    left = list(range(queues))
    dealt = []
    for _ in range(min(hand, queues)):
        seed, position = divmod(seed, len(left))
        dealt.append(left.pop(position))
    return dealt
