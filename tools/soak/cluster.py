"""The cluster of a soak, in a process that counts its own tasks and objects when a signal requests it.

    python -m tools.soak.cluster DATA_DIR COUNTS RUNTIME

SIGUSR1 appends the number of tasks to the file COUNTS, SIGUSR2 also the number of objects of each type.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import uvloop

from cathedra.api.boundedcache import BoundedCache
from cathedra.cluster.cluster import run_cluster
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.process.logs import configure_logging
from cathedra.remembering import forget

__all__ = ["NODES", "READY"]

READY: Final = "the cluster is ready"
NODES: Final = 2


def main(data: Path, counts: Path, runtime: str) -> int:
    """Run the cluster until SIGTERM."""
    configure_logging("warning", "text")
    config = ClusterConfig(data_dir=data, nodes=NODES, runtime=runtime)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(config, counts))


async def _run(config: ClusterConfig, counts: Path) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, _count, counts, False)
    loop.add_signal_handler(signal.SIGUSR2, _count, counts, True)
    return await run_cluster(config, say=lambda _: None, ready=lambda: print(READY, flush=True), merge_context=False)


def _count(counts: Path, objects: bool) -> None:
    found = {"tasks": _tasks(), "objects": _objects() if objects else {}}
    with counts.open("a") as file:
        file.write(json.dumps(found) + "\n")


def _tasks() -> Counter[str]:
    return Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())


def _objects() -> Counter[str]:
    # The cluster exempts objects that survive from collection, and those are not listed.
    gc.unfreeze()
    # Garbage, and caches with a bound, are no leaks, so they go first.
    forget()
    for one in gc.get_objects():
        if isinstance(one, BoundedCache):
            one.clear()
    gc.collect()
    # What survives a full collection is exempt from the next ones at once.
    gc.unfreeze()
    found = Counter(_type_name(type(one)) for one in gc.get_objects())
    # Each of these has a set, and is itself judged by the bound of its recorder (`tools.soak.figures.BOUNDED`).
    found["builtins.set"] -= found["cathedra.client.events._Similar"]
    gc.freeze()
    return found


def _type_name(kind: type[Any]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
