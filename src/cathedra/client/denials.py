"""Requests of this process that the API server refused because their user lacks a right.

A part that lacks a right fails without harm to itself: its call raises, its work is retried, and nothing changes. So
every transport reports such refusals here, whatever the caller does with the error. Each is logged, counted, and shown
by ``/readyz?verbose`` of the part (docs/authorization.md).
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from cathedra.api.status import StatusError
from cathedra.clock import Clock

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_LOG = logging.getLogger(__name__)

REPEATED_SECONDS: Final = 600.0
"""Seconds for which a refusal is shown, and for which the same one is not logged again."""
MOST: Final = 256
"""Number of different rights that are kept; a part makes far fewer kinds of calls."""
_FORBIDDEN: Final = 403
_TEXT: Final = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) '
    r'(?:resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"|path "(?P<path>[^"]*)")'
)
"""The words of every Kubernetes API server. Refusals of admission plugins, as of a quota, have others."""


class MissingRight(NamedTuple):
    """A right that a user lacks; ``resource`` is a path for requests that name no resource."""

    user: str
    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        if self.resource.startswith("/"):
            return f'User "{self.user}" cannot {self.verb} path "{self.resource}"'
        return f'User "{self.user}" cannot {self.verb} resource "{self.resource}" in API group "{self.group}"'


class Denials:
    """The refusals of one process, by the right that was missing."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.counts: Counter[tuple[str, ...]] = Counter()
        """Number of refusals per `MissingRight`."""
        self._last: dict[MissingRight, float] = {}
        self._logged: dict[MissingRight, float] = {}

    def note(self, error: StatusError) -> None:
        """Count ``error`` if it is a refusal for want of a right, and log it unless the same one was logged lately."""
        if error.code != _FORBIDDEN or (found := _TEXT.search(error.status.message)) is None:
            return
        right = MissingRight(
            found["user"], found["verb"], found["group"] or "", found["resource"] or found["path"] or ""
        )
        if right not in self._last and len(self._last) >= MOST:
            return
        now = self._clock.monotonic()
        self.counts[right] += 1
        self._last[right] = now
        if right not in self._logged or now - self._logged[right] >= REPEATED_SECONDS:
            self._logged[right] = now
            _LOG.error("a request was refused for want of a right (%d so far): %s", self.counts[right], error)

    def lines(self) -> list[str]:
        """Return a line for each right that was missing in the last ten minutes, for ``/readyz?verbose``."""
        now = self._clock.monotonic()
        return [
            f"warning: {right}: refused {self.counts[right]} times, last {now - last:.0f} s ago"
            for right, last in sorted(self._last.items())
            if now - last < REPEATED_SECONDS
        ]

    def export(self, registry: CollectorRegistry) -> None:
        """Export the counts as ``cathedra_client_denied_requests_total``."""
        from cathedra.client.queuemetrics import export_counts  # start-up time: where metrics are served alone

        about = "Requests that the API server refused because their user lacks a right."
        export_counts(registry, "cathedra_client_denied_requests", about, MissingRight._fields, self.counts)
