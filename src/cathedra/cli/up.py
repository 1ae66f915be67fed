"""``cathedra up``: the whole cluster in one process, in front or in the background."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable

from cathedra.cli.configuration import cluster_config
from cathedra.cli.options import CLUSTER
from cathedra.cluster import background
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.datadir import DataDir, DataDirInUse
from cathedra.cluster.gctuning import suspend_collection

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Start, and stay until stopped; or return when it is ready."""
    config = cluster_config(arguments)
    if arguments.detach:
        return _detached(arguments, config)
    return _in_front(arguments, config)


def _detached(arguments: argparse.Namespace, config: ClusterConfig) -> int:
    data = DataDir(config.data_dir)
    if (pid := data.holder()) is not None:
        raise DataDirInUse(config.data_dir, pid)
    words = [word for option in CLUSTER for word in option.words(arguments)]
    pid = background.start(words, data.log, print)
    print(f"running as process {pid}; stop it with: cathedra down --data-dir {config.data_dir}")
    return 0


def _in_front(arguments: argparse.Namespace, config: ClusterConfig) -> int:
    suspend_collection()
    # All parts are loaded here, after collection was suspended: that is a tenth of the start. A detached start only
    # waits for its child and loads none.
    from cathedra.cluster.cluster import run_cluster

    say, ready = _reporters(arguments.report_fd)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run_cluster(config, say=say, ready=ready, merge_context=not arguments.no_merge))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    # As above: a detached start runs no loop.
    import uvloop

    return uvloop.new_event_loop


def _reporters(report_fd: int | None) -> tuple[Callable[[str], None], Callable[[], None]]:
    """How progress is told: on the terminal, or over the pipe of the process that waits for us."""
    if report_fd is None:
        return _log, (lambda: None)
    report = os.fdopen(report_fd, "w", buffering=1)

    def say(line: str) -> None:
        # Once it is ready no process listens there any more; what is said then belongs into the log.
        if report.closed:
            _log(line)
        else:
            print(line, file=report)

    def ready() -> None:
        report.write(f"{background.READY}\n")
        report.close()

    return say, ready


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
