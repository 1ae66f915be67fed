"""The results for people, line by line, and for CI, as JUnit."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

from cathedra.drivercheck.check import PluginCheckResult

__all__ = ["junit", "line", "total"]

_SIGNS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


def line(result: PluginCheckResult) -> str:
    """One line for a check."""
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
