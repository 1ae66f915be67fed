"""``cathedra down``: stop a cluster."""

from __future__ import annotations

import argparse
import sys

from cathedra.cli.configuration import data_dir, kept_where, which
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.data.description import Description, read_description
from cathedra.cluster.data.directories import DEFAULT_NAME
from cathedra.cluster.process.background import stop

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Stop it; 1 if none was running."""
    data = DataDir(data_dir(arguments))
    kept = read_description(data.description) if data.description.exists() else Description()
    pid = stop(data)
    if pid is None:
        print(f"no cluster is running on {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    name = kept.name or DEFAULT_NAME
    print(
        f"stopped the cluster {name} (process {pid}); {kept_where(str(kept.spec.get('store', 'sqlite')))}\n"
        f"start it again with: cathedra up --detach{which(name, data.path)}"
    )
    return 0
