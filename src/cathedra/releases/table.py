"""The releases of Kubernetes that Cathedra knows, and their order."""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["NEWEST", "RELEASES", "order"]

RELEASES: Final = tuple(f"1.{minor}" for minor in range(26, 38))
"""Every release that can be chosen with ``--kubernetes-version``, oldest first."""

NEWEST: Final = RELEASES[-1]


@cache
def order(release: str) -> tuple[int, ...]:
    """Return the sort key of a release: ``1.9`` is older than ``1.36``."""
    return tuple(int(part) for part in release.split("."))
