"""``cathedra driver-fabric``: attaches devices of a fabric to the nodes where claims use them."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import uvloop

from cathedra.cli.configuration import absolute
from cathedra.cli.options import LOGGING, add_all
from cathedra.cli.partoptions import KUBECONFIG
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.logs import configure_logging
from cathedra.cluster.process.plainhealth import endpoint_of
from cathedra.cluster.standalone.fabric import FabricConfig, lease_namespace, run_fabric
from cathedra.driver.fabric.driver import FabricDriver
from cathedra.driver.loading import load_driver

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
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


def run(arguments: argparse.Namespace) -> int:
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
