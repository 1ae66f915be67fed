"""Counts of the processor's instructions by Valgrind's callgrind, for programs of Python.

Times depend on what else a machine does: two runs of one version differ by a third on a shared one. Instructions differ
by up to 4 %, so a smaller difference of two versions needs several runs. They are those of the whole process without
the kernel. Misses of caches are not in them: of two equal numbers, the larger heap is slower.
"""

from __future__ import annotations

import bisect
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

_HERE: Final = Path(__file__).parent.parent
_PROFILE: Final = "calls"


class Cost(msgspec.Struct, frozen=True):
    """What one function costs each unit of work, such as a pod."""

    function: str
    calls: float
    instructions: float
    """With those of all functions that it calls or awaits."""


class Count(msgspec.Struct, frozen=True):
    """Instructions for each unit of work."""

    total: float
    functions: tuple[Cost, ...]
    """By cost; empty unless functions were counted."""

    def show(self, number: int) -> None:
        """Print the functions that cost most."""
        for cost in self.functions[:number]:
            print(f"{cost.instructions / 1000:12,.1f} {cost.calls:8.1f} calls  {cost.function}")


class Program:
    """A program of Python under Valgrind, which counts nothing until `begin_count`.

    Its profile is written to ``folder``. With ``source``, it runs the modules of the package cathedra in that folder.

    Raises:
        RuntimeError: Valgrind is missing.
    """

    def __init__(
        self, folder: Path, arguments: Sequence[str], source: Path | None = None, *, functions: bool = False
    ) -> None:
        if shutil.which("valgrind") is None:
            raise RuntimeError("valgrind is missing: apt-get install valgrind")
        self._folder = folder
        self._functions = functions
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / _PROFILE}"]
        command += [sys.executable, *(["-X", "perf"] if functions else []), *arguments]
        # This checkout's package by default, whichever the interpreter has installed.
        paths = [str(source or _HERE / "src"), str(_HERE)]
        # Strings hash differently in each process otherwise, and dictionaries take other numbers of steps.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def printed(self) -> str:
        """Return what it has printed so far, among Valgrind's own lines."""
        return (self._folder / "log").read_text()

    def count(self, work: int, number: int = 1) -> Count:
        """Return the ``number``-th profile, for each of ``work`` units. Call it after its `end_count`."""
        perf_map = Path(f"/tmp/perf-{self.process.pid}.map")  # Python chooses this name
        text = (self._folder / f"{_PROFILE}.{number}").read_text()
        return read_profile(text, perf_map.read_text() if self._functions else "", work)

    def close(self) -> None:
        """End the program, and remove what Python left."""
        self.process.terminate()
        self.process.wait()
        Path(f"/tmp/perf-{self.process.pid}.map").unlink(missing_ok=True)


def begin_count(process: int) -> None:
    """Begin to count instructions of a process under Valgrind."""
    _control(process, "-i", "on")


def end_count(process: int) -> None:
    """Write the counts of a process since `begin_count` to its next profile, and stop counting."""
    # A dump alone would go on: counts of what follows would be in the profile that is written at the end.
    _control(process, "-d")
    _control(process, "-i", "off")


def _control(process: int, *options: str) -> None:
    subprocess.run(["callgrind_control", *options, str(process)], check=True, capture_output=True)


class _Trampolines:
    """Names of Python functions by the addresses of their trampolines."""

    def __init__(self, text: str) -> None:
        lines = sorted((int(line.split()[0], 16), line) for line in text.splitlines())
        self._starts = [start for start, _ in lines]
        self._lines = [line for _, line in lines]

    def name(self, function: str) -> str:
        """Return ``module:qualified name`` of a function that callgrind calls by its address; empty for others."""
        if not function.startswith("0x"):
            return ""
        address = int(function.partition("'")[0], 16)
        index = bisect.bisect(self._starts, address) - 1
        if index < 0:
            return ""
        size, called = self._lines[index].split(" ", 2)[1:]
        if address >= self._starts[index] + int(size, 16):
            return ""
        qualified, _, path = called.removeprefix("py::").rpartition(":")
        return f"{re.split('/src/|/site-packages/|/lib/python[0-9.]+/', path)[-1]}:{qualified}"


def read_profile(text: str, perf_map: str, work: int) -> Count:
    """Read a profile in callgrind's format. ``perf_map`` is Python's list of its trampolines, or empty."""
    trampolines = _Trampolines(perf_map)
    names: dict[str, str] = {}
    calls: Counter[str] = Counter()
    costs: Counter[str] = Counter()
    called, total, times = "", 0, 0
    for line in text.splitlines():
        if found := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            # A name is written once, and its number from then on.
            if found[3]:
                names[found[2]] = trampolines.name(found[3])
            called = names[found[2]] if found[1] else called
        elif line.startswith("calls="):
            times = int(line.removeprefix("calls=").split()[0])
        elif re.match(r"[-+*\d]\S* \d", line):
            number = int(line.split()[1])
            if not times:
                total += number
            elif called:
                calls[called] += times
                costs[called] += number
            times = 0
    functions = [Cost(name, calls[name] / work, number / work) for name, number in costs.most_common()]
    return Count(total / work, tuple(functions))
