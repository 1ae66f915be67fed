"""Programs beside a driver: ``cathedra driver-webhook`` refuses claims, ``cathedra driver-fabric`` attaches devices.

The webhook refuses claims with parameters that the driver cannot use, when they are created. The fabric's controller
attaches devices to the nodes on which claims use them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path

import uvloop

from cathedra.cli.configuration import absolute
from cathedra.cli.options import LOGGING, add_all
from cathedra.cli.partoptions import KUBECONFIG
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import SystemClock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.process.plainhealth import endpoint_of
from cathedra.cluster.process.signals import stop_event
from cathedra.cluster.standalone.fabric import FabricConfig, lease_namespace, run_fabric
from cathedra.driver.driver import Driver
from cathedra.driver.fabric.driver import FabricDriver
from cathedra.driver.loading import load_driver
from cathedra.driver.webhook import WebhookAddress, serving_webhook


def add_webhook(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``driver-webhook`` to its parser."""
    parser.add_argument("module", metavar="MODULE:DRIVER", help="driver: a class, or a function that returns one")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--service", default="", metavar="NAMESPACE/NAME", help="Service through which the API server calls it"
    )
    where.add_argument("--host", default="", help="host at which the API server calls it, outside the cluster")
    parser.add_argument(
        "--listen",
        default=":8443",
        metavar="ADDRESS:PORT",
        help="address to listen on (default: :8443; port 0: a free one)",
    )
    parser.add_argument(
        "--kubeconfig", default=None, metavar="FILE", help="kubeconfig of the API server (default: kubectl's)"
    )


def webhook(arguments: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    listen = endpoint_of("--listen", arguments.listen)
    address = WebhookAddress(arguments.service, arguments.host, 443 if arguments.service else listen.port)
    driver = load_driver(arguments.module)
    asyncio.run(_serve(driver, address, (listen.address, listen.port), arguments.kubeconfig))
    return 0


async def _serve(driver: Driver, address: WebhookAddress, listen: tuple[str, int], kubeconfig: str | None) -> None:
    stopped = stop_event()
    async with await HTTPTransport.open(load(kubeconfig), user_agent=f"{driver.name}-webhook") as transport:
        client = Client(transport, clock=SystemClock(), field_manager=f"{driver.name}-webhook")
        async with serving_webhook(driver, client, address, listen=listen) as port:
            kinds = ", ".join(f"{kind} of {version}" for version, kind in driver.configs)
            print(f"webhook of {driver.name}: at port {port}, registered, takes {kinds}", file=sys.stderr, flush=True)
            await stopped.wait()


def add_fabric(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``driver-fabric`` to its parser."""
    parser.add_argument(
        "module", metavar="MODULE:DRIVER", help="driver: a FabricDriver class, or a function that returns one"
    )
    parser.add_argument("--driver-config", type=Path, metavar="FILE", help="configuration that is passed to the driver")
    parser.add_argument(
        "--leader-elect-resource-namespace",
        default="",
        metavar="NAMESPACE",
        help="namespace of the leader's lease, which has the driver's name (default: $POD_NAMESPACE, else the pod's, "
        "else default)",
    )
    parser.add_argument(
        "--owner-class", default="", metavar="NAME", help="DeviceClass that owns the slices: they are deleted with it"
    )
    parser.add_argument(
        "--http-endpoint",
        default="",
        metavar="ADDRESS:PORT",
        help="address for /metrics, /healthz, /livez, /readyz (default: none)",
    )
    add_all(parser, (KUBECONFIG, *LOGGING))


def fabric(arguments: argparse.Namespace) -> int:
    """Work until SIGINT or SIGTERM, or until another instance leads."""
    configure_logging(arguments.log_level, arguments.log_format)
    driver = load_driver(arguments.module, absolute(arguments.driver_config))
    if not isinstance(driver, FabricDriver):
        raise InvalidOption(
            f"{arguments.module} makes a {type(driver).__name__}, which is no cathedra.driver.FabricDriver; "
            "cathedra driver --module runs it on a node"
        )
    config = FabricConfig(
        kubeconfig=absolute(arguments.kubeconfig),
        lease_namespace=lease_namespace(arguments.leader_elect_resource_namespace, os.environ),
        owner_class=arguments.owner_class,
        endpoint=endpoint_of("--http-endpoint", arguments.http_endpoint),
    )
    uvloop.run(run_fabric(driver, config, say=_say))
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
