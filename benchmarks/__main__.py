"""``make bench``: every measurement in one table, beside Kubernetes' own figure and the goal.

Each module of this package has a function ``rows()`` that yields measurements one by one; a figure is printed as soon
as it is there. Nothing here asserts a time: a miss is printed like a hit.

    python -m benchmarks [MODULE ...]
    python -m benchmarks scheduler apiserver --against KUBECONFIG
    python -m benchmarks apiserver --apiserver-count 2
    python -m benchmarks scheduler --only 2000pods_100nodes
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
from typing import Final

import benchmarks
from benchmarks.measurement import Measurement

ANYWHERE: Final = {"apiserver", "scheduler"}
"""Modules whose loads can be put on a cluster that runs already."""
WITHOUT_ROWS: Final = {"__main__", "advisorhour", "callgrind", "instructions", "measurement", "report", "requestcosts"}
"""Modules without rows in the table; some are programs of their own."""


def main() -> int:
    """Run the named modules, or all."""
    known = sorted({m.name for m in pkgutil.iter_modules(benchmarks.__path__)} - WITHOUT_ROWS)
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure, and print one table.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"of {', '.join(known)} (default: all)")
    parser.add_argument("--against", metavar="KUBECONFIG", help="the loads of scheduler and apiserver on that cluster")
    parser.add_argument("--only", action="append", metavar="NAME", help="the scheduler's workloads whose name has this")
    parser.add_argument("--apiserver-count", type=int, metavar="N", help="apiserver with so many processes")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.modules if name not in known]
    if unknown:
        parser.error(f"no such module: {', '.join(unknown)}; there are {', '.join(known)}")
    if arguments.against is not None and not set(arguments.modules or known) <= ANYWHERE:
        parser.error(f"--against goes with {' and '.join(sorted(ANYWHERE))} alone")
    if arguments.only is not None and arguments.modules != ["scheduler"]:
        parser.error("--only goes with scheduler alone")
    if arguments.apiserver_count is not None and arguments.modules != ["apiserver"]:
        parser.error("--apiserver-count goes with apiserver alone")
    options = {
        "against": arguments.against,
        "names": arguments.only,
        "apiserver_count": arguments.apiserver_count,
    }
    given = {name: value for name, value in options.items() if value is not None}
    print(f"{len(os.sched_getaffinity(0))} cores, {os.getloadavg()[0]:.1f} busy before the first measurement")
    print(f"{'measurement':<64} {'measured':>14} {'Kubernetes':>14} {'goal':>14}  unit")
    for name in arguments.modules or known:
        for row in importlib.import_module(f"benchmarks.{name}").rows(**given):
            print(Measurement(*row).line(), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
