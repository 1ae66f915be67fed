"""``cathedra down``: stop the cluster on a data directory."""

from __future__ import annotations

import argparse

from cathedra.cli.configuration import data_dir
from cathedra.cluster.background import stop
from cathedra.cluster.datadir import DataDir

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Stop it; 1 if none was running."""
    path = data_dir(arguments)
    pid = stop(DataDir(path))
    if pid is None:
        print(f"no cluster is running on {path}")
        return 1
    print(
        f"stopped the cluster on {path} (process {pid}); its objects are kept, "
        f"start it again with: cathedra up --data-dir {path}"
    )
    return 0
