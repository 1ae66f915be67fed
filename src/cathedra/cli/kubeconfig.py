"""``cathedra kubeconfig``: print the kubeconfig of a cluster."""

from __future__ import annotations

import argparse
import sys

from cathedra.cli.configuration import data_dir
from cathedra.cluster.datadir import DataDir

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if the cluster has none yet."""
    data = DataDir(data_dir(arguments))
    if not data.kubeconfig.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    sys.stdout.write(data.kubeconfig.read_text())
    return 0
