"""``cathedra driver-manifest``: what installs a driver in a cluster, as YAML for kubectl."""

from __future__ import annotations

import argparse
import sys

from cathedra.api.formats import dns_label
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.drivermanifest import driver_manifest, fabric_manifest
from cathedra.driver.fabric.driver import FabricDriver
from cathedra.driver.loading import load_driver

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Print the manifests."""
    namespace: str = arguments.namespace
    if fault := dns_label(namespace):
        raise InvalidOption(f"--namespace {namespace!r} is no name of a namespace: {fault}")
    if namespace == "default":
        # What is privileged on every node does not belong among pods of all kinds (docs/spec/driver-sdk.md §17.7).
        raise InvalidOption("--namespace default is for pods of all kinds; a privileged driver needs one of its own")
    driver = load_driver(arguments.module)
    manifest = fabric_manifest if isinstance(driver, FabricDriver) else driver_manifest
    text = manifest(driver.name, arguments.module, image=arguments.image, namespace=namespace)
    sys.stdout.write(text.decode())
    return 0
