"""``cathedra logs``: the log of a cluster in the background, whole or of one part."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cathedra.cli.configuration import selected_data
from cathedra.cluster.process.logs import lines_of

__all__ = ["run"]

PAUSE: Final = 0.2
"""Seconds between reads of a followed file: the standard library has no notification of changes."""


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if there is no log."""
    data = selected_data(arguments)
    if not data.log.exists():
        print(
            f"there is no log in {data.path}: only clusters that were started with --detach write one", file=sys.stderr
        )
        return 1
    for line in lines_of(_lines(data.log, follow=arguments.follow), arguments.part or ""):
        print(line, flush=arguments.follow)
    return 0


def _lines(path: Path, *, follow: bool) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as log:
        rest = ""
        while True:
            for piece in log:
                rest += piece
                if rest.endswith("\n"):
                    yield rest.rstrip("\n")
                    rest = ""
            if not follow:
                break
            time.sleep(PAUSE)
    if rest:
        yield rest
