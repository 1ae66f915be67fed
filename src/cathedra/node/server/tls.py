"""TLS files of the node's server: configured ones, or a self-signed certificate.

A kubelet without ``--tls-cert-file`` signs a certificate itself; kube-apiserver accepts it unless it has an authority
for kubelets. The authority of client certificates is mandatory: without it the API server's certificate could not be
verified, so the agent does not start.
"""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final

from cathedra.asgi.listener import TLSFiles
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory
from cathedra.node.config import NodeConfig

_FOLDER: Final = "pki"


class UnprotectedServer(Exception):
    """The node's server could not check its callers, or not prove itself to them; nothing has been started."""

    def __init__(self, node: str, missing: str, option: str) -> None:
        self.node, self.missing, self.option = node, missing, option
        super().__init__(f"node {node}: {missing}; name it with {option}")


def node_tls(config: NodeConfig, root: Path, now: float) -> TLSFiles:
    """Return the files of the node that ``config`` describes; a certificate of its own is kept below ``root``.

    Raises:
        UnprotectedServer: there is no client authority, half of a key pair, or a file that is neither.
        OSError: a certificate cannot be written.
    """
    if config.client_authority is None:
        raise UnprotectedServer(
            config.name, "no authority for the client certificates of requests for logs and exec", "--client-ca-file"
        )
    if config.certificate is not None and config.key is not None:
        return _checked(config.name, TLSFiles(config.certificate, config.key, config.client_authority))
    if config.certificate is not None:
        raise UnprotectedServer(config.name, f"no key for certificate {config.certificate}", "--tls-private-key-file")
    if config.key is not None:
        raise UnprotectedServer(config.name, f"no certificate for key {config.key}", "--tls-cert-file")
    folder = root / _FOLDER
    made = TLSFiles(folder / "kubelet.crt", folder / "kubelet.key", config.client_authority)
    if not made.certificate.exists() or not made.key.exists():
        from cathedra.certificates.authority import self_signed  # heavy, and needed once in a node's life

        pair = self_signed(f"{config.name}@{int(now)}", (config.name, config.address), now)
        private_directory(folder)
        write_durable(made.key, pair.key)
        write_durable(made.certificate, pair.certificate, mode=0o644)
    return _checked(config.name, made)


def _checked(node: str, files: TLSFiles) -> TLSFiles:
    """Return the files if TLS can use them.

    Raises:
        UnprotectedServer: a certificate is missing, or the key is not that of the certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(files.client_authority)
    except OSError as error:
        raise UnprotectedServer(node, f"no certificate in {files.client_authority}", "--client-ca-file") from error
    try:
        context.load_cert_chain(files.certificate, files.key)
    except OSError as error:
        where = f"no certificate in {files.certificate} that {files.key} is the key of"
        raise UnprotectedServer(node, where, "--tls-cert-file") from error
    return files
