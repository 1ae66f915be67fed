"""Measure what two threads of one process bring: decoding, encoding of lists, and simulations.

python tools/threads.py [--repeat N]

Prints a row of the table in docs/releasing.md for the Python that runs it. With a GIL, two threads do no more than one.
The best of several runs counts, because other programs share the cores.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import decode, encode
from cathedra.insight import PlannedChanges, read_dump, simulate

EXAMPLE: Final = Path(__file__).parents[1] / "examples" / "insight" / "cluster.yaml"
_PODS: Final = 1000
_ROUNDS: Final = 5
"""Lists of a measurement: with one, starting the threads would be a part of it."""
_THREADS: Final = 2


def main() -> int:
    """Print the row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="runs of each measurement (default 5)")
    repeat: int = parser.parse_args().repeat
    body = json.dumps(_pod()).encode()
    pods = [decode(Pod, body) for _ in range(_PODS)]
    work_pods = _PODS * _ROUNDS
    state = read_dump(EXAMPLE)

    def decoded() -> object:
        return [decode(Pod, body) for _ in range(work_pods)]

    def encoded() -> object:
        return [b",".join(map(encode, pods)) for _ in range(_ROUNDS)]

    def simulated() -> object:
        return simulate(state, PlannedChanges(add_nodes=("20=node-0",)), copies=20)

    expected = simulated()
    cells = [
        f"{_per_second(work, repeat, unit)}"
        for work, unit in ((decoded, work_pods), (encoded, work_pods), (simulated, 1))
    ]
    gil = "" if getattr(sys, "_is_gil_enabled", lambda: True)() else " free-threaded"
    print(f"| {platform.python_version()}{gil} | {' | '.join(cells)} |")
    # Threads that shared something which they change would show it here first.
    with ThreadPoolExecutor(_THREADS) as threads:
        found = list(threads.map(lambda _: simulated(), range(2 * _THREADS)))
    different = sum(one != expected for one in found)
    print(
        f"{len(found) - different} of {len(found)} simulations in threads are equal to the one before", file=sys.stderr
    )
    return 1 if different else 0


def _per_second(work: Callable[[], object], repeat: int, unit: int) -> str:
    """Return how often one and two threads do a unit of the work in a second."""
    work()
    best = {1: 0.0, _THREADS: 0.0}
    for _ in range(repeat):
        # Taken in turns: load of other programs then meets both alike.
        for number in best:
            best[number] = max(best[number], number * unit / _seconds(work, number))
    return " | ".join(f"{rate:,.0f}" if rate >= 100 else f"{rate:.1f}" for rate in best.values())


def _seconds(work: Callable[[], object], number: int) -> float:
    with ThreadPoolExecutor(number) as threads:
        began = time.perf_counter()
        for one in [threads.submit(work) for _ in range(number)]:
            one.result()
        return time.perf_counter() - began


def _pod() -> dict[str, Any]:
    requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    containers = [
        {"name": f"c{number}", "image": "busybox", "env": [{"name": "A", "value": "1"}], "resources": requests}
        for number in range(5)
    ]
    metadata = {"name": "pod-0", "namespace": "team-a", "labels": {"app": "web"}, "uid": "u"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}


if __name__ == "__main__":
    sys.exit(main())
