"""What a node on another machine, or in another process, needs to join a cluster: a folder of files.

A kubeconfig for the node's own user, a serving certificate under its name and addresses, and the authority of the
certificate that the API server shows. The authorities' keys stay in the data directory.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cathedra.api.formats import dns_subdomain
from cathedra.apiserver.authentication.pki import PKI
from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import Target
from cathedra.clock import Clock
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.identity.credentials import administrator_of
from cathedra.files.atomic import write_durable

__all__ = ["enrol"]


def enrol(data_dir: Path, node: str, addresses: Sequence[str], folder: Path, *, clock: Clock) -> None:
    """Write ``kubeconfig``, ``kubelet.crt``, ``kubelet.key`` and ``client-ca.crt`` for ``node`` into ``folder``.

    Raises:
        InvalidOption: no API server has been started on ``data_dir`` yet, or name or addresses are none.
        OSError: a file cannot be read or written.
    """
    if problems := dns_subdomain(node):
        raise InvalidOption(f"--node-name {node!r}: {problems[0]}")
    for address in addresses:
        _check_address(address)
    administrator = administrator_of(DataDir(data_dir))
    pki = PKI(data_dir / "pki", clock.now())
    user = pki.client(f"system:node:{node}", ("system:nodes",))
    serving = pki.node_certificate(node, tuple(addresses))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kubeconfig.write(
        folder / "kubeconfig",
        Target(
            server=administrator.server,
            certificate_authority=pki.authority_certificate,
            client_certificate=user.certificate,
            client_key=user.key,
        ),
    )
    write_durable(folder / "kubelet.key", serving.key)
    write_durable(folder / "kubelet.crt", serving.certificate, mode=0o644)
    write_durable(folder / "client-ca.crt", pki.kubelet_client_authority, mode=0o644)


def _check_address(address: str) -> None:
    try:
        ipaddress.ip_address(address)
    except ValueError as error:
        raise InvalidOption(f"--address must be an IP address under which the node is reached: {error}") from error
