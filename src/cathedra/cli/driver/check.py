"""``cathedra driver-check``: conformance tests of a running driver, and its certificate.

Exit codes: 0 no check failed, 1 a check failed, 2 the driver cannot be examined.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import LEVELS, PluginCheck, PluginCheckResult, examine
from cathedra.drivercheck.checks import CHECKS
from cathedra.drivercheck.claims import Claims
from cathedra.drivercheck.plugin import PluginDirectory
from cathedra.drivercheck.program import DriverProgram, hosted_server
from cathedra.drivercheck.report import badge, junit, level_lines, line, page, total
from cathedra.files.atomic import write_atomic
from cathedra.node.plugins.grpcclient import PluginAnnouncement
from cathedra.releases import FeatureGates

_REGISTRY: Final = Path("/var/lib/kubelet/plugins_registry")
_NODE: Final = "driver-check"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("--list", action="store_true", help="list the checks and the sources of their rules")
    parser.add_argument("--only", action="append", metavar="CHECK", help="run this check only (repeatable)")
    parser.add_argument(
        "--level", action="append", choices=LEVELS, help="run the checks of this level only (repeatable)"
    )
    parser.add_argument(
        "--nodes",
        type=int,
        choices=(1, 2),
        default=1,
        help="number of simulated nodes, each with a driver of its own (default: 1)",
    )
    parser.add_argument(
        "--upgrade-from", default="", metavar="COMMAND", help="command that starts the driver's previous version"
    )
    parser.add_argument("--driver", default="", metavar="NAME", help="name of the driver, if the directory has several")
    parser.add_argument(
        "--socket", type=Path, metavar="DIR", help=f"directory of the registration sockets (default: {_REGISTRY})"
    )
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="kubeconfig of the API server that the driver uses"
    )
    parser.add_argument("--node", default="", metavar="NAME", help=f"node of the driver (default: {_NODE})")
    parser.add_argument(
        "--namespace", default="driver-check", help="namespace of the test claims (default: driver-check)"
    )
    parser.add_argument(
        "--cdi-dir", action="append", type=Path, metavar="DIR", help="directory of its CDI documents (repeatable)"
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="also write the results to this file, for CI")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write a page with levels, checks and sources")
    parser.add_argument("--badge", type=Path, metavar="FILE", help="also write an SVG badge with the levels passed")
    parser.add_argument(
        "program",
        nargs="*",
        metavar="-- COMMAND",
        help="command that starts the driver; NODE_NAME, KUBECONFIG, CDI_ROOT, KUBELET_REGISTRAR_DIRECTORY_PATH and "
        "KUBELET_PLUGINS_DIRECTORY_PATH describe its node",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine the driver. Print one line for each check, then one for each level."""
    if unknown := set(arguments.only or ()) - {check.name for check in CHECKS}:
        raise InvalidOption(f"there is no check {', '.join(sorted(unknown))}; see: cathedra driver-check --list")
    chosen = [
        check
        for check in CHECKS
        if check.name in (arguments.only or (check.name,)) and check.level in (arguments.level or LEVELS)
    ]
    if arguments.list:
        for check in chosen:
            print(f"{check.name} – {check.rule} ({check.source})")
        return 0
    _validate(arguments)
    info, results = asyncio.run(_examine(arguments, chosen))
    print(*level_lines(results), total(results), sep="\n")
    _write(arguments, info, results)
    return 1 if any(one.outcome == "failed" for one in results) else 0


def _validate(arguments: argparse.Namespace) -> None:
    if not arguments.program and arguments.kubeconfig is None:
        raise InvalidOption("give the driver's command after --, or --kubeconfig of the API server that it speaks to")
    if arguments.nodes > 1 and (not arguments.program or arguments.kubeconfig is not None or arguments.socket):
        raise InvalidOption(
            "--nodes 2 plays both nodes and their API server: give the driver's command after --, "
            "without --kubeconfig and --socket"
        )
    if arguments.upgrade_from and not arguments.program:
        raise InvalidOption("--upgrade-from needs the command of the driver itself after --")


