"""One thing that a driver must do, and how it went."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from cathedra.api.status import StatusError
from cathedra.clock import Clock
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.errors import CheckFailed, CheckSkipped, DriverCheckError
from cathedra.node.plugins.client import PluginCallError

__all__ = ["PluginCheck", "PluginCheckResult", "examine", "junit", "line", "total"]


@dataclass(frozen=True, slots=True)
class PluginCheck:
    """A check: its ``rule`` in one sentence, and the ``source`` of the rule."""

    name: str
    rule: str
    source: str
    run: Callable[[Bench], Awaitable[None]]


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


# --- report


_SIGNS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


def line(result: PluginCheckResult) -> str:
    """One line for a check."""
    # One line per check, so that output can be filtered.
    reason = f": {' '.join(result.reason.split())}" if result.reason else ""
    return f"{_SIGNS[result.outcome]} {result.check.name} – {result.check.rule} ({result.check.source}){reason}"


def total(results: Sequence[PluginCheckResult]) -> str:
    """All of them in one line."""
    counts = {outcome: sum(one.outcome == outcome for one in results) for outcome in _SIGNS}
    return f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"


def junit(driver: str, results: Sequence[PluginCheckResult]) -> bytes:
    """The results as a JUnit document, which CI systems show."""
    suite = ElementTree.Element(
        "testsuite",
        name=driver,
        tests=str(len(results)),
        failures=str(sum(one.outcome == "failed" for one in results)),
        skipped=str(sum(one.outcome == "skipped" for one in results)),
        time=f"{sum(one.seconds for one in results):.3f}",
    )
    for one in results:
        case = ElementTree.SubElement(
            suite, "testcase", classname=driver, name=one.check.name, time=f"{one.seconds:.3f}"
        )
        if one.outcome == "failed":
            ElementTree.SubElement(case, "failure", message=one.reason).text = f"{one.check.rule} ({one.check.source})"
        elif one.outcome == "skipped":
            ElementTree.SubElement(case, "skipped", message=one.reason)
    return b"<?xml version='1.0' encoding='utf-8'?>\n" + ElementTree.tostring(suite, encoding="unicode").encode()
