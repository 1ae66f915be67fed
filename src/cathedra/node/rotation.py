"""Renewal of a node's certificates: its client certificate, and the certificate of its server.

As a kubelet with ``--rotate-certificates`` and ``--rotate-server-certificates``: at a random time between 70 and 90 %
of a certificate's lifetime a new key is generated and a CertificateSigningRequest is created. Controllers approve and
sign client certificates; server certificates wait for ``kubectl certificate approve``, as in every cluster. The pair is
stored in one file below ``pki`` and used from the next connection on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from cathedra.api.core.certificates_v1 import CertificateSigningRequest, CertificateSigningRequestSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.certificates import KeyPair
from cathedra.certificates.requests import make_request, validity
from cathedra.client.backoff import ExponentialBackoff
from cathedra.client.client import Client
from cathedra.client.resources import CERTIFICATESIGNINGREQUESTS
from cathedra.client.transport import EventType
from cathedra.clock import Clock
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory

CLIENT_FILE: Final = "kubelet-client-current.pem"
SERVER_FILE: Final = "kubelet-server-current.pem"
EARLIEST, LATEST = 0.7, 0.9
"""The part of its life after which a certificate is renewed."""
_PAUSES: Final = (10.0, 3600.0)
"""First and longest pause, in seconds, after a request that came to nothing."""
_AGAIN: Final = 5.0
"""Seconds before a request is read again whose watch has ended."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RotatedCertificate:
    """A certificate that is renewed, and its signer."""

    signer: str
    usage: str
    node: str
    hosts: tuple[str, ...]
    """Names and addresses; () for a client's."""
    file: Path
    """File of the pair: certificate and key, PEM."""

    @staticmethod
    def of_client(node: str, root: Path) -> RotatedCertificate:
        """Return the node's client certificate."""
        signer = "kubernetes.io/kube-apiserver-client-kubelet"
        return RotatedCertificate(signer, "client auth", node, (), root / "pki" / CLIENT_FILE)

    @staticmethod
    def of_server(node: str, address: str, root: Path) -> RotatedCertificate:
        """Return the certificate of the node's server."""
        signer = "kubernetes.io/kubelet-serving"
        return RotatedCertificate(signer, "server auth", node, (node, address), root / "pki" / SERVER_FILE)


def newest_pair(file: Path, given: bytes, now: float) -> bytes | None:
    """Return the pair in ``file`` (PEM), if it holds and for longer than the certificate ``given`` (PEM); else None."""
    try:
        # The renewed pair may be newer than the one in the configuration, which is not changed by a renewal.
        kept = file.read_bytes()
        until = validity(kept)[1]
        return kept if until > now and (not given or until > validity(given)[1]) else None
    except (OSError, ValueError):
        return None


class CertificateRotation:
    """Renews one certificate while `run` runs; ``show`` is called with each file that has a new pair."""

    def __init__(
        self,
        client: Client,
        which: RotatedCertificate,
        current: bytes,
        *,
        clock: Clock,
        random: Random,
        show: Callable[[Path], None],
    ) -> None:
        """``current``: the certificate that is shown now (PEM)."""
        self._requests = client.resource(CERTIFICATESIGNINGREQUESTS)
        self._which = which
        self._current = current
        self._clock = clock
        self._random = random
        self._show = show

    def due(self) -> float:
        """Return a random time for the renewal, in seconds since the epoch."""
        begins, ends = validity(self._current)
        # At random, so that a thousand nodes that were set up together do not send their requests together.
        return begins + (ends - begins) * (EARLIEST + (LATEST - EARLIEST) * self._random.random())

    async def run(self) -> None:
        """Renew the certificate each time that it is due, until cancelled."""
        base, maximum = _PAUSES
        pauses = ExponentialBackoff(self._clock, base=base, factor=2.0, maximum=maximum, reset_after=2 * maximum)
        due = self.due()
        while True:
            await self._clock.sleep(max(0.0, due - self._clock.now()))
            try:
                pair = await self._renewed()
            except (StatusError, ConnectionError, _NotIssued) as error:
                _LOG.warning("no new certificate from %s yet: %s", self._which.signer, error)
                due = self._clock.now() + pauses.delay()
                continue
            # On disk before it is shown: after a crash the next agent must find a pair that is at least as new.
            await asyncio.to_thread(self._keep, pair)
            self._show(self._which.file)
            self._current = pair.certificate
            due = self.due()
            _LOG.info("new certificate of %s, from %s", self._which.node, self._which.signer)

    async def _renewed(self) -> KeyPair:
        which = self._which
        request, key = await asyncio.to_thread(
            make_request, f"system:node:{which.node}", ("system:nodes",), which.hosts
        )
        made = await self._requests.create(
            CertificateSigningRequest(
                metadata=ObjectMeta(generate_name="csr-"),
                spec=CertificateSigningRequestSpec(
                    request=request, signer_name=which.signer, usages=("digital signature", which.usage)
                ),
            )
        )
        if which.usage == "server auth":
            name = made.metadata.name
            _LOG.info("the next serving certificate waits for its approval: kubectl certificate approve %s", name)
        return KeyPair(await self._issued(made), key)

    async def _issued(self, request: CertificateSigningRequest) -> bytes:
        """Wait for the certificate, for as long as the request exists; controllers delete it after a day."""
        name = request.metadata.name
        while True:
            if request.status.certificate:
                return request.status.certificate
            for condition in request.status.conditions:
                if condition.type in ("Denied", "Failed"):
                    raise _NotIssued(f"request {name} is {condition.type}: {condition.message or condition.reason}")
            request = await self._next(request)

    async def _next(self, request: CertificateSigningRequest) -> CertificateSigningRequest:
        """Return the request after its next change, or after a while in which the API server was away.

        Raises:
            StatusError: 404, it has been deleted.
        """
        name, version = request.metadata.name, request.metadata.resource_version
        with contextlib.suppress(ConnectionError, StatusError):
            async with self._requests.watch(field_selector=f"metadata.name={name}", resource_version=version) as events:
                async for event in events:
                    if event.type in (EventType.ADDED, EventType.MODIFIED) and event.object is not None:
                        return event.object
                    if event.type is EventType.DELETED:
                        break
        while True:
            await self._clock.sleep(_AGAIN)
            with contextlib.suppress(ConnectionError):
                return await self._requests.get(name)

    def _keep(self, pair: KeyPair) -> None:
        private_directory(self._which.file.parent)
        write_durable(self._which.file, pair.certificate + b"\n" + pair.key)


class _NotIssued(Exception):
    """A request was denied, or could not be signed."""
