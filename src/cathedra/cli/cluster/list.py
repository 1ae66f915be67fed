"""``cathedra list``: the clusters of this user."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from cathedra.client.kubeconfig import KubeconfigError, current_context
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.directories import DEFAULT_NAME, context_name, kept_description, known_directories, selecting

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
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
