"""``python -m cathedra.driver.kit MODULE:DRIVER``: does a driver keep the contract? Exit code 1 if not."""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cathedra.driver.kit.conformance import check_driver

_SIGNS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


def main(arguments: list[str]) -> int:
    """Run all checks; one line for each."""
    if len(arguments) != 1 or ":" not in arguments[0]:
        print(
            "usage: python -m cathedra.driver.kit MODULE:DRIVER (a class, or a function that makes one)",
            file=sys.stderr,
        )
        return 2
    module, _, name = arguments[0].partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        make_driver: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        print(f"{arguments[0]}: {error}", file=sys.stderr)
        return 2
    # The checks provoke errors; what matters of them stands in the verdicts.
    with _silenced(logging.getLogger("cathedra")):
        verdicts = asyncio.run(check_driver(make_driver))
    for verdict in verdicts:
        reason = f" ({verdict.reason})" if verdict.reason else ""
        print(f"{_SIGNS[verdict.outcome]} {verdict.check.name}: {verdict.check.rule}{reason}")
    failed = sum(verdict.outcome == "failed" for verdict in verdicts)
    print(f"{len(verdicts) - failed} of {len(verdicts)} kept")
    return 1 if failed else 0


@contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
