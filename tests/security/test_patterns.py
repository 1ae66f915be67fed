"""Regular expressions read what peers send in time that grows with its length, not with its square."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator

import pytest

import cathedra

LETTERS = '0aA-_. "\\:/=,%+(!*x1e'
EXTRAS = ("mcp", "mcp_types")
"""Modules of extras that are not installed for every Python."""
LENGTH = 20_000
BOUND = 1.0
"""Seconds of processor time: linear patterns need a few thousandths, quadratic ones several."""


def patterns() -> Iterator[tuple[str, re.Pattern[str] | re.Pattern[bytes]]]:
    for found in pkgutil.walk_packages(cathedra.__path__, "cathedra."):
        if "_proto" in found.name or found.name.endswith("__main__"):
            continue
        try:
            module = importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in EXTRAS:
                raise
            continue
        for name, value in vars(module).items():
            if isinstance(value, re.Pattern):
                yield f"{found.name}.{name}", value


@pytest.mark.timeout(60)
def test_no_pattern_backtracks_over_a_long_run_of_one_letter() -> None:
    seen: set[str] = set()
    slow: list[str] = []
    for name, pattern in patterns():
        if str(pattern.pattern) in seen:
            continue
        seen.add(str(pattern.pattern))
        started = time.process_time()
        for letter in LETTERS:
            text = letter * LENGTH + "\x00"
            if isinstance(pattern.pattern, bytes):
                re.fullmatch(pattern.pattern, text.encode(), pattern.flags)
            else:
                re.fullmatch(pattern.pattern, text, pattern.flags)
            if time.process_time() - started > BOUND:
                slow.append(f"{name} over {letter!r}")
                break
    assert len(seen) > 60
    assert slow == []
