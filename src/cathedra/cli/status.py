"""``cathedra status``: what runs on a data directory's cluster."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from cathedra.cli.configuration import data_dir
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import SystemClock
from cathedra.cluster.datadir import DataDir
from cathedra.cluster.overview import Overview, read_overview

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print it; 1 if nothing runs there."""
    data = DataDir(data_dir(arguments))
    pid = data.holder()
    if pid is None:
        print(f"no cluster is running on {data.path}; start one with: cathedra up", file=sys.stderr)
        return 1
    overview = asyncio.run(_read(data))
    if arguments.output == "json":
        print(json.dumps(overview.to_json() | {"process": pid}, indent=2))
        return 0

    # rich is loaded only when something is drawn.
    from cathedra.cli.tables import draw, make_console

    print(f"process {pid}, data in {data.path}\nexport KUBECONFIG={data.kubeconfig}\n")
    draw(overview, make_console())
    return 0


async def _read(data: DataDir) -> Overview:
    async with await HTTPTransport.open(load(data.kubeconfig)) as transport:
        return await read_overview(Client(transport, clock=SystemClock()))
