"""Metrics of a driver.

The SDK calls an `Observer`; `PrometheusMetrics` implements it for scrapes. Without one nothing is counted
(docs/spec/driver-sdk.md §17.6 and §19).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

RESULTS = ("success", "error")


class Observer(Protocol):
    """An observer of the driver."""

    def prepared(self, result: str, seconds: float) -> None:
        """Note that a claim was prepared, or was not: ``success`` or ``error``."""

    def unprepared(self, result: str, seconds: float) -> None:
        """Note that a claim was unprepared, or was not: ``success`` or ``error``."""

    def background_error(self, *, recoverable: bool) -> None:
        """Note that a task in the background failed."""


class FabricObserver(Protocol):
    """An observer of the controller of a fabric driver."""

    def attached(self, result: str, seconds: float) -> None:
        """Note that a device was attached, or was not: ``success``, ``error``, or ``retry`` if it will be tried
        again."""

    def detached(self, result: str, seconds: float) -> None:
        """Note that a device was detached, or was not yet: ``success`` or ``error``."""


class Silent:
    """Observer that counts nothing."""

    def prepared(self, result: str, seconds: float) -> None:
        """Ignore it: nothing is counted."""

    def unprepared(self, result: str, seconds: float) -> None:
        """Ignore it: nothing is counted."""

    def background_error(self, *, recoverable: bool) -> None:
        """Ignore it: nothing is counted."""

    def attached(self, result: str, seconds: float) -> None:
        """Ignore it: nothing is counted."""

    def detached(self, result: str, seconds: float) -> None:
        """Ignore it: nothing is counted."""


class PrometheusMetrics:
    """Counters and durations in a Prometheus registry; counters exist with 0 from the start."""

    def __init__(self, registry: CollectorRegistry, prefix: str = "dra_driver") -> None:
        """``prefix`` begins every metric's name, for example ``dra_example_driver``."""
        from prometheus_client import Counter, Histogram  # only for drivers that are measured

        self._prepared = Counter(
            f"{prefix}_prepare_claims_total", "Claims prepared, by result.", ["result"], registry=registry
        )
        self._prepare_seconds = Histogram(
            f"{prefix}_prepare_claim_duration_seconds", "Time to prepare one claim.", registry=registry
        )
        self._unprepared = Counter(
            f"{prefix}_unprepare_claims_total", "Claims unprepared, by result.", ["result"], registry=registry
        )
        self._unprepare_seconds = Histogram(
            f"{prefix}_unprepare_claim_duration_seconds", "Time to unprepare one claim.", registry=registry
        )
        self._fatal = Counter(
            f"{prefix}_fatal_background_errors_total", "Errors that ended the driver.", registry=registry
        )
        for result in RESULTS:
            self._prepared.labels(result)
            self._unprepared.labels(result)

    def prepared(self, result: str, seconds: float) -> None:
        """Count a prepared claim."""
        self._prepared.labels(result).inc()
        self._prepare_seconds.observe(seconds)

    def unprepared(self, result: str, seconds: float) -> None:
        """Count an unprepared claim."""
        self._unprepared.labels(result).inc()
        self._unprepare_seconds.observe(seconds)

    def background_error(self, *, recoverable: bool) -> None:
        """Count a fatal error."""
        if not recoverable:
            self._fatal.inc()


class FabricMetrics:
    """Metrics of a `FabricController` in a Prometheus registry; counters start at 0."""

    def __init__(self, registry: CollectorRegistry, prefix: str = "dra_driver") -> None:
        """``prefix`` begins every metric's name."""
        from prometheus_client import Counter, Histogram  # only for drivers that are measured

        self._attached = Counter(
            f"{prefix}_attach_devices_total", "Attempts to attach a device, by result.", ["result"], registry=registry
        )
        self._attach_seconds = Histogram(
            f"{prefix}_attach_device_duration_seconds", "Time of one attempt to attach a device.", registry=registry
        )
        self._detached = Counter(
            f"{prefix}_detach_devices_total", "Attempts to detach a device, by result.", ["result"], registry=registry
        )
        self._detach_seconds = Histogram(
            f"{prefix}_detach_device_duration_seconds", "Time of one attempt to detach a device.", registry=registry
        )
        for result in RESULTS:
            self._attached.labels(result)
            self._detached.labels(result)
        self._attached.labels("retry")

    def attached(self, result: str, seconds: float) -> None:
        """Count an attempt to attach a device."""
        self._attached.labels(result).inc()
        self._attach_seconds.observe(seconds)

    def detached(self, result: str, seconds: float) -> None:
        """Count an attempt to detach a device."""
        self._detached.labels(result).inc()
        self._detach_seconds.observe(seconds)
