"""The cluster's keys on disk: made once, read ever after (files of the private keys are for the owner only)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cathedra.apiserver.authentication.certificates import Authority, KeyPair
from cathedra.files.atomic import write_durable

__all__ = ["PKI", "TLSFiles"]

ADMIN: Final = ("kubernetes-admin", ("system:masters",))


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """The PEM files of a TLS server."""

    certificate: Path
    key: Path
    client_authority: Path


class PKI:
    """A folder with the authority, the server's certificate and the administrator's."""

    def __init__(self, folder: Path, now: float) -> None:
        self._folder = folder
        self._now = now
        self._authority: Authority | None = None

    def tls_files(self, hosts: tuple[str, ...]) -> TLSFiles:
        """The server's files; they are made if one is missing."""
        self._ensure("ca", self._make_authority)
        self._ensure("apiserver", lambda: self.authority.server(hosts, self._now))
        return TLSFiles(self._path("apiserver.crt"), self._path("apiserver.key"), self._path("ca.crt"))

    @property
    def authority_certificate(self) -> bytes:
        """The authority's certificate, PEM."""
        self._ensure("ca", self._make_authority)
        return self._path("ca.crt").read_bytes()

    @property
    def service_account_key(self) -> Path:
        """Where the key is kept that signs service account tokens."""
        return self._path("sa.key")

    @property
    def authority(self) -> Authority:
        """The authority, to sign more certificates."""
        if self._authority is None:
            self._ensure("ca", self._make_authority)
            pair = KeyPair(self._path("ca.crt").read_bytes(), self._path("ca.key").read_bytes())
            self._authority = Authority(pair)
        return self._authority

    def client(self, user: str, groups: tuple[str, ...], file: str = "") -> KeyPair:
        """A client's certificate; with ``file`` it is kept under that name."""
        if not file:
            return self.authority.client(user, groups, self._now)
        self._ensure(file, lambda: self.authority.client(user, groups, self._now))
        return KeyPair(self._path(f"{file}.crt").read_bytes(), self._path(f"{file}.key").read_bytes())

    def administrator(self) -> KeyPair:
        """The administrator's certificate."""
        return self.client(*ADMIN, file="admin")

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _make_authority(self) -> KeyPair:
        self._authority = Authority.make(self._now)
        return self._authority.pair

    def _ensure(self, name: str, make: Callable[[], KeyPair]) -> None:
        certificate, key = self._path(f"{name}.crt"), self._path(f"{name}.key")
        if certificate.exists() and key.exists():
            return
        pair = make()
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_durable(key, pair.key)
        write_durable(certificate, pair.certificate, mode=0o644)
