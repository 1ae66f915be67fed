"""Limit of the processor time of an evaluation.

Kubernetes' cost limits correspond to about a second of its own code. The same cost may take Python ten times as long,
and the server has one event loop. An evaluation therefore also ends when its request has used its processor time, as
Kubernetes' ends at the request's deadline. The time is that of the thread, so a busy machine does not shorten it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cathedra.deadline import thread_time

_BETWEEN = 0.02
"""Seconds between two readings of the processor time, which cost ten times as much as reading the clock."""


class CPULimit:
    """Returns True when more than ``seconds`` of the thread's processor time have passed since it was created."""

    __slots__ = ("_cpu", "_end", "_monotonic", "_next")

    def __init__(
        self,
        seconds: float = 1.0,
        *,
        cpu: Callable[[], float] = thread_time,
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
