"""A node agent under any control plane, a driver at any kubelet, each in a process of its own; and the renewal of the
node's certificates.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from cathedra.client.arrival import server_arrives
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import Clock, SystemClock
from cathedra.cluster import InvalidOption
from cathedra.cluster.process.plainhealth import serving_plain_health
from cathedra.cluster.process.signals import run_until, stop_event
from cathedra.cluster.standalone.config import PartConfig
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory
from cathedra.node.config import NodeConfig
from cathedra.releases import git_version

if TYPE_CHECKING:
    from cathedra.driver.driver import Driver
    from cathedra.node.agent import NodeAgent

Say = Callable[[str], None]
"""Receives lines of progress."""


async def run_node(config: PartConfig, *, say: Say) -> None:
    """Run the pods of one node until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        UnprotectedServer: no authority is known for certificates of the node's callers.
        OSError: the root directory cannot be used.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.cluster.parts.generations import generation_of
    from cathedra.node.agent import NodeAgent, NodeDependencies

    stopped, target, denials = stop_event(), config.target(), Denials(SystemClock())
    rotation = NodeRotation(config, target, SystemClock(), Random(secrets.randbits(64)))
    if not await server_arrives(target, stopped, clock=SystemClock(), say=say):
        return
    requests = RequestMetrics(SystemClock())
    async with await HTTPTransport.open(target, user_agent="kubelet", denials=denials, requests=requests) as transport:
        node = rotation.prepared(_node_config(config, target), transport)
        gates = config.feature_gates
        generation = generation_of(gates)
        client = generation.client(Client(transport, clock=SystemClock()))
        agent = NodeAgent(
            client,
            node,
            clock=SystemClock(),
            random=Random(secrets.randbits(64)),
            gates=gates,
            dependencies=NodeDependencies(make_dial=generation.make_dial(client, gates, node.name)),
        )

        agent.metrics.denied = denials.counts
        agent.metrics.requests = requests

        async def announce() -> None:
            await agent.wait_ready()
            say(f"node {node.name} is Ready; plugins register in {config.root / 'plugins_registry'}")
            if agent.missing:
                say(agent.missing)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(announce())
                group.create_task(rotation.run(client, node, agent, transport))
                await agent.run()

        def missing() -> str:
            return "" if agent.is_ready else "the Node object is not Ready yet"

        async with serving_plain_health(config.serving.healthz, missing, denials=denials, say=say):
            await run_until(stopped, run())


def _node_config(config: PartConfig, target: Target) -> NodeConfig:
    server, serving = urlsplit(target.server), config.serving
    return NodeConfig(
        name=config.node_name,
        root=config.root,
        address=serving.internal_ip,
        listen_address=serving.address,
        port=serving.port,
        certificate=serving.certificate,
        key=serving.key,
        client_authority=serving.client_authority or _authority_file(config.root, target),
        runtime=config.runtime,
        cri_socket=config.cri_socket,
        pod_network=config.pod_network,
        reserved=config.reserved,
        stop_containers=not config.keep_containers,
        kubelet_version=git_version(config.release),
        api_server=(server.hostname or "127.0.0.1", server.port or 443),
        api_server_ca=target.certificate_authority.decode(),
    )


async def run_driver(config: PartConfig, *, say: Say) -> None:
    """Run a driver on one node until SIGINT or SIGTERM: the one of ``module``, or the example.

    Raises:
        KubeconfigError: there is no usable configuration.
        DriverError: an option is wrong, or the node agent does not take the driver.
    """
    # Only this part: the others would double the start of its process.
    from prometheus_client import CollectorRegistry

    from cathedra.driver.metrics import PrometheusMetrics
    from cathedra.driver.progress import print_progress
    from cathedra.driver.run import DriverPlacement, DriverRunner

    driver = _driver(config)
    stopped, target, denials = stop_event(), config.target(), Denials(SystemClock())
    if not await server_arrives(target, stopped, clock=SystemClock(), say=say):
        return
    registry = CollectorRegistry()
    denials.export(registry)
    async with await HTTPTransport.open(target, user_agent=driver.name, denials=denials) as transport:
        runner = DriverRunner(
            driver,
            Client(transport, clock=SystemClock()),
            DriverPlacement(
                node_name=config.node_name,
                plugin_dir=(config.plugins or config.root / "plugins") / driver.name,
                registry_dir=config.registry or config.root / "plugins_registry",
                cdi_dir=config.cdi or config.root / "cdi",
                pod_uid=config.pod_uid,
            ),
            clock=SystemClock(),
            random=Random(secrets.randbits(64)),
            observer=PrometheusMetrics(registry) if config.endpoint.port else None,
        )

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(print_progress(runner, lambda line: say(f"driver {driver.name}: {line}")))
                await runner.run()

        async with serving_plain_health(config.endpoint, lambda: runner.missing, registry, denials, say=say):
            await run_until(stopped, run())


def _driver(config: PartConfig) -> Driver:
    if config.module:
        from cathedra.driver.loading import load_driver  # start-up time: with the option alone

        return load_driver(config.module, config.driver_file, config.driver_root)
    from cathedra.cluster.parts.nodes import driver_for  # as in `run_driver`

    return driver_for(config.driver, config.feature_gates)


def _authority_file(root: Path, target: Target) -> Path | None:
    """Write the kubeconfig's authority to a file of the node, and return its path; None if there is no authority.
    Clusters usually name such a file to kubelets."""
    if not target.certificate_authority:
        return None
    file = private_directory(root / "pki") / "client-ca.crt"
    write_durable(file, target.certificate_authority, mode=0o644)
    return file


class NodeRotation:
    """Renews the node's certificates, if the options enable that."""

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
        """Begin with the certificates that an earlier process has renewed, if they are valid longer than the given
        ones."""
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
        """Renew certificates until cancelled; ``node`` is the result of `prepared`."""
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
