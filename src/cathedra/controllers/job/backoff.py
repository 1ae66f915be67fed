"""The pause before pods that failed are replaced: it doubles with every failure since the last success.

The pods that failed may be gone by then, so their number and the time of the last one are remembered, as in Kubernetes
(``pkg/controller/job/backoff_utils.go``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Pod
from cathedra.controllers.job.pods import finish_time

__all__ = ["FIRST_FAILURE_DELAY", "LONGEST_FAILURE_DELAY", "PodFailures", "pause_after"]

FIRST_FAILURE_DELAY: Final = 10.0
LONGEST_FAILURE_DELAY: Final = 600.0


class PodFailures(msgspec.Struct, frozen=True):
    """Failures in a row, and when the last one ended (epoch seconds)."""

    count: int = 0
    last: float = 0.0

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod], now: float) -> PodFailures:
        """With the pods that have ended since; a success forgives what failed before it."""
        successes = sorted(finish_time(pod, now) for pod in succeeded)
        failures = sorted(finish_time(pod, now) for pod in failed)
        if not successes:
            return PodFailures(self.count + len(failures), failures[-1]) if failures else self
        failures = [end for end in failures if end > successes[-1]]
        return PodFailures(len(failures), failures[-1]) if failures else PodFailures()

    def pause(self, now: float) -> float:
        """Seconds until a pod may be created again."""
        return pause_after(self.count, self.last, now)


def pause_after(failures: int, last: float, now: float) -> float:
    """Seconds to wait after so many failures, of which the last one ended at ``last`` (epoch seconds)."""
    if failures == 0:
        return 0.0
    delay = min(FIRST_FAILURE_DELAY * 2.0 ** min(failures - 1, 10), LONGEST_FAILURE_DELAY)
    return max(0.0, last + delay - now)
