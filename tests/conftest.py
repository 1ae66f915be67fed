"""Fixtures and checks for every test."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option by which a second run leaves out what a first one has shown."""
    parser.addoption("--passed", metavar="FILE", help="skip the tests that FILE lists, and add those that pass to it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that the file of ``--passed`` lists."""
    file = _passed_file(config)
    if file is None or not file.exists():
        return
    passed = set(file.read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in passed])
    items[:] = [item for item in items if item.nodeid not in passed]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Append a test that passes to the file of ``--passed``: a line is one write, also with several processes."""
    report = yield
    file = _passed_file(item.config)
    if file is not None and report.when == "call" and report.passed:
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{item.nodeid}\n")
    return report


def _passed_file(config: pytest.Config) -> Path | None:
    file = config.getoption("--passed")
    # Not relative to the working directory, which a test may have changed when its report is made.
    return None if file is None else config.invocation_params.dir / file


def pytest_collection_finish() -> None:
    """Leave alone what the modules under test hold, and look for cycles in larger steps, as `cathedra up` does: with
    Python's own settings that was a seventh of the unit tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
