"""The package: size of the wheel, time to install it into an empty environment, and time of ``cathedra --help``.

The installation includes the dependencies; pip takes them from its cache after the first one.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

Row = tuple[str, float, str, str | float | None, str | float | None]

ROOT: Final = Path(__file__).parents[1]
RUNS: Final = 7


def rows() -> Iterator[Row]:
    """The rows of ``make bench``."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        seconds([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder])
        (wheel,) = Path(folder).glob("*.whl")
        yield "package/wheel", wheel.stat().st_size / 1024**2, "MiB", None, None
        environment = Path(folder, "environment")
        seconds([sys.executable, "-m", "venv", "--without-pip", str(environment)])
        install = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install", "-q"]
        yield "package/pip install, with dependencies", seconds([*install, str(wheel)]), "s", None, None
        cathedra = str(environment / "bin" / "cathedra")
        times = [seconds([cathedra, "--help"]) for _ in range(RUNS)]
        yield "package/cathedra --help", statistics.median(times), "s", None, 0.15


def seconds(command: Sequence[str]) -> float:
    """Return the time that the command takes."""
    began = time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return time.perf_counter() - began
