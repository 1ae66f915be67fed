"""The checks, in the order in which an author of a driver meets them: `registration`, `slices`, `preparing`,
`documents`, `refusals`, `load`, `restarts`, `health`. Each module ends with its checks."""

from __future__ import annotations

from typing import Final

from cathedra.drivercheck.check import PluginCheck
from cathedra.drivercheck.checks import documents, health, load, preparing, refusals, registration, restarts, slices

__all__ = ["CHECKS"]

CHECKS: Final[tuple[PluginCheck, ...]] = (
    *registration.CHECKS,
    *slices.CHECKS,
    *preparing.CHECKS,
    *documents.CHECKS,
    *refusals.CHECKS,
    *load.CHECKS,
    *restarts.CHECKS,
    *health.CHECKS,
)
"""All checks."""
