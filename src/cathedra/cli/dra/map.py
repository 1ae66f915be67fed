"""``kubectl dra map``: the device map in the browser."""

from __future__ import annotations

import argparse
import asyncio
import sys
import webbrowser

from cathedra.cli.dra.source import add_source, read_state


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--open", action="store_true", help="open it in the default browser")
    add_source(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the map until interrupted."""
    # Imported late: a wrong call need not wait for the tools.
    from cathedra.engine import Engine
    from cathedra.page.server import serving_page
    from cathedra.page.unchanging import Unchanging

    async def serve(engine: Engine) -> None:
        async with serving_page(engine, Unchanging(), port=arguments.port) as address:
            _announce(address, open_browser=arguments.open)
            await asyncio.get_running_loop().create_future()

    asyncio.run(serve(Engine(read_state(arguments))))
    return 0


def _announce(address: str, *, open_browser: bool) -> None:
    print(f"the device map is at {address}", flush=True)
    print("it can be opened on this machine only, until Ctrl-C", file=sys.stderr, flush=True)
    if open_browser:
        webbrowser.open(address)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ValueError(text)
    return port
