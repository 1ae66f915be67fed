"""``cathedra driver-check``: does a driver keep the contract of a kubelet's drivers?

Exit codes: 0 it does, 1 a check failed, 2 the driver cannot be examined.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.drivercheck.bench import Bench
from cathedra.drivercheck.check import PluginCheck, PluginCheckResult, examine, junit, line, total
from cathedra.drivercheck.checks import CHECKS
from cathedra.drivercheck.claims import Claims
from cathedra.drivercheck.plugin import PluginDirectory
from cathedra.drivercheck.program import DriverProgram, hosted_server
from cathedra.files.atomic import write_atomic
from cathedra.releases import FeatureGates

__all__ = ["add", "run"]

_REGISTRY: Final = Path("/var/lib/kubelet/plugins_registry")
_NODE: Final = "driver-check"
_EXAMPLES: Final = """\
examples:
  cathedra driver-check -- python examples/drivers/minimal.py
      starts the driver, with an API server of its own, and ends it in every way
  cathedra driver-check --kubeconfig ~/.kube/config --socket /var/lib/kubelet/plugins_registry --node worker-1
      examines a driver that runs on a node of a cluster, as root there, in the kubelet's place
  cathedra driver-check --list
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.epilog = _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--list", action="store_true", help="list the checks and the sources of their rules")
    parser.add_argument("--only", action="append", metavar="CHECK", help="run this check only (repeatable)")
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
    parser.add_argument(
        "program",
        nargs="*",
        metavar="-- COMMAND",
        help="command that starts the driver; NODE_NAME, KUBECONFIG, CDI_ROOT, KUBELET_REGISTRAR_DIRECTORY_PATH and "
        "KUBELET_PLUGINS_DIRECTORY_PATH describe its node",
    )


def run(arguments: argparse.Namespace) -> int:
    """Examine; one line for each check."""
    chosen = [check for check in CHECKS if not arguments.only or check.name in arguments.only]
    if unknown := set(arguments.only or ()) - {check.name for check in CHECKS}:
        raise InvalidOption(f"there is no check {', '.join(sorted(unknown))}; see: cathedra driver-check --list")
    if arguments.list:
        for check in chosen:
            print(f"{check.name} – {check.rule} ({check.source})")
        return 0
    if not arguments.program and arguments.kubeconfig is None:
        raise InvalidOption("give the driver's command after --, or --kubeconfig of the API server that it speaks to")
    driver, results = asyncio.run(_examine(arguments, chosen))
    print(total(results))
    if arguments.junit is not None:
        write_atomic(arguments.junit.expanduser().absolute(), junit(driver, results), mode=0o644)
    return 1 if any(one.outcome == "failed" for one in results) else 0


async def _examine(arguments: argparse.Namespace, checks: list[PluginCheck]) -> tuple[str, list[PluginCheckResult]]:
    clock = SystemClock()
    results: list[PluginCheckResult] = []
    with tempfile.TemporaryDirectory(prefix="driver-check-") as directory:
        async with _bench(arguments, Path(directory), clock) as bench:
            await bench.connect(arguments.driver)
            async for result in examine(bench, checks, clock):
                print(line(result), flush=True)
                results.append(result)
            return bench.plugin.info.name, results


@asynccontextmanager
async def _bench(arguments: argparse.Namespace, directory: Path, clock: Clock) -> AsyncIterator[Bench]:
    """The bench, with an API server if none was named, and directories of its own for a driver that is started."""
    async with AsyncExitStack() as stack:
        node, kubeconfig = arguments.node or _NODE, arguments.kubeconfig
        if kubeconfig is None:
            client = await stack.enter_async_context(hosted_server(directory, node, FeatureGates.for_release(), clock))
            kubeconfig = directory / "kubeconfig"
        else:
            transport = await HTTPTransport.open(load(kubeconfig.expanduser()))
            client = Client(await stack.enter_async_context(transport), clock=clock)
        registry = arguments.socket or (directory / "registry" if arguments.program else _REGISTRY)
        own = (directory / "cdi",) if arguments.program else DEFAULT_DIRECTORIES
        cdi = tuple(arguments.cdi_dir or own)
        program = None
        if arguments.program:
            environment = {
                "NODE_NAME": node,
                "KUBECONFIG": str(kubeconfig),
                "CDI_ROOT": str(cdi[-1]),
                "KUBELET_REGISTRAR_DIRECTORY_PATH": str(registry),
                "KUBELET_PLUGINS_DIRECTORY_PATH": str(directory / "plugins"),
            }
            program = DriverProgram(arguments.program, environment, directory / "driver.log")
        elif not registry.is_dir():
            raise InvalidOption(f"{registry} is no directory; name that of the registration sockets with --socket")
        plugins = PluginDirectory(registry, clock)
        await stack.enter_async_context(plugins.watched())
        claims = Claims(client, node, arguments.namespace)
        bench = Bench(client, clock=clock, directory=plugins, cdi_directories=cdi, claims=claims, program=program)
        try:
            yield bench
        finally:
            await bench.close()
