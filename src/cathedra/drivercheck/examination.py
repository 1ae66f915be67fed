"""All checks, one after another, on one driver."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from cathedra.api.status import StatusError
from cathedra.clock import Clock
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck, PluginCheckResult
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped, DriverCheckError
from cathedra.node.plugins.client import PluginCallError

__all__ = ["examine"]

_CHECK_SECONDS: Final = 300.0
"""Longer than any driver may take: five calls that a kubelet would give up."""


async def examine(bench: Bench, checks: Sequence[PluginCheck], clock: Clock) -> AsyncIterator[PluginCheckResult]:
    """Run the checks in order, and yield each result as it comes; claims of a check are let go after it."""
    for check in checks:
        began = clock.monotonic()
        outcome, reason = await _run(check, bench)
        yield PluginCheckResult(check, outcome, clock.monotonic() - began, reason)


async def _run(check: PluginCheck, bench: Bench) -> tuple[str, str]:
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            await check.run(bench)
    except CheckSkipped as reason:
        return "skipped", str(reason)
    except (CheckFailed, DriverCheckError, PluginCallError, StatusError) as error:
        return "failed", str(error)
    except TimeoutError:
        return "failed", f"it took more than {_CHECK_SECONDS:g} s"
    finally:
        await bench.tidy()
    return "passed", ""
