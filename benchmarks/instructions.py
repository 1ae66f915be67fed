"""Instructions of the processor that a pod takes, in one process with the store's thread.

    python -m benchmarks.instructions [--source OTHER/src] [NAME ...]
    python -m benchmarks.instructions --templates 100 half_500
    python -m benchmarks.instructions --functions 60 half_500

The second form takes pods from many templates in turn, so that memos which keep fewer of them never hit. The third
needs Python 3.12 or later, whose trampolines give each Python function an address. It prints the functions that cost
most, with all that they call and await. Calls are slower there than otherwise.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import uvloop

from benchmarks.callgrind import Count, Program, begin_count, end_count
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


def count(workload: Workload, source: Path | None = None, *, functions: bool = False) -> Count:
    """Run a workload under Valgrind, with the modules of another checkout in ``source`` if there is one.

    Raises:
        RuntimeError: Valgrind is missing, or the workload failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        arguments = [
            "-m",
            "benchmarks.instructions",
            "--counted",
            workload.name,
            "--templates",
            str(workload.templates),
        ]
        program = Program(Path(folder), arguments, source, functions=functions)
        try:
            program.process.wait()
            done = re.search(r"^counted (\d+) pods$", program.printed(), re.MULTILINE)
            if done is None:
                raise RuntimeError(f"{workload.name} failed under Valgrind: {program.printed()[-2000:]}")
            return program.count(int(done[1]))
        finally:
            program.close()


# --- under Valgrind -----------------------------------------------------------------------------------------------


async def _run(workload: Workload) -> int:
    """Run the workload, and return how many pods were counted."""
    suspend_collection()
    async with stage(Arrangement.ONE) as found:
        await furnish(found.client, workload)
        bound = Bound(found.informers)
        tune_collection()
        if not workload.steady:
            await _burst(found.client, workload, bound, range(WARM))
            begin_count(os.getpid())
            await _burst(found.client, workload, bound, range(WARM, WARM + COUNTED))
            end_count(os.getpid())
            return COUNTED
        await create_pods(found.client, workload, range(workload.pods))
        index = await replace_bound(found.client, workload, bound, workload.pods, lambda done: done < WARM)
        begin_count(os.getpid())
        end = await replace_bound(found.client, workload, bound, index, lambda done: done < COUNTED)
        end_count(os.getpid())
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
    parser.add_argument("--templates", type=int, default=1, metavar="N", help="different templates of pods (1)")
    parser.add_argument("--counted", type=_named, metavar="NAME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.counted is not None:
        pods = uvloop.run(_run(replace(arguments.counted, templates=arguments.templates)))
        print(f"counted {pods} pods")
        return 0
    if arguments.functions and sys.version_info < (3, 12):
        parser.error("--functions needs Python 3.12 or later")
    for workload in arguments.workloads or list(map(_named, NAMES)):
        workload = replace(workload, templates=arguments.templates)
        found = count(workload, arguments.source, functions=bool(arguments.functions))
        print(f"{workload.name:<70} {found.total / 1000:8,.0f} thousand instructions per pod", flush=True)
        found.show(arguments.functions)
    return 0


if __name__ == "__main__":
    sys.exit(main())
