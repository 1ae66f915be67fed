"""``cathedra enrol``: the files with which a node joins."""

from __future__ import annotations

import argparse
from pathlib import Path

from cathedra.cli.configuration import data_dir
from cathedra.clock import SystemClock
from cathedra.cluster.identity.credentials import enrol

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    """Write the files, and print how to use them."""
    folder: Path = (arguments.to or Path(arguments.node_name)).expanduser().absolute()
    addresses = arguments.address or ["127.0.0.1"]
    enrol(data_dir(arguments), arguments.node_name, addresses, folder, clock=SystemClock())
    print(
        f"cathedra node --node-name {arguments.node_name} --kubeconfig {folder / 'kubeconfig'} "
        f"--address {addresses[0]} --tls-cert-file {folder / 'kubelet.crt'} "
        f"--tls-private-key-file {folder / 'kubelet.key'} --client-ca-file {folder / 'client-ca.crt'}"
    )
    return 0
