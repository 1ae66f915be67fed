"""``kubectl dra devices``: devices, their holders, and the capacity that is left."""

from __future__ import annotations

import argparse
import asyncio

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.source import add_source, add_timeout, read_state
from cathedra.cli.terminal import print_data, print_styled, style, width
from cathedra.insight.drawing.devices import LARGEST, SMALLEST, WIDTH
from cathedra.insight.inventory.listing import devices
from cathedra.insight.inventory.report import devices_text
from cathedra.insight.reading.state import ClusterState


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--class", dest="device_class", default="", metavar="NAME", help="show devices of this class only"
    )
    parser.add_argument("--node", default="", metavar="NAME", help="show devices that this node can use")
    parser.add_argument("--driver", default="", metavar="NAME", help="show devices of this driver only")
    parser.add_argument("--free", action="store_true", help="show only devices that are free or have capacity left")
    parser.add_argument("-w", "--watch", action="store_true", help="refresh after every change")
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json", "yaml"),
        default="table",
        help="output format (default table)",
    )
    parser.add_argument(
        "--svg",
        nargs="?",
        type=_pixels,
        const=WIDTH,
        default=0,
        metavar="PIXELS",
        help=f"draw a picture of this width instead (default {WIDTH})",
    )
    add_source(parser)
    add_timeout(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print them; 1 if none matches."""
    if arguments.svg and arguments.watch:
        raise InvalidInput("--svg draws one picture; kubectl dra map follows the cluster")
    if not arguments.watch:
        return _show(arguments, read_state(arguments))
    if arguments.dump:
        raise InvalidInput("--watch needs a cluster; a dump does not change")
    # start-up time: a dump needs no client
    from cathedra.cli.dra.live import follow

    asyncio.run(follow(arguments, lambda state: _show(arguments, state)))
    return 0


def _pixels(text: str) -> int:
    pixels = int(text)
    if not SMALLEST <= pixels <= LARGEST:
        raise argparse.ArgumentTypeError(f"a picture is {SMALLEST} to {LARGEST} pixels wide, not {pixels}")
    return pixels


def _show(arguments: argparse.Namespace, state: ClusterState) -> int:
    found = devices(
        state,
        device_class=arguments.device_class,
        node=arguments.node,
        driver=arguments.driver,
        free=arguments.free,
    )
    if arguments.svg:
        print(found.svg(arguments.svg))
    elif arguments.output in ("json", "yaml"):
        print_data(found.to_dict(), arguments.output)
    else:
        print_styled(devices_text(found, width(), style, wide=arguments.output == "wide"))
    return 0 if found.devices else 1
