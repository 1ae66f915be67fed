"""Commands on clusters that exist: ``cathedra down``, ``delete``, ``list``, ``logs``, ``kubeconfig`` and ``enrol``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from cathedra.cli.configuration import kept_where, selected_data
from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import KubeconfigError, current_context
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import (
    BESIDE,
    DEFAULT_NAME,
    context_name,
    current_cluster,
    forget_elsewhere,
    kept_description,
    known_directories,
    selecting,
)
from cathedra.cluster.process.background import stop
from cathedra.cluster.process.logs import lines_of


def down(arguments: argparse.Namespace) -> int:
    """Stop the cluster. Return 1 if it was not running."""
    data = selected_data(arguments)
    kept = kept_description(data)
    pid = stop(data)
    if pid is None:
        print(f"no cluster is running on {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    name = kept.name or DEFAULT_NAME
    print(
        f"stopped the cluster {name} (process {pid}); {kept_where(str(kept.spec.get('store', 'sqlite')))}\n"
        f"start it again with: cathedra up --detach{selecting(name, data.path)}"
    )
    return 0


def delete(arguments: argparse.Namespace) -> int:
    """Stop the cluster and remove it. Return 1 if there is none.

    Raises:
        InvalidOption: there are several clusters, and neither a name nor the current context selects one.
    """
    data = selected_data(arguments)
    if not (arguments.data_dir or arguments.name or arguments.cluster):
        _require_only(data)
    if not data.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    kept = kept_description(data)
    name = kept.name or DEFAULT_NAME
    pid = stop(data)
    context = _forget_context(data)
    left = [entry for entry in data.erase() if entry not in BESIDE]
    forget_elsewhere(data.path)
    print(f"deleted the cluster {name} in {data.path}" + (f" (stopped process {pid})" if pid else ""))
    if left:
        print(f"what is not the cluster's is left in {data.path}: {', '.join(left)}")
    if context is not None:
        print(f"its context is gone from your kubeconfig; current is now {context or 'none'}")
    store = str(kept.spec.get("store", "sqlite"))
    if store.startswith("etcd://"):
        print(f"its objects are still in etcd ({store.removeprefix('etcd://').partition('?')[0]})")
    return 0


def _require_only(data: DataDir) -> None:
    # That one alone runs is too little here: the one that is meant may be a stopped one, and no command restores it.
    if current_cluster() is None and data.exists() and any(one.path != data.path for one in known_directories()):
        words = selecting(kept_description(data).name or DEFAULT_NAME, data.path)
        raise InvalidOption(f"there are several clusters: name the one to delete, as in cathedra delete{words}")


def _forget_context(data: DataDir) -> str | None:
    """Remove the cluster's context from the user's kubeconfig. Return the context that is now current, or None."""
    try:
        target = kubeconfig.load(data.kubeconfig)
    except KubeconfigError:
        return None  # it was never ready, so it entered none
    return kubeconfig.remove(target)


def list_clusters(arguments: argparse.Namespace) -> int:
    """Print one line for each cluster in the state directory, and for each elsewhere that was started from here."""
    rows = [_row(data) for data in known_directories()]
    if arguments.output == "json":
        print(json.dumps({"apiVersion": "cathedra.dev/v1", "kind": "ClusterList", "items": rows}, indent=2))
        return 0
    if not rows:
        print("no clusters; start one with: cathedra up --detach")
        return 0
    # A cluster elsewhere is selected by its directory. If there is none, the names suffice.
    shown = any(selecting(row["name"], Path(row["dataDir"])).startswith(" --data-dir") for row in rows)
    table = [("NAME", "STATE", "NODES", "STORE", "VERSION", "CONTEXT", *(("DATA",) if shown else ()))]
    for row in rows:
        state = f"running ({row['process']})" if row["process"] else "stopped"
        data = (row["dataDir"],) if shown else ()
        table.append(
            (row["name"], state, str(row["nodes"]), row["store"], row["version"] or "–", row["context"], *data)
        )
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _row(data: DataDir) -> dict[str, Any]:
    kept = kept_description(data)
    name = kept.name or DEFAULT_NAME
    return {
        "name": name,
        "process": data.holder(),
        "nodes": _node_count(kept.spec.get("nodes", 0)),
        "store": str(kept.spec.get("store", "sqlite")).partition("?")[0],
        "version": str(kept.spec.get("kubernetesVersion", "")),
        "context": _context(data) or context_name(name, data.path),
        "dataDir": str(data.path),
    }


def _node_count(nodes: Any) -> int:
    """Return the number of nodes that a description has: a number, or entries as ``cpu=2`` and ``gpu=4:h100-8``."""
    if not isinstance(nodes, list):
        return int(nodes)
    return sum(int(str(entry).partition("=")[2].partition(":")[0] or entry) for entry in nodes)


def _context(data: DataDir) -> str:
    """Return the context of the cluster's own kubeconfig: another cluster may have had its usual one before."""
    if not data.kubeconfig.exists():
        return ""
    try:
        context = current_context(data.kubeconfig)
    except KubeconfigError:
        return ""
    return "" if context is None else context.name


PAUSE: Final = 0.2
"""Seconds between reads of a followed file: the standard library has no notification of changes."""


def logs(arguments: argparse.Namespace) -> int:
    """Print it; 1 if there is no log."""
    data = selected_data(arguments)
    if not data.log.exists():
        print(
            f"there is no log in {data.path}: only clusters that were started with --detach write one", file=sys.stderr
        )
        return 1
    for line in lines_of(_lines(data.log, follow=arguments.follow), arguments.part or ""):
        print(line, flush=arguments.follow)
    return 0


def _lines(path: Path, *, follow: bool) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as log:
        rest = ""
        while True:
            for piece in log:
                rest += piece
                if rest.endswith("\n"):
                    yield rest.rstrip("\n")
                    rest = ""
            if not follow:
                break
            time.sleep(PAUSE)
    if rest:
        yield rest


def print_kubeconfig(arguments: argparse.Namespace) -> int:
    """Print a kubeconfig. Return 1 if the cluster has none yet."""
    data = selected_data(arguments)
    if not data.kubeconfig.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    if not arguments.part and not arguments.server:
        sys.stdout.write(data.kubeconfig.read_text())
        return 0
    # Start-up time: the plain form reads a file.
    from cathedra.client.kubeconfig import encoded
    from cathedra.clock import SystemClock
    from cathedra.cluster.identity.credentials import parse_part, part_target

    part = parse_part(arguments.part or "admin")
    target = asyncio.run(part_target(data, part, servers=tuple(arguments.server), clock=SystemClock()))
    sys.stdout.write(encoded(target).decode())
    return 0


def enrol(arguments: argparse.Namespace) -> int:
    """Write the files with which a node joins, and print how to use them."""
    # Start-up time: as above.
    from cathedra.clock import SystemClock
    from cathedra.cluster.identity import credentials

    folder: Path = (arguments.to or Path(arguments.node_name)).expanduser().absolute()
    addresses = arguments.address or ["127.0.0.1"]
    data = selected_data(arguments)
    credentials.enrol(
        data.path, arguments.node_name, addresses, folder, servers=tuple(arguments.server), clock=SystemClock()
    )
    print(
        f"cathedra node --node-name {arguments.node_name} --kubeconfig {folder / 'kubeconfig'} "
        f"--address {addresses[0]} --tls-cert-file {folder / 'kubelet.crt'} "
        f"--tls-private-key-file {folder / 'kubelet.key'} --client-ca-file {folder / 'client-ca.crt'}"
    )
    return 0
