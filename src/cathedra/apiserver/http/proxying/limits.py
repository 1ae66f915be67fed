"""Limits on requests that are passed on to other servers at the same time: logs, streams, ``proxy``, aggregated APIs.

Such a request takes two connections, holds no seat of flow control, and may last for days. Without limits one user's
streams would use up the connections of all others, so they are counted per user, per server behind, and over all.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cathedra.api.status import StatusError, too_many_requests

__all__ = ["PASSED_ON", "PassedRequests", "PassingLimits"]

_RETRY_SECONDS: Final = 1


@dataclass(frozen=True, slots=True)
class PassingLimits:
    """Numbers of requests that may be passed on at the same time."""

    of_user: int
    to_server: int
    total: int


PASSED_ON: Final = PassingLimits(of_user=128, to_server=512, total=1024)
"""kube-apiserver has no such limits but its file descriptors (docs/deviations.md). People have a few streams open, and
tools that follow the logs of all pods some dozens."""


class PassedRequests:
    """Counts the requests that are being passed on."""

    def __init__(self, limits: PassingLimits = PASSED_ON) -> None:
        self._limits = limits
        self._of_user: Counter[str] = Counter()
        self._to_server: Counter[str] = Counter()

    @contextlib.contextmanager
    def admitted(self, user: str, server: str) -> Iterator[None]:
        """Count a request of ``user`` to ``server`` for the duration of the block.

        Raises:
            StatusError: 429, there are too many; the message says of what.
        """
        self._check(user, server)
        self._of_user[user] += 1
        self._to_server[server] += 1
        try:
            yield
        finally:
            _decrease(self._of_user, user)
            _decrease(self._to_server, server)

    def _check(self, user: str, server: str) -> None:
        limits = self._limits
        if self._of_user[user] >= limits.of_user:
            raise _too_many(f"user {user!r} has {limits.of_user} logs and streams open: close some of them")
        if self._to_server[server] >= limits.to_server:
            raise _too_many(f"{limits.to_server} logs and streams of {server} are open: try again later")
        if self._of_user.total() >= limits.total:
            raise _too_many(f"{limits.total} logs and streams are open: try again later")


def _too_many(text: str) -> StatusError:
    return too_many_requests(f"Too many requests are being passed on: {text}", _RETRY_SECONDS)


def _decrease(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]
