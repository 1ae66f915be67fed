"""When an evaluation is stopped, whatever it has cost: the processor time that one request may take.

Kubernetes' cost limits count units that its own machine code runs through in about a second; the same units may take
Python ten times as long, and the server has one event loop. So an evaluation also ends when its request has used up its
share of processor time, as Kubernetes' ends with the request's deadline. A busy machine does not count: processor time
is that of the thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["CPULimit"]

_BETWEEN = 0.02
"""Seconds between two looks at the processor time, which costs ten times as much as a look at the clock."""


class CPULimit:
    """Says whether more than ``seconds`` of the thread's processor time have passed since it was made."""

    __slots__ = ("_cpu", "_end", "_monotonic", "_next")

    def __init__(
        self,
        seconds: float = 1.0,
        *,
        cpu: Callable[[], float] = time.thread_time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cpu, self._monotonic = cpu, monotonic
        self._end = cpu() + seconds
        self._next = monotonic() + _BETWEEN

    def __call__(self) -> bool:
        now = self._monotonic()
        if now < self._next:
            return False
        self._next = now + _BETWEEN
        return self._cpu() > self._end
