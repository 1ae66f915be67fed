"""The cluster's keys on disk: made once, read ever after (files of the private keys are for the owner only)."""

from __future__ import annotations

import hashlib
import json
import ssl
from collections.abc import Callable, Collection
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from cathedra.asgi.listener import TLSFiles
from cathedra.certificates import CertificateFacts, KeyPair
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory, private_file

if TYPE_CHECKING:
    from cathedra.certificates.authority import Authority

CLUSTER_AUTHORITY: Final = "ca"
"""Signs servers, nodes and clients of the API."""
KUBELET_CLIENT_AUTHORITY: Final = "kubelet-client-ca"
"""Signs only the certificate that the API server presents to nodes."""
FRONT_PROXY_AUTHORITY: Final = "front-proxy-ca"
"""Signs the certificate that the API server presents to aggregated API servers, which then accept the user in its
requests."""
FRONT_PROXY_CLIENT: Final = "front-proxy-client"
ADMIN: Final = ("kubernetes-admin", ("system:masters",))
RENEW_SECONDS: Final = 30 * 86400.0
"""Time before its expiry at which a start renews the server's certificate."""
KUBELET_CLIENT: Final = "kube-apiserver-kubelet-client"
"""The user that the API server is at nodes. No certificate of that name is accepted at the API."""


class NodeIdentity(Enum):
    """The names and addresses of a node's serving certificate."""

    NAME = "name"
    """The name of the Node object, which the node cannot change."""
    ADDRESS = "address"
    """The address that is connected to, as kube-apiserver checks it."""


class KubeletTLS(msgspec.Struct, frozen=True):
    """The API server's client certificate for nodes, and the authority of theirs (PEM files)."""

    certificate: Path
    key: Path
    authority: Path
    identity: NodeIdentity = NodeIdentity.NAME


class FrontProxyTLS(msgspec.Struct, frozen=True):
    """The API server's client certificate for aggregated API servers (PEM files), and its authority (PEM)."""

    certificate: Path
    key: Path
    authority: bytes


class BadKeyPair(ValueError):
    """A certificate and its key on disk are damaged, or do not belong together."""

    def __init__(self, certificate: Path, key: Path, reason: str) -> None:
        self.certificate, self.key = certificate, key
        super().__init__(
            f"{certificate} and {key.name} are no certificate with its key ({reason}): restore them from a backup, or "
            "remove both to have new ones made (what the old ones signed is worth nothing then)"
        )


