"""Pauses between retries: exponential delays and token buckets.

The clock is passed in, so that they behave the same in virtual time.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from cathedra.clock import Clock

K = TypeVar("K", bound=Hashable)


class ExponentialBackoff:
    """Delays that grow with every failure in a row and start over after a quiet time. Seconds."""

    def __init__(self, clock: Clock, *, base: float, factor: float, maximum: float, reset_after: float) -> None:
        self._clock = clock
        self._base, self._factor, self._maximum, self._reset_after = base, factor, maximum, reset_after
        self._next = base
        self._last = clock.monotonic()

    def delay(self) -> float:
        """Return the delay for one more failure."""
        now = self._clock.monotonic()
        # Only a quiet time counts as recovery. Resetting after each success would let a flapping connection retry at
        # full speed.
        if now - self._last > self._reset_after:
            self._next = self._base
        self._last = now
        delay = self._next
        self._next = min(delay * self._factor, self._maximum)
        return delay


class DoublingPauses:
    """Pauses between the attempts of one action, in seconds: each is twice the one before, up to ``longest``.

    Unlike `ExponentialBackoff` it has no clock: the caller waits for a timer or for an event, and calls `reset` after
    a success.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first, self._longest = first, longest
        self._next = first

    def take(self) -> float:
        """Return the pause before the next attempt, and double the one after it."""
        pause = self._next
        self._next = min(pause * 2, self._longest)
        return pause

    def reset(self) -> None:
        """Start over with the first pause."""
        self._next = self._first


class ItemBackoff(Generic[K]):
    """A doubling delay per item: ``base`` after its first failure, never more than ``maximum`` seconds."""

    def __init__(self, *, base: float = 0.005, maximum: float = 1000.0) -> None:
        self._base, self._maximum = base, maximum
        self._failures: dict[K, int] = {}
        self.failing: Mapping[K, int] = self._failures
        """Number of failures of each item since its last reset."""

    def delay(self, item: K) -> float:
        """Count a failure of ``item`` and return its delay."""
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        # The exponent is bounded so that an item that fails for ever does not overflow a float.
        return min(self._base * 2.0 ** min(failures, 64), self._maximum)

    def failures(self, item: K) -> int:
        """Return the number of failures of ``item`` since its last reset."""
        return self._failures.get(item, 0)

    def forget(self, item: K) -> None:
        """Reset ``item`` after a success."""
        self._failures.pop(item, None)


class DatedBackoff(Generic[K]):
    """A pause per item that doubles with every failure; after twice the longest pause without one it starts over.

    Source: client-go ``util/flowcontrol/backoff.go``.
    """

    def __init__(self, clock: Clock, *, base: float, maximum: float) -> None:
        self._clock, self._base, self._maximum = clock, base, maximum
        self._pauses: dict[K, tuple[float, float]] = {}
        """The pause of each item and when it began."""

    def pause(self, item: K) -> float:
        """Return the seconds that ``item`` still has to wait."""
        pause, since = self._pauses.get(item, (0.0, 0.0))
        return max(0.0, since + pause - self._clock.monotonic())

    def failed(self, item: K) -> None:
        """Count a failure of ``item``: its pause begins."""
        now = self._clock.monotonic()
        # Items that vanished, as deleted pods, never succeed and would stay here for ever.
        self._pauses = {known: kept for known, kept in self._pauses.items() if now - kept[1] <= 2 * self._maximum}
        pause, _ = self._pauses.get(item, (self._base / 2, now))
        self._pauses[item] = (min(2 * pause, self._maximum), now)


class TokenBucket:
    """Rate limit: ``burst`` at once and then ``rate`` per second."""

    def __init__(self, clock: Clock, *, rate: float, burst: int) -> None:
        self._clock = clock
        self._rate, self._burst = rate, burst
        self._tokens = float(burst)
        self._last = clock.monotonic()

    def reserve(self) -> float:
        """Take a token, if necessary a future one. Return the seconds until it is valid."""
        self._refill()
        # May become negative: the tokens of the future are given out in order, so that waiting callers are spread
        # evenly.
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate)

    def take(self) -> bool:
        """Take a token if there is one now."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
