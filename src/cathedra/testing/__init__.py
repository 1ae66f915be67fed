"""Whole clusters in tests: the fixtures of the pytest plugin, and their parts.

`plugin` is loaded by pytest; it imports nothing else of this program until a fixture is used. `cluster` is the object
of a test; `actions` runs its work on the cluster's own event loop, which runs in a thread of its own and whose time can
be advanced.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cathedra.testing.actions import NotInTime
    from cathedra.testing.cluster import AsyncDRACluster, DRACluster
    from cathedra.testing.options import ClusterOptions

__all__ = ["AsyncDRACluster", "ClusterOptions", "DRACluster", "NotInTime"]

_HOMES = {"AsyncDRACluster": "cluster", "ClusterOptions": "options", "DRACluster": "cluster", "NotInTime": "actions"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
