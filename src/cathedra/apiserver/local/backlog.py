"""Messages of a session that have arrived and are not begun, and how many of them are begun in one turn of the loop.

A frame may hold thousands of requests, each of which may list thousands of objects. Requests have a cost, and a turn
begins as many as its allowance lets it. The allowance halves when a turn took long and doubles when it did not.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from cathedra.client.local.frames import MOST_ASKED, MessageReader
from cathedra.client.local.messages import Attach, Cancel, FromClient, LocalRequest

__all__ = ["MOST_BEGUN", "TURN_SECONDS", "Backlog", "cost"]

MOST_BEGUN: Final = 256
"""Requests that are begun in one turn of the loop, at most: fewer if turns take long, as many as cost the same if they
are costly."""
TURN_SECONDS: Final = 0.01
"""For which a turn may take before fewer requests are begun in one."""
_COSTLY: Final = frozenset({"list", "watch", "deletecollection"})
_COST: Final = 16
"""Cost of such a request, where another one costs 1."""
_COST_BYTES: Final = 16 * 1024
"""Bytes of a body that cost as much as a request."""


def cost(message: Attach | LocalRequest | Cancel) -> int:
    """Return how much of a turn of the loop a message may take, where most take 1."""
    if not isinstance(message, LocalRequest):
        return 1
    return (_COST if message.verb in _COSTLY else 1) + len(message.body) // _COST_BYTES


class Backlog:
    """Messages in their order, read from bytes."""

    def __init__(self) -> None:
        self._reader = MessageReader(FromClient, MOST_ASKED)
        self._messages: deque[Attach | LocalRequest | Cancel] = deque()
        self._turn_ended = 0.0
        self.allowance = MOST_BEGUN // 4
        """Cost of what may be begun in the next turn."""

    def __len__(self) -> int:
        """Return how many messages have been read and are not begun."""
        return len(self._messages)

    def add(self, data: bytes) -> None:
        """Take what has arrived."""
        self._reader.add(data)

    def next(self) -> Attach | LocalRequest | Cancel | None:
        """Return the next message; None if there is none.

        Raises:
            FrameError: what has arrived is no message.
        """
        if not self._messages:
            batch = self._reader.take()
            if not batch:
                return None
            self._messages.extend(batch)
        return self._messages.popleft()

    def clear(self) -> None:
        """Drop everything."""
        self._messages.clear()
        self._reader = MessageReader(FromClient, MOST_ASKED)

    def end_turn(self, now: float) -> None:
        """Note the time at which a turn has used up its allowance; another one follows."""
        self._turn_ended = now

    def begin_turn(self, now: float) -> None:
        """Set the allowance of the next turn by how long the last one, with all that ran beside it, has taken."""
        if now - self._turn_ended > TURN_SECONDS:
            self.allowance = max(1, self.allowance // 2)
        else:
            self.allowance = min(MOST_BEGUN, self.allowance * 2)
