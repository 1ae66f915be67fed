"""One thing that a driver must do, and how it went."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cathedra.drivercheck.bench import Bench

__all__ = ["PluginCheck", "PluginCheckResult"]


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """``rule`` says it in a sentence; ``source`` where it stands."""

    name: str
    rule: str
    source: str
    run: Callable[[Bench], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class PluginCheckResult:
    """How a check went: ``passed``, ``failed`` or ``skipped``, why, and in how many seconds."""

    check: PluginCheck
    outcome: str
    seconds: float
    reason: str = ""
