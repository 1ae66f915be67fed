"""``cathedra kubeconfig``: print the kubeconfig of a cluster, or of one of its parts."""

from __future__ import annotations

import argparse
import asyncio
import sys

from cathedra.cli.configuration import data_dir
from cathedra.cluster.data.datadir import DataDir

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if the cluster has none yet."""
    data = DataDir(data_dir(arguments))
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
    target = asyncio.run(part_target(data, part, server=arguments.server, clock=SystemClock()))
    sys.stdout.write(encoded(target).decode())
    return 0
