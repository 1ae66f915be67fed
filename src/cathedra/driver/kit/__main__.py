"""``python -m cathedra.driver.kit MODULE:DRIVER``: does a driver keep the contract? Exit code 1 if not."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from cathedra.driver.errors import OptionError
from cathedra.driver.kit.conformance import check_driver
from cathedra.driver.loading import load_maker

_SIGNS = {"passed": "ok  ", "failed": "FAIL", "skipped": "skip"}


def main(arguments: list[str]) -> int:
    """Run all checks; one line for each."""
    if len(arguments) != 1:
        print(
            "usage: python -m cathedra.driver.kit MODULE:DRIVER (a class, or a function that makes one)",
            file=sys.stderr,
        )
        return 2
    try:
        make_driver = load_maker(arguments[0])
    except OptionError as error:
        print(error, file=sys.stderr)
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
