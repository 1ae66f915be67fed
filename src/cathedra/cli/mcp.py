"""``cathedra mcp``: the tools of ``kubectl dra`` for agents, by the Model Context Protocol."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from cathedra.allocation.errors import InvalidInput
from cathedra.cli.dra.source import add_source, read_state
from cathedra.cli.terminal import styled

if TYPE_CHECKING:
    from cathedra.engine import UsageHistory
    from cathedra.mcp.tools import AgentSource


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.description = (
        "Answer questions of an agent about devices and claims on standard input and output, by the Model Context "
        "Protocol: explain, devices, usage, simulate, lint, match. Read-only. It needs the extra mcp of the package."
    )
    add_source(parser)
    parser.add_argument(
        "--history",
        default="",
        metavar="FILE",
        help="history of an advisor (cathedra advisor --history): usage has device-hours",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until standard input ends.

    Raises:
        InvalidInput: the SDK is missing, the dump cannot be read, or it is standard input.
        KubeconfigError: there is no usable configuration.
        ConnectionError: the server cannot be reached.
        StatusError: it refuses.
        UnknownGate: the version is not known.
    """
    if "-" in arguments.dump:
        raise InvalidInput("--dump -: standard input has the messages of the agent; name a file")
    # The SDK needs the stream itself, and lets everything else that is printed go to standard error.
    with contextlib.redirect_stdout(styled(sys.stdout)):
        asyncio.run(_serve(arguments))
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    try:
        # inside: the SDK is an extra of the package
        from cathedra.mcp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise InvalidInput("the SDK mcp (2 or newer) is missing; get it with: pip install 'cathedra[mcp]'") from error
    # The SDK reads in a thread that an exception does not end: after Ctrl-C the process would wait for the agent.
    # Nothing has to be put in order, so that the signal may end it at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with ThreadPoolExecutor(1, "engine") as executor:
        async with _dump(arguments, executor) if arguments.dump else _cluster(arguments, executor) as source:
            await serve(source, executor)


@contextlib.asynccontextmanager
async def _dump(arguments: argparse.Namespace, executor: Executor) -> AsyncIterator[AgentSource]:
    # start-up time: a wrong call need not wait for the tools
    from cathedra.engine import Engine
    from cathedra.mcp.tools import AgentSource

    state = await asyncio.get_running_loop().run_in_executor(executor, read_state, arguments)
    yield AgentSource(Engine(state, history=_history(arguments)))


@contextlib.asynccontextmanager
async def _cluster(arguments: argparse.Namespace, executor: Executor) -> AsyncIterator[AgentSource]:
    """Yield a source that follows the cluster."""
    # start-up time: as above
    from cathedra.cli.dra.live import read_from, target_of
    from cathedra.client.http import HTTPTransport
    from cathedra.client.negotiation import NegotiatedTransport
    from cathedra.clock import SystemClock
    from cathedra.engine import Engine
    from cathedra.mcp.tools import AgentSource
    from cathedra.page.following import ClusterFollower

    target, clock = target_of(arguments), SystemClock()
    async with await HTTPTransport.open(target) as transport:
        engine = Engine(await read_from(transport, target, arguments), history=_history(arguments))
        negotiated = NegotiatedTransport(transport)
        follower = ClusterFollower(engine, negotiated, namespace=target.namespace, clock=clock, executor=executor)

        def silence() -> float:
            return 0.0 if follower.lost_since is None else clock.now() - follower.lost_since

        async with asyncio.TaskGroup() as group:
            following = group.create_task(follower.run())
            yield AgentSource(engine, silence)
            following.cancel()


def _history(arguments: argparse.Namespace) -> UsageHistory | None:
    from cathedra.engine import UsageHistory  # start-up time: as above

    return UsageHistory(Path(arguments.history)) if arguments.history else None
