"""``cathedra up``: the whole cluster in one process, in front or in the background."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable

from cathedra.cli.choices import cluster_config
from cathedra.cluster import background
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.datadir import DataDir, DataDirInUse
from cathedra.cluster.garbage import collect_nothing_yet

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
    pid = background.start(_forwarded(arguments, config), data.log, print)
    print(f"running as process {pid}; stop it with: cathedra down --data-dir {config.data_dir}")
    return 0


def _forwarded(arguments: argparse.Namespace, config: ClusterConfig) -> list[str]:
    """The options of the child, spelled out."""
    options = {
        "--data-dir": str(config.data_dir),
        "--nodes": str(config.nodes),
        "--port": str(config.port),
        "--store": config.store,
        "--runtime": config.runtime,
        "--kubernetes-version": config.release,
        "--feature-gates": arguments.feature_gates,
        "--runtime-config": arguments.runtime_config,
        "--max-requests-inflight": str(config.max_requests_inflight),
        "--gpus": str(config.driver.gpus),
        "--driver-name": config.driver.name,
        "--gpu-memory": config.driver.memory,
    }
    words = [f"{name}={value}" for name, value in options.items()]
    words += [f"--gpu-attribute={name}={value}" for name, value in config.driver.attributes.items()]
    files = {"--audit-log-path": config.audit_log, "--audit-policy-file": config.audit_policy}
    words += [f"{name}={path}" for name, path in files.items() if path is not None]
    return [*words, "--no-merge"] if arguments.no_merge else words


def _in_front(arguments: argparse.Namespace, config: ClusterConfig) -> int:
    collect_nothing_yet()
    from cathedra.cluster.cluster import run_cluster

    say, ready = _reporters(arguments.report_fd)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(run_cluster(config, say=say, ready=ready, merge_context=not arguments.no_merge))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop

    return uvloop.new_event_loop


def _reporters(report_fd: int | None) -> tuple[Callable[[str], None], Callable[[], None]]:
    """How progress is told: on the terminal, or over the pipe of the process that waits for us."""
    if report_fd is None:
        return _log, (lambda: None)
    report = os.fdopen(report_fd, "w", buffering=1)

    def say(line: str) -> None:
        # Once it is ready nobody listens there any more; what is said then belongs into the log.
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
