"""Instructions of the processor that a pod takes, counted by Valgrind's callgrind.

Times depend on what else a machine does: two runs of one version differ by a third on a shared one. Instructions differ
by less than 1 %, so two versions can be compared in a minute. They are those of the whole process, with the store's
thread, without the kernel. Misses of caches are not in them: of two equal numbers, the larger heap is slower.

    python -m benchmarks.instructions [--source OTHER/src] [NAME ...]
    python -m benchmarks.instructions --functions 60 half_500

The second form needs Python 3.12 or later, whose trampolines give each Python function an address. It prints the
functions that cost most, with all that they call and await. Calls are slower there than otherwise.
"""

from __future__ import annotations

import argparse
import bisect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from benchmarks.scheduler import WORKLOADS
from benchmarks.scheduler.running import Bound, create_pods, furnish, replace_bound
from benchmarks.scheduler.staging import Arrangement, stage
from benchmarks.scheduler.workloads import Workload
from cathedra.client.client import Client
from cathedra.cluster.parts.gctuning import suspend_collection, tune_collection

NAMES: Final = ("SchedulingBasic/500Nodes", "ClaimTemplate/2000pods_100nodes", "ClaimTemplate/half_500nodes")
"""Workloads that are counted unless others are named."""
WARM: Final = 100
"""Pods before the count begins: memos and caches fill."""
COUNTED: Final = 300
"""Pods that are counted."""
_HERE: Final = Path(__file__).parent.parent


class Cost(msgspec.Struct, frozen=True):
    """What one function costs each pod."""

    function: str
    calls: float
    instructions: float
    """With those of all functions that it calls or awaits."""


class Count(msgspec.Struct, frozen=True):
    """Instructions for each pod of a workload."""

    total: float
    functions: tuple[Cost, ...]
    """By cost; empty unless functions were counted."""


def count(workload: Workload, source: Path | None = None, *, functions: bool = False) -> Count:
    """Run a workload under Valgrind, with the modules of another checkout in ``source`` if there is one.

    Raises:
        RuntimeError: Valgrind is missing, or the workload failed.
    """
    if shutil.which("valgrind") is None:
        raise RuntimeError("valgrind is missing: apt-get install valgrind")
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        output = Path(folder, "calls")
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}"]
        command += [sys.executable, *(["-X", "perf"] if functions else [])]
        command += ["-m", "benchmarks.instructions", "--counted", workload.name]
        paths = [str(path) for path in (source, _HERE) if path is not None]
        # Strings hash differently in each process otherwise, and dictionaries take other numbers of steps.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONHASHSEED": "0"}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        done = re.search(r"^counted (\d+) pods in process (\d+)$", ran.stdout, re.MULTILINE)
        if done is None:
            raise RuntimeError(f"{workload.name} failed under Valgrind: {ran.stderr[-2000:]}")
        pods = int(done[1])
        perf_map = Path(f"/tmp/perf-{done[2]}.map")  # Python chooses this name
        try:
            return read_profile(Path(folder, "calls.1").read_text(), perf_map.read_text() if functions else "", pods)
        finally:
            perf_map.unlink(missing_ok=True)


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


def read_profile(text: str, perf_map: str, pods: int) -> Count:
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
    functions = [Cost(name, calls[name] / pods, number / pods) for name, number in costs.most_common()]
    return Count(total / pods, tuple(functions))


# --- under Valgrind -----------------------------------------------------------------------------------------------


def _control(*options: str) -> None:
    subprocess.run(["callgrind_control", *options, str(os.getpid())], check=True, stdout=subprocess.DEVNULL)


async def _run(workload: Workload) -> int:
    """Run the workload, and return how many pods were counted."""
    suspend_collection()
    async with stage(Arrangement.ONE) as found:
        await furnish(found.client, workload)
        bound = Bound(found.informers)
        tune_collection()
        if not workload.steady:
            await _burst(found.client, workload, bound, range(WARM))
            _control("-i", "on")
            await _burst(found.client, workload, bound, range(WARM, WARM + COUNTED))
            _control("-d")
            return COUNTED
        await create_pods(found.client, workload, range(workload.pods))
        index = await replace_bound(found.client, workload, bound, workload.pods, lambda done: done < WARM)
        _control("-i", "on")
        end = await replace_bound(found.client, workload, bound, index, lambda done: done < COUNTED)
        _control("-d")
        return end - index


async def _burst(client: Client, workload: Workload, bound: Bound, indexes: range) -> None:
    before = bound.total
    await create_pods(client, workload, indexes)
    while bound.total - before < len(indexes):
        await bound.names()


# --- the program --------------------------------------------------------------------------------------------------


def _named(name: str) -> Workload:
    """The first workload whose name contains ``name``."""
    for workload in WORKLOADS:
        if name in workload.name:
            return workload
    raise argparse.ArgumentTypeError(f"no workload has {name} in its name")


def main() -> int:
    """Count, and print one line for each workload, and one for each function."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instructions")
    parser.add_argument("workloads", nargs="*", type=_named, metavar="NAME", help=f"in their names (default: {NAMES})")
    parser.add_argument("--source", type=Path, help="folder with another version of the package cathedra")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="print the N functions that cost most")
    parser.add_argument("--counted", type=_named, metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.counted is not None:
        pods = uvloop.run(_run(arguments.counted))
        print(f"counted {pods} pods in process {os.getpid()}")
        return 0
    if arguments.functions and sys.version_info < (3, 12):
        parser.error("--functions needs Python 3.12 or later")
    for workload in arguments.workloads or list(map(_named, NAMES)):
        found = count(workload, arguments.source, functions=bool(arguments.functions))
        print(f"{workload.name:<70} {found.total / 1000:8,.0f} thousand instructions per pod", flush=True)
        for cost in found.functions[: arguments.functions]:
            print(f"{cost.instructions / 1000:12,.1f} {cost.calls:8.1f} calls  {cost.function}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
