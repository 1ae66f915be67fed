"""Fixtures and checks for every test."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# In the background of a shell without job control the suite ignores interrupts, and so would all programs that tests
# start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: a change is judged by what it changed. `make fuzz` looks for others. How long an
# example takes is no fault of the code on a machine that is busy.
settings.register_profile("repeatable", derandomize=True, suppress_health_check=(HealthCheck.too_slow,), deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def log_level() -> Iterator[None]:
    """Take back the log level that a command sets for its process: later tests read the log."""
    log = logging.getLogger("cathedra")
    before = log.level
    yield
    log.setLevel(before)


def pytest_collection_finish() -> None:
    """Leave alone what the modules under test hold, and look for cycles in larger steps, as `cathedra up` does: with
    Python's own settings that was a seventh of the unit tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
