"""``cathedra driver-webhook``: refuses claims whose parameters a driver could not use, when they are made."""

from __future__ import annotations

import argparse
import asyncio
import sys

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import load
from cathedra.clock import SystemClock
from cathedra.cluster.process.plainhealth import endpoint_of
from cathedra.cluster.process.signals import stop_event
from cathedra.driver.driver import Driver
from cathedra.driver.loading import load_driver
from cathedra.driver.webhook import WebhookAddress, serving_webhook

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
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


def run(arguments: argparse.Namespace) -> int:
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
