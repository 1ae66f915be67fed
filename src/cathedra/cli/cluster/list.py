"""``cathedra list``: the clusters of this user."""

from __future__ import annotations

import argparse
import json
from typing import Any

from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.description import Description, read_description
from cathedra.cluster.data.directories import DEFAULT_NAME, context_name, known_directories

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print one line for each cluster in the state directory."""
    rows = [_row(data) for data in known_directories()]
    if arguments.output == "json":
        print(json.dumps({"apiVersion": "cathedra.dev/v1", "kind": "ClusterList", "items": rows}, indent=2))
        return 0
    if not rows:
        print("no clusters; start one with: cathedra up --detach")
        return 0
    table = [("NAME", "STATE", "NODES", "STORE", "VERSION", "CONTEXT")]
    for row in rows:
        state = f"running ({row['process']})" if row["process"] else "stopped"
        table.append((row["name"], state, str(row["nodes"]), row["store"], row["version"] or "–", row["context"]))
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


def _row(data: DataDir) -> dict[str, Any]:
    kept = read_description(data.description) if data.description.exists() else Description()
    name = kept.name or DEFAULT_NAME
    return {
        "name": name,
        "process": data.holder(),
        "nodes": kept.spec.get("nodes", 0),
        "store": str(kept.spec.get("store", "sqlite")).partition("?")[0],
        "version": str(kept.spec.get("kubernetesVersion", "")),
        "context": context_name(name),
        "dataDir": str(data.path),
    }
