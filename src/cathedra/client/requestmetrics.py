"""HTTP requests of a part to the API server, under client-go's names.

Messages of sessions are no HTTP requests, so a part that uses a session shows few.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from cathedra.clock import Clock
from cathedra.exposition import Family
from cathedra.histogram import Histogram
from cathedra.releases.metrics import metric

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

NO_ANSWER: Final = "<error>"
"""The code of a request that has no answer."""
_BUCKETS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)


class RequestMetrics:
    """Numbers and durations of requests."""

    def __init__(self, clock: Clock) -> None:
        self.monotonic = clock.monotonic
        """Returns the monotonic time in seconds."""
        self._results: Counter[tuple[str, str, str]] = Counter()
        self._durations: dict[tuple[str, str], Histogram] = defaultdict(lambda: Histogram(_BUCKETS))

    def answered(self, code: str, method: str, host: str) -> None:
        """Count a request by its status code, or `NO_ANSWER`."""
        self._results[code, method, host] += 1

    def took(self, method: str, host: str, seconds: float) -> None:
        """Add the duration of a request that is no watch."""
        self._durations[method, host].add(seconds)

    def collect(self) -> Iterator[Any]:
        """Yield the number of requests, and the histogram of their durations."""
        results = Family(metric("rest_client_requests_total"))
        for labels, number in sorted(self._results.items()):
            results.add(labels, number)
        yield results
        durations = Family(metric("rest_client_request_duration_seconds"))
        for verb_and_host, histogram in sorted(self._durations.items()):
            durations.add_histogram(verb_and_host, histogram)
        yield durations

    def export(self, registry: CollectorRegistry) -> None:
        """Show them at ``/metrics`` of the part."""
        registry.register(self)
