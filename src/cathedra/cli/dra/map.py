"""``kubectl dra map``: the device map in the browser."""

from __future__ import annotations

import argparse
import asyncio
import sys
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from cathedra.cli.dra.live import read_from, target_of
from cathedra.cli.dra.source import add_source, read_state
from cathedra.client.http import HTTPTransport
from cathedra.client.negotiation import NegotiatedTransport
from cathedra.clock import SystemClock

_FIRST: Final = b'{"question":"map","compact":true}'
"""The first question of every page. It is answered before the browser starts, and the answer is kept."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--open", action="store_true", help="open it in the default browser")
    add_source(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve the map until interrupted."""
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve_dump(arguments) if arguments.dump else _serve_cluster(arguments))
    return 0


async def _serve_dump(arguments: argparse.Namespace) -> None:
    # start-up time: a wrong call need not wait for the tools
    from cathedra.engine import Engine
    from cathedra.page.history import Unchanging
    from cathedra.page.server import serving_page

    with ThreadPoolExecutor(1, "engine") as executor:
        engine = Engine(await asyncio.get_running_loop().run_in_executor(executor, read_state, arguments))
        async with serving_page(engine, Unchanging(), executor, port=arguments.port) as address:
            executor.submit(engine.answer_json, _FIRST)
            _announce(address, open_browser=arguments.open)
            await asyncio.get_running_loop().create_future()


async def _serve_cluster(arguments: argparse.Namespace) -> None:
    # start-up time: as above
    from cathedra.engine import Engine
    from cathedra.page.following import ClusterFollower
    from cathedra.page.server import serving_page

    target = target_of(arguments)
    with ThreadPoolExecutor(1, "engine") as executor, ThreadPoolExecutor(1, "map") as drawing:
        async with await HTTPTransport.open(target) as transport:
            engine = Engine(await read_from(transport, target, arguments))
            negotiated = NegotiatedTransport(transport)
            follower = ClusterFollower(
                engine, negotiated, namespace=target.namespace, clock=SystemClock(), executor=drawing
            )
            async with serving_page(engine, follower, executor, port=arguments.port) as address:
                executor.submit(engine.answer_json, _FIRST)
                _announce(address, open_browser=arguments.open)
                await follower.run()


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