class PKI:
    """A folder with the authority, the server's certificate and the administrator's.

    Nodes trust an authority of their own for the API server's certificate, so that it is worth nothing at the API.
    """

    def __init__(self, folder: Path, now: float) -> None:
        self._folder = folder
        self._now = now
        self._authorities: dict[str, Authority] = {}
        self._sound: set[str] = set()
        """Pairs that were made or checked: OpenSSL takes 2 ms for a check, and a start needs four pairs nine times."""

    def tls_files(self, hosts: tuple[str, ...], client_authority: Path | None = None) -> TLSFiles:
        """Return the server's files; its certificate is made if there is none for all of ``hosts``, or only for a while
        yet.

        A certificate that another authority signed stays as it is. Clients' certificates may also be signed by the
        authorities in ``client_authority``, a PEM file.

        Raises:
            BadKeyPair: what is there cannot be used.
            OSError: ``client_authority`` cannot be read.
        """
        self._ensure_authority(CLUSTER_AUTHORITY)
        self._renew_server(hosts)
        authorities = self._path("ca.crt")
        if client_authority is not None:
            bundle = self._path("client-ca-bundle.crt")
            write_durable(bundle, authorities.read_bytes() + b"\n" + client_authority.read_bytes(), mode=0o644)
            authorities = bundle
        return TLSFiles(self._path("apiserver.crt"), self._path("apiserver.key"), authorities)

    def _renew_server(self, hosts: tuple[str, ...]) -> None:
        """Renew the certificate if it is for other names. They are in a file beside it, read without a library."""
        certificate, key = self._path("apiserver.crt"), self._path("apiserver.key")
        noted = self._path("apiserver.json")
        if certificate.exists() and key.exists():
            _check_pair(certificate, key)
            facts = _noted_facts(noted, certificate.read_bytes()) or self._note_facts(certificate, noted)
            if facts.foreign or facts.covers(hosts, until=self._now + RENEW_SECONDS):
                return
        pair = self._authority(CLUSTER_AUTHORITY).server(hosts, self._now)
        private_directory(self._folder)
        write_durable(key, pair.key)
        write_durable(certificate, pair.certificate, mode=0o644)
        self._note_facts(certificate, noted)

    def _note_facts(self, certificate: Path, note: Path) -> CertificateFacts:
        from cathedra.certificates.authority import certificate_facts  # as in `_authority`

        authority = self._path("ca.crt").read_bytes()
        try:
            facts = certificate_facts(certificate.read_bytes(), authority)
        except ValueError as error:
            raise BadKeyPair(certificate, self._path("apiserver.key"), str(error)) from error
        write_durable(note, msgspec.json.encode(facts), mode=0o644)
        return facts

    @property
    def authority_certificate(self) -> bytes:
        """The authority's certificate, PEM."""
        self._ensure_authority(CLUSTER_AUTHORITY)
        return self._path("ca.crt").read_bytes()

    @property
    def service_account_key(self) -> Path:
        """Path of the key that signs service account tokens."""
        return self._path("sa.key")

    def client(self, user: str, groups: tuple[str, ...], file: str = "") -> KeyPair:
        """Return a client's certificate; with ``file`` it is kept under that name."""
        if not file:
            return self._authority(CLUSTER_AUTHORITY).client(user, groups, self._now)
        self._ensure(file, lambda: self._authority(CLUSTER_AUTHORITY).client(user, groups, self._now))
        return self._pair(file)

    def administrator(self) -> KeyPair:
        """Return the certificate and key of the cluster's administrator (PEM files)."""
        return self.client(*ADMIN, file="admin")

    def kubelet_client(self) -> KubeletTLS:
        """Return the TLS files for connections to nodes; they are made if one is missing."""
        self._ensure_authority(CLUSTER_AUTHORITY)
        self._ensure_authority(KUBELET_CLIENT_AUTHORITY)
        self._ensure(
            "apiserver-kubelet-client",
            lambda: self._authority(KUBELET_CLIENT_AUTHORITY).client(KUBELET_CLIENT, (), self._now),
        )
        return KubeletTLS(
            self._path("apiserver-kubelet-client.crt"), self._path("apiserver-kubelet-client.key"), self._path("ca.crt")
        )

    def front_proxy(self) -> FrontProxyTLS:
        """Return the TLS files for connections to aggregated API servers; they are made if one is missing."""
        self._ensure_authority(FRONT_PROXY_AUTHORITY)
        self._ensure(
            FRONT_PROXY_CLIENT, lambda: self._authority(FRONT_PROXY_AUTHORITY).client(FRONT_PROXY_CLIENT, (), self._now)
        )
        return FrontProxyTLS(
            self._path(f"{FRONT_PROXY_CLIENT}.crt"),
            self._path(f"{FRONT_PROXY_CLIENT}.key"),
            self._path(f"{FRONT_PROXY_AUTHORITY}.crt").read_bytes(),
        )

    @property
    def kubelet_client_authority(self) -> bytes:
        """The certificate of the authority that nodes trust for their callers, PEM."""
        self.kubelet_client()
        return self._path("kubelet-client-ca.crt").read_bytes()

    def node(self, name: str, addresses: tuple[str, ...]) -> TLSFiles:
        """Return the files of a node's server; they are made if one is missing."""
        self.kubelet_client()
        file = f"nodes/{name}"
        self._ensure(file, lambda: self.node_certificate(name, addresses))
        return TLSFiles(self._path(f"{file}.crt"), self._path(f"{file}.key"), self._path("kubelet-client-ca.crt"))

    def node_certificate(self, name: str, addresses: tuple[str, ...]) -> KeyPair:
        """Return a serving certificate of a node under its name and addresses, as kubernetes.io/kubelet-serving signs
        one."""
        return self._authority(CLUSTER_AUTHORITY).server(
            (name, *addresses), self._now, name=f"system:node:{name}", groups=("system:nodes",)
        )

    def sign(self, request: bytes, usages: Collection[str], seconds: float, now: float) -> bytes:
        """Return a certificate (PEM) of the cluster's authority for a request (PEM), valid for ``seconds``.

        Raises:
            BadRequest: it is none.
        """
        from cathedra.certificates.requests import sign_request  # as below

        return sign_request(self._authority(CLUSTER_AUTHORITY), request, usages, seconds, now)

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _pair(self, name: str) -> KeyPair:
        return KeyPair(self._path(f"{name}.crt").read_bytes(), self._path(f"{name}.key").read_bytes())

    def _authority(self, name: str) -> Authority:
        """Return the authority of that name, to sign with; it is made if it is missing."""
        if name not in self._authorities:
            # The cryptography library costs 60 ms, and a server that was started before signs nothing.
            from cathedra.certificates.authority import Authority

            self._ensure_authority(name)
            self._authorities.setdefault(name, Authority(self._pair(name)))
        return self._authorities[name]

    def _ensure_authority(self, name: str) -> None:
        def make() -> KeyPair:
            from cathedra.certificates.authority import Authority  # as above

            made = self._authorities[name] = Authority.make(self._now, f"cathedra-{name}")
            return made.pair

        self._ensure(name, make)

    def _ensure(self, name: str, make: Callable[[], KeyPair]) -> None:
        certificate, key = self._path(f"{name}.crt"), self._path(f"{name}.key")
        if certificate.exists() and key.exists():
            if name not in self._sound:
                _check_pair(certificate, key)
        else:
            pair = make()
            private_directory(key.parent)
            write_durable(key, pair.key)
            write_durable(certificate, pair.certificate, mode=0o644)
        self._sound.add(name)


def _noted_facts(note: Path, certificate: bytes) -> CertificateFacts | None:
    """Return the facts that were recorded of exactly this certificate; None if there are none that can be read."""
    try:
        read = json.loads(note.read_bytes())
        facts = CertificateFacts(
            str(read["digest"]), tuple(map(str, read["hosts"])), float(read["expires"]), bool(read["foreign"])
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return facts if facts.digest == hashlib.sha256(certificate).hexdigest() else None


def _check_pair(certificate: Path, key: Path) -> None:
    private_file(key)
    try:
        # OpenSSL reads both and compares them; the cryptography library would cost every start its import.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise BadKeyPair(certificate, key, getattr(error, "reason", "") or str(error)) from error


def _no_password() -> str:
    """Refuse to prompt: an encrypted key must not read from the terminal of a server."""
    raise ValueError("the key is encrypted")
