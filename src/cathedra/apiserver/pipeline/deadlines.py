"""Deadlines of requests: their ``timeout``, and a minute at most (docs/spec/kubectl.md §1)."""

from __future__ import annotations

import asyncio
import re
from types import TracebackType
from typing import Final, Self

from cathedra.api.goquote import go_quote
from cathedra.api.status import bad_request

REQUEST_SECONDS: Final = 60.0
"""Limit of a whole request in seconds, the arrival of its body included: a client that sends byte by byte holds its
seat no longer.
"""

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST: Final = 128
"""Limit of a duration in letters. To parse longer ones would take time that no deadline ends."""
_MOST_SECONDS: Final = (1 << 63) / 1e9
"""Limit of a Go duration, 64 bits of nanoseconds, in seconds."""
_TICK: Final = 0.002
"""Seconds by which a timer of the loop may come early: it counts in milliseconds."""
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def deadline_of(text: str) -> float:
    """Return the seconds that a request has; "" and zero mean the limit of the server.

    Raises:
        StatusError: 400, the text is no duration.
    """
    if not text:
        return REQUEST_SECONDS
    seconds = _seconds(text)
    if seconds is None:
        shown = go_quote(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        raise bad_request(f"invalid timeout specified in the request URL - time: invalid duration {shown}")
    # A client may shorten its deadline and not lengthen it, or a slow body could hold its seat for hours.
    return min(seconds, REQUEST_SECONDS) if seconds > 0 else REQUEST_SECONDS


def _seconds(text: str) -> float | None:
    if len(text) > _LONGEST:
        return None
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part[0] for part in parts) != rest:
        return None
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    return sign * seconds if seconds < _MOST_SECONDS else None


class Deadlines:
    """Cancels requests that take too long, with one timer for all requests of a server.

    `asyncio.timeout` sets a timer of the loop for each request and cancels it when the request is done, which nearly
    always takes less than a hundredth of its time. This timer fires when the first deadline could be over, and then
    checks all of them."""

    def __init__(self) -> None:
        self._under_way: dict[_Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of all requests; it is kept because finding the running loop is a system call."""

    def within(self, seconds: float) -> _Deadline:
        """Return a context that cancels the current task after ``seconds``, and then raises a `TimeoutError`."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return _Deadline(self, self._loop, seconds)

    def enter(self, deadline: _Deadline) -> None:
        """Add the deadline of a request that begins."""
        self._under_way[deadline] = None
        timer = self._timer
        # Nearly all requests have the same timeout, so a later request never moves the timer.
        if timer is None or deadline.at < timer.when():
            self._set_timer(deadline.at)

    def leave(self, deadline: _Deadline) -> None:
        """Remove a deadline. The timer stays: the next request needs it."""
        # Not `del`: an expired deadline has been removed already.
        self._under_way.pop(deadline, None)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + _TICK
        # A copy: an expired request removes itself.
        for deadline in [one for one in self._under_way if one.at <= now]:
            del self._under_way[deadline]
            deadline.expire()
        if self._under_way:
            self._set_timer(min(one.at for one in self._under_way))


class _Deadline:
    """The deadline of one request."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task", "at")

    def __init__(self, deadlines: Deadlines, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        task = asyncio.current_task(loop)
        assert task is not None  # a request is answered by a task
        self._deadlines = deadlines
        self._task = task
        # Cancellations that were requested before this context began are not its own. Without the count a shutdown of
        # the server would be reported as a timeout.
        self._cancelling = task.cancelling()
        self._expired = False
        self.at = loop.time() + seconds
        """The time of its end, by the clock of the loop."""

    def expire(self) -> None:
        """Cancel the task of the request."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        self._deadlines.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.leave(self)
        # A cancellation from elsewhere goes on, even when it came together with this one.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
