"""Checks in the order in which an author of a driver meets them: `registration`, `slices`, `preparing`, `documents`,
`refusals`, `load`, `restarts`, `upgrades`, `nodes`, `features`, `health`. Each module ends with its checks.
"""

from __future__ import annotations

from typing import Final

from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.checks import (
    documents,
    features,
    health,
    load,
    nodes,
    preparing,
    refusals,
    registration,
    restarts,
    slices,
    upgrades,
)

__all__ = ["CHECKS"]

CHECKS: Final[tuple[PluginCheck, ...]] = (
    *registration.CHECKS,
    *slices.CHECKS,
    *preparing.CHECKS,
    *documents.CHECKS,
    *refusals.CHECKS,
    *load.CHECKS,
    *restarts.CHECKS,
    *upgrades.CHECKS,
    *nodes.CHECKS,
    *features.CHECKS,
    *health.CHECKS,
)
"""All checks, in the order of their execution."""
