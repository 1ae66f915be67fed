"""``cathedra driver-new`` writes the files of a new driver, ``cathedra driver-manifest`` prints its manifests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from cathedra.api.formats import dns_label
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.driverfiles import driver_manifest, fabric_manifest, scaffold_files
from cathedra.driver.fabric.driver import FabricDriver
from cathedra.driver.loading import load_driver


def new(arguments: argparse.Namespace) -> int:
    """Write the files into a new directory."""
    name: str = arguments.name
    files = scaffold_files(name)
    directory = arguments.directory or Path(name.partition(".")[0])
    # Another driver's files, or changed ones, must not be overwritten.
    if directory.exists() and any(directory.iterdir()):
        raise InvalidOption(f"{directory} exists and is not empty; remove it, or name another with --directory")
    directory.mkdir(parents=True, exist_ok=True)
    for file, content in files.items():
        (directory / file).write_text(content, encoding="utf-8")
        print(directory / file)
    module = next(file for file in files if file.endswith(".py") and not file.startswith("test_"))
    print(f"test it: cd {directory} && python -m pytest && cathedra driver-check -- python {module}")
    return 0


def manifest(arguments: argparse.Namespace) -> int:
    """Print the manifests that install a driver in a cluster, as YAML for kubectl."""
    namespace: str = arguments.namespace
    if fault := dns_label(namespace):
        raise InvalidOption(f"--namespace {namespace!r} is no name of a namespace: {fault}")
    if namespace == "default":
        # What is privileged on every node does not belong among pods of all kinds (docs/spec/driver-sdk.md §17.7).
        raise InvalidOption("--namespace default is for pods of all kinds; a privileged driver needs one of its own")
    driver = load_driver(arguments.module)
    write = fabric_manifest if isinstance(driver, FabricDriver) else driver_manifest
    text = write(driver.name, arguments.module, image=arguments.image, namespace=namespace)
    sys.stdout.write(text.decode())
    return 0