def _write(arguments: argparse.Namespace, info: PluginAnnouncement, results: list[PluginCheckResult]) -> None:
    for path, content in (
        (arguments.junit, partial(junit, info.name)),
        (arguments.html, partial(page, info.name, info.services)),
        (arguments.badge, badge),
    ):
        if path is not None:
            write_atomic(path.expanduser().absolute(), content(results), mode=0o644)


async def _examine(
    arguments: argparse.Namespace, checks: list[PluginCheck]
) -> tuple[PluginAnnouncement, list[PluginCheckResult]]:
    clock = SystemClock()
    results: list[PluginCheckResult] = []
    with tempfile.TemporaryDirectory(prefix="driver-check-") as directory:
        async with _bench(arguments, Path(directory), clock) as bench:
            for one in (bench, bench.neighbour):
                if one is not None:
                    await one.connect(arguments.driver)
            info = bench.plugin.info
            async for result in examine(bench, checks, clock):
                print(line(result), flush=True)
                results.append(result)
            return info, results


@asynccontextmanager
async def _bench(arguments: argparse.Namespace, directory: Path, clock: Clock) -> AsyncIterator[Bench]:
    """Yield the bench, with an API server if none was named, and directories of its own for a driver that is
    started."""
    async with AsyncExitStack() as stack:
        node, kubeconfig = arguments.node or _NODE, arguments.kubeconfig
        nodes = [node, *(f"{node}-{number}" for number in range(2, arguments.nodes + 1))]
        if kubeconfig is None:
            client = await stack.enter_async_context(hosted_server(directory, nodes, FeatureGates.for_release(), clock))
            kubeconfig = directory / "kubeconfig"
        else:
            transport = await HTTPTransport.open(load(kubeconfig.expanduser()))
            client = Client(await stack.enter_async_context(transport), clock=clock)
        api = _API(client, kubeconfig, clock)
        bench = await stack.enter_async_context(_node_bench(arguments, api, node, directory))
        if arguments.nodes > 1:
            second = directory / "2"
            second.mkdir()
            bench.neighbour = await stack.enter_async_context(_node_bench(arguments, api, nodes[1], second))
        yield bench


@dataclass(frozen=True, slots=True)
class _API:
    """The API server of the check, and the way there for a driver."""

    client: Client
    kubeconfig: Path
    clock: Clock


@asynccontextmanager
async def _node_bench(arguments: argparse.Namespace, api: _API, node: str, directory: Path) -> AsyncIterator[Bench]:
    """Yield the bench of one node, and close it at the end."""
    registry = arguments.socket or (directory / "registry" if arguments.program else _REGISTRY)
    own = (directory / "cdi",) if arguments.program else DEFAULT_DIRECTORIES
    cdi = tuple(arguments.cdi_dir or own)
    if not arguments.program and not registry.is_dir():
        raise InvalidOption(f"{registry} is no directory; name that of the registration sockets with --socket")
    environment = {
        "NODE_NAME": node,
        "KUBECONFIG": str(api.kubeconfig),
        "CDI_ROOT": str(cdi[-1]),
        "KUBELET_REGISTRAR_DIRECTORY_PATH": str(registry),
        "KUBELET_PLUGINS_DIRECTORY_PATH": str(directory / "plugins"),
    }
    current, previous = (
        DriverProgram(command, environment, directory / "driver.log") if command else None
        for command in (arguments.program, shlex.split(arguments.upgrade_from))
    )
    plugins = PluginDirectory(registry, api.clock)
    bench = Bench(
        api.client,
        clock=api.clock,
        directory=plugins,
        cdi_directories=cdi,
        claims=Claims(api.client, node, arguments.namespace),
        program=current,
    )
    bench.previous = previous
    async with plugins.watched():
        try:
            yield bench
        finally:
            await bench.close()
