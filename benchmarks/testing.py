"""The pytest fixture: how soon a test has its cluster, and how much a test of a few objects costs.

The first cluster of a process also loads the program; the others are what each test pays.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

Row = tuple[str, float, str, str | float | None, str | float | None]

RUNS = 5


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        began = time.perf_counter()
        # Imported here: that is what is measured.
        from cathedra.testing import ClusterOptions, DRACluster

        with DRACluster(ClusterOptions(), Path(folder) / "first"):
            yield "testing/pytest fixture, first of a process", time.perf_counter() - began, "s", None, None
        for profile in ("", "h100-8"):
            ready, ended = [], []
            for number in range(RUNS):
                began = time.perf_counter()
                with DRACluster(ClusterOptions(profile=profile), Path(folder) / f"{profile}-{number}") as cluster:
                    ready.append(time.perf_counter() - began)
                    cluster.list("pods")
                    began = time.perf_counter()
                ended.append(time.perf_counter() - began)
            kind = f" with profile {profile}" if profile else ""
            yield f"testing/pytest fixture ready{kind}", statistics.median(ready), "s", None, 0.5
            yield f"testing/pytest fixture ended{kind}", statistics.median(ended), "s", None, None
