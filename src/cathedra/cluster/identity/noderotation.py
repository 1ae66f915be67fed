"""The certificates of a node in a process of its own: which ones it begins with, and who renews them."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import msgspec

from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.clock import Clock
from cathedra.cluster.invalidoption import InvalidOption
from cathedra.cluster.partconfig import PartConfig
from cathedra.node.config import NodeConfig

if TYPE_CHECKING:
    from cathedra.node.agent import NodeAgent

__all__ = ["NodeRotation"]


class NodeRotation:
    """Nothing at all, unless the options ask for it."""

    def __init__(self, config: PartConfig, target: Target, clock: Clock, random: Random) -> None:
        """Check the options.

        Raises:
            InvalidOption: the kubeconfig has no certificate that could be renewed.
        """
        self._client_wanted = config.serving.rotate_client
        self._server_wanted = config.serving.rotate_server
        self._given = target.client_certificate
        self._clock = clock
        self._random = random
        if self._client_wanted and not self._given:
            raise InvalidOption("--rotate-certificates: the kubeconfig's user has no client certificate to renew")

    def prepared(self, node: NodeConfig, transport: HTTPTransport) -> NodeConfig:
        """Begin with what an earlier process has renewed, where that holds longer than what is given."""
        if not (self._client_wanted or self._server_wanted) or node.root is None:
            return node
        from cathedra.node.rotation import (  # start-up time: with the options alone
            CLIENT_FILE,
            SERVER_FILE,
            newest_pair,
        )

        now, folder = self._clock.now(), node.root / "pki"
        if self._client_wanted and (kept := newest_pair(folder / CLIENT_FILE, self._given, now)):
            self._given = kept
            transport.show_certificate(folder / CLIENT_FILE)
        if self._server_wanted:
            given = node.certificate.read_bytes() if node.certificate is not None else b""
            if newest_pair(folder / SERVER_FILE, given, now):
                return msgspec.structs.replace(node, certificate=folder / SERVER_FILE, key=folder / SERVER_FILE)
        return node

    async def run(self, client: Client, node: NodeConfig, agent: NodeAgent, transport: HTTPTransport) -> None:
        """Renew what is to be renewed, until cancelled; ``node`` is what `prepared` answered."""
        if not (self._client_wanted or self._server_wanted) or node.root is None:
            return
        from cathedra.node.rotation import CertificateRotation, RotatedCertificate  # as above

        await agent.wait_ready()
        async with asyncio.TaskGroup() as group:
            if self._client_wanted:
                which = RotatedCertificate.of_client(node.name, node.root)
                rotation = CertificateRotation(
                    client, which, self._given, clock=self._clock, random=self._random, show=transport.show_certificate
                )
                group.create_task(rotation.run(), name="client certificate")
            if self._server_wanted:
                shown = node.certificate or node.root / "pki" / "kubelet.crt"
                which = RotatedCertificate.of_server(node.name, node.address, node.root)
                current = await asyncio.to_thread(shown.read_bytes)
                rotation = CertificateRotation(
                    client, which, current, clock=self._clock, random=self._random, show=agent.show_certificate
                )
                group.create_task(rotation.run(), name="serving certificate")
