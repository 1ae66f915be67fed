"""``cathedra driver-control``: orders to an example driver that runs: taints, health, faults."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from cathedra.cli.configuration import selected_data
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import node_of
from cathedra.drivers.example.controls import CONTROL_SOCKET, order


def run(arguments: argparse.Namespace) -> int:
    """Give one order; what holds afterwards is printed."""
    for line in asyncio.run(order(_directory(arguments), arguments.order)):
        print(line)
    return 0


def _directory(arguments: argparse.Namespace) -> Path:
    """Return the directory of the driver that is meant: the one named, else the only one on the node that takes orders.

    Raises:
        InvalidOption: there is none, or there are several.
    """
    plugins = _root(arguments) / "plugins"
    if arguments.driver_name:
        return plugins / str(arguments.driver_name)
    taking = sorted(path.parent for path in plugins.glob(f"*/{CONTROL_SOCKET}"))
    if len(taking) == 1:
        return taking[0]
    if not taking:
        raise InvalidOption(f"no driver on {arguments.node_name} takes orders (looked in {plugins})")
    raise InvalidOption(f"several drivers take orders; choose with --driver-name: {', '.join(p.name for p in taking)}")


def _root(arguments: argparse.Namespace) -> Path:
    if arguments.root_dir is not None:
        return Path(arguments.root_dir).expanduser().absolute()
    return node_of(selected_data(arguments), arguments.node_name)[1]
