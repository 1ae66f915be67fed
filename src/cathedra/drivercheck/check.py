"""Checks of a driver, and their execution one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from cathedra.api.status import StatusError
from cathedra.clock import Clock
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped, DriverCheckError
from cathedra.node.plugins.client import PluginCallError

LEVELS: Final = ("core", "partitionable", "shared capacity", "metadata", "health")
"""Levels of conformance: ``core`` for every driver, the others for drivers that offer the feature."""


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """A check: its ``rule`` in one sentence, the ``source`` of the rule, and the level to which it belongs."""

    name: str
    rule: str
    source: str
    run: Callable[[Bench], Awaitable[None]]
    level: str = "core"


@dataclass(frozen=True, slots=True)
class PluginCheckResult:
    """Result of a check: ``passed``, ``failed`` or ``skipped``, the reason, and its duration in seconds."""

    check: PluginCheck
    outcome: str
    seconds: float
    reason: str = ""


_CHECK_SECONDS: Final = 300.0
"""Longer than any driver may take: five calls that a kubelet would give up."""


async def examine(bench: Bench, checks: Sequence[PluginCheck], clock: Clock) -> AsyncIterator[PluginCheckResult]:
    """Run the checks in order, and yield each result at once; the claims of a check are unprepared after it."""
    for check in checks:
        began = clock.monotonic()
        outcome, reason = await _run(check, bench)
        yield PluginCheckResult(check, outcome, clock.monotonic() - began, reason)


async def _run(check: PluginCheck, bench: Bench) -> tuple[str, str]:
    try:
        # A driver that hangs fails this check and not those after it.
        async with asyncio.timeout(_CHECK_SECONDS):
            await check.run(bench)
    except CheckSkipped as reason:
        return "skipped", str(reason)
    except (CheckFailed, DriverCheckError, PluginCallError, StatusError) as error:
        return "failed", str(error)
    except TimeoutError:
        return "failed", f"it took more than {_CHECK_SECONDS:g} s"
    finally:
        # In a finally clause: claims that a failed check leaves prepared would make later checks fail for the wrong
        # reason.
        await bench.tidy()
    return "passed", ""
