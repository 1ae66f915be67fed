"""``cathedra up``: the whole cluster, in front or in the background."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from cathedra.cli.cluster.remembered import WantedCluster, wanted_cluster
from cathedra.cli.configuration import cluster_config, gates_without_effect
from cathedra.cli.options import CLUSTER, CONFIG
from cathedra.cli.terminal import print_progress
from cathedra.cluster.config import ClusterConfig, InvalidOption, parse_nodes
from cathedra.cluster.data.datadir import DataDir, DataDirInUse, changes_of
from cathedra.cluster.data.directories import context_name, selecting, write_description
from cathedra.cluster.parts.gctuning import suspend_collection
from cathedra.cluster.process import background
from cathedra.cluster.process.background import ClusterChange
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.process.signals import end_as_interrupted

_LOG = logging.getLogger("cathedra.cluster")


def run(arguments: argparse.Namespace) -> int:
    """Start, and stay until stopped; or return when it is ready."""
    wanted = wanted_cluster(arguments)
    config = cluster_config(wanted.arguments)
    context = context_name(wanted.description.name, config.data_dir)
    config = msgspec.structs.replace(config, context=context, leaving=_leaving(wanted, config))
    data = DataDir(config.data_dir)
    if wanted.kept is not None and (pid := data.holder()) is not None:
        return _running(wanted, data, pid)
    if getattr(arguments, "detach", False):
        return _detached(arguments, wanted, config)
    return _in_front(wanted, _with_dump(wanted, config))


def _detached(arguments: argparse.Namespace, wanted: WantedCluster, config: ClusterConfig) -> int:
    data = DataDir(config.data_dir)
    if (pid := data.holder()) is not None:
        # It has no description: a part alone serves it, or the first start is under way.
        raise DataDirInUse(config.data_dir, pid)
    end_as_interrupted()
    # The child reads the stored description itself, so that changes are reported once.
    given = argparse.Namespace(**vars(arguments))
    given.data_dir = config.data_dir
    words = [wanted.description.name, *(word for option in (*CLUSTER, CONFIG) for word in option.words(given))]
    pid = background.start(words, data.log, print_progress)
    print_progress(
        f"running as process {pid}; stop it with: cathedra down{selecting(wanted.description.name, config.data_dir)}"
    )
    return 0


def _running(wanted: WantedCluster, data: DataDir, pid: int) -> int:
    """Report the cluster that runs already, after a change of its nodes if others are wanted.

    Raises:
        InvalidOption: other options are wanted too, which apply from the next start on.
    """
    name = wanted.description.name
    which = selecting(name, data.path)
    others = [change for change in wanted.changes if not change.startswith("nodes: ")]
    if others:
        raise InvalidOption(
            f"the cluster {name} runs as process {pid}, and this needs a new start: {'; '.join(others)}; stop it first "
            f"with: cathedra down{which}"
        )
    if wanted.changes:
        change = ClusterChange(tuple(wanted.arguments.nodes), name, dict(wanted.description.spec))
        background.change(changes_of(data.path), change, print_progress)
        print_progress(f"changed and kept in {data.description}: {'; '.join(wanted.changes)}")
    dumped = [] if wanted.arguments.from_dump is None else [f"those of {wanted.arguments.from_dump}"]
    nodes = ", ".join([*wanted.arguments.nodes, *dumped])
    print_progress(f"the cluster {name} runs as process {pid}, nodes: {nodes}; show it with: cathedra status{which}")
    print_progress(f"export KUBECONFIG={data.kubeconfig}")
    return 0


def _with_dump(wanted: WantedCluster, config: ClusterConfig) -> ClusterConfig:
    """Return the configuration with the nodes of ``--from-dump``, and at the first start with its objects."""
    dump: Path | None = wanted.arguments.from_dump
    if dump is None:
        return config
    # start-up time: with this option alone
    from cathedra.insight.clusterimport import imported_groups, imported_objects
    from cathedra.insight.reading.dumps import read_dump

    state = read_dump(dump)
    groups = (*config.groups, *imported_groups(state))
    return msgspec.structs.replace(
        config, groups=groups, objects=imported_objects(state) if wanted.kept is None else ()
    )


def _leaving(wanted: WantedCluster, config: ClusterConfig) -> tuple[str, ...]:
    """Return the nodes that the cluster had and that are now removed."""
    kept = wanted.kept.spec.get("nodes", 0) if wanted.kept is not None else 0
    nodes, groups = parse_nodes(kept if isinstance(kept, list) else [str(kept)])
    before = msgspec.structs.replace(config, nodes=nodes, groups=groups).node_names
    return tuple(name for name in before if name not in config.node_names)


def _in_front(wanted: WantedCluster, config: ClusterConfig) -> int:
    suspend_collection()
    # All parts are loaded here, after collection was suspended: that is a tenth of the start. A detached start only
    # waits for its child and loads none.
    from cathedra.cluster.cluster import run_cluster

    configure_logging(wanted.arguments.log_level, wanted.arguments.log_format)
    say, ready = _reporters(wanted.arguments.report_fd)
    for line in gates_without_effect(config.release, config.gates):
        say(line)
    data = DataDir(config.data_dir)

    def remember() -> None:
        write_description(data.description, wanted.description)
        if wanted.changes:
            say(f"changed and kept in {data.description}: {'; '.join(wanted.changes)}")
        ready()

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        merge = not wanted.arguments.no_merge
        return runner.run(run_cluster(config, say=say, ready=remember, merge_context=merge))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    # As above: a detached start runs no loop.
    import uvloop

    return uvloop.new_event_loop


def _reporters(report_fd: int | None) -> tuple[Callable[[str], None], Callable[[], None]]:
    """Return the functions for progress: to the terminal, or to the pipe of the waiting parent process."""
    if report_fd is None:
        return _log, (lambda: None)
    report = os.fdopen(report_fd, "w", buffering=1)

    def say(line: str) -> None:
        # Once it is ready no process listens there any more.
        _LOG.info("%s", line)
        if not report.closed:
            print(line, file=report)

    def ready() -> None:
        report.write(f"{background.READY}\n")
        report.close()

    return say, ready


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
