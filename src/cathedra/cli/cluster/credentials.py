"""``cathedra kubeconfig`` prints the kubeconfig of a cluster or part, ``cathedra enrol`` writes the files of a node."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from cathedra.cli.configuration import selected_data

__all__ = ["enrol", "kubeconfig"]


def kubeconfig(arguments: argparse.Namespace) -> int:
    """Print a kubeconfig. Return 1 if the cluster has none yet."""
    data = selected_data(arguments)
    if not data.kubeconfig.exists():
        print(f"there is no cluster in {data.path}; see what there is with: cathedra list", file=sys.stderr)
        return 1
    if not arguments.part and not arguments.server:
        sys.stdout.write(data.kubeconfig.read_text())
        return 0
    # Start-up time: the plain form reads a file.
    from cathedra.client.kubeconfig import encoded
    from cathedra.clock import SystemClock
    from cathedra.cluster.identity.credentials import parse_part, part_target

    part = parse_part(arguments.part or "admin")
    target = asyncio.run(part_target(data, part, server=arguments.server, clock=SystemClock()))
    sys.stdout.write(encoded(target).decode())
    return 0


def enrol(arguments: argparse.Namespace) -> int:
    """Write the files with which a node joins, and print how to use them."""
    # Start-up time: as above.
    from cathedra.clock import SystemClock
    from cathedra.cluster.identity import credentials

    folder: Path = (arguments.to or Path(arguments.node_name)).expanduser().absolute()
    addresses = arguments.address or ["127.0.0.1"]
    data = selected_data(arguments)
    credentials.enrol(data.path, arguments.node_name, addresses, folder, clock=SystemClock())
    print(
        f"cathedra node --node-name {arguments.node_name} --kubeconfig {folder / 'kubeconfig'} "
        f"--address {addresses[0]} --tls-cert-file {folder / 'kubelet.crt'} "
        f"--tls-private-key-file {folder / 'kubelet.key'} --client-ca-file {folder / 'client-ca.crt'}"
    )
    return 0
