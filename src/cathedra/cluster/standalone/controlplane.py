"""Each part in a process of its own: the API server on a data directory, the others wherever a kubeconfig points.

That is how a part is put in the place of its Kubernetes counterpart, or beside it, as the scheduler against a real API
server. What runs on a node is in `cathedra.cluster.standalone.node`.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from cathedra.certificates import KeyPair
from cathedra.client.arrival import server_arrives
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.leaderelection import LeaderElector, LeaseTiming, make_elector
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import SystemClock
from cathedra.cluster.config import ClusterConfig, InvalidOption
from cathedra.cluster.data.datadir import DataDir
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.cluster.process.health import serving_health, show_release
from cathedra.cluster.process.signals import run_until, stop_event, switch_soon
from cathedra.cluster.standalone.config import PartConfig
from cathedra.releases import FeatureGates
from cathedra.session.opening import open_transport

if TYPE_CHECKING:
    from cathedra.apiserver.server import APIServer
    from cathedra.controllers.certificates import Signer
    from cathedra.scheduler.configuration.reading import LeaseConfiguration, SchedulerConfiguration

Say = Callable[[str], None]
"""Receives lines of progress."""


async def run_apiserver(config: ClusterConfig, *, say: Say) -> None:
    """Serve a data directory until SIGINT or SIGTERM.

    Raises:
        InvalidOption: the data directory cannot be used.
        StorageError: the store cannot be read.
        OSError: the port is taken.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.cluster.serving import serve_parts, write_kubeconfig

    data = DataDir(config.data_dir)
    switch_soon()
    with data.held():
        stopped = stop_event()
        gates = FeatureGates.for_release(config.release, config.gates)
        async with _opened(config, gates, say) as server:
            write_kubeconfig(server, config, data.kubeconfig, merge=False, say=say)
            await serve_parts(server, config)
            say(f"API server {server.url}")
            say(f"export KUBECONFIG={data.kubeconfig}")
            async with collected_by_memory(SystemClock()):
                await stopped.wait()


@asynccontextmanager
async def _opened(config: ClusterConfig, gates: FeatureGates, say: Say) -> AsyncIterator[APIServer]:
    """Yield the API server of a data directory, with further ones beside it if there are to be any."""
    from cathedra.cluster.serving import open_server  # as above

    async def opened() -> APIServer:
        return await open_server(config, gates=gates, clock=SystemClock(), random=_random())

    if config.apiserver_count > 1:
        from cathedra.cluster.apiservers.supervisor import several_servers  # start-up time: with several alone

        async def unknown(_: str) -> None:
            """No node runs in this process."""

        async with several_servers(config, opened, clock=SystemClock(), say=say, usage=unknown) as server:
            yield server
        return
    server = await opened()
    try:
        yield server
    finally:
        await server.close()


async def run_scheduler(config: PartConfig, *, say: Say) -> None:
    """Schedule the pods of a cluster until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        LostLeadership: another process may lead now.
        ConfigurationError: the scheduler's file cannot be used.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.cluster.parts.generations import generation_of
    from cathedra.scheduler.metrics import SchedulerMetrics
    from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies

    chosen = _scheduler_configuration(config)
    if chosen.kubeconfig and config.kubeconfig is None:
        config = dataclasses.replace(config, kubeconfig=Path(chosen.kubeconfig))
    stopped, target, denials = stop_event(), config.target(), Denials(SystemClock())
    if not await server_arrives(target, stopped, clock=SystemClock(), say=say):
        return
    requests = RequestMetrics(SystemClock())
    async with open_transport(target, user_agent="kube-scheduler", denials=denials, requests=requests) as transport:
        generation = generation_of(config.feature_gates)
        client = generation.client(Client(transport, clock=SystemClock()))
        metrics = SchedulerMetrics(SystemClock())
        scheduler = Scheduler(
            client,
            clock=SystemClock(),
            random=_random(),
            gates=config.feature_gates,
            configuration=chosen,
            dependencies=SchedulerDependencies(metrics=metrics, make_claim_plugin=generation.make_claim_plugin),
        )
        metrics.show(scheduler.statistics)
        show_release(metrics.registry, config.feature_gates)
        requests.export(metrics.registry)
        names = ", ".join(profile.name for profile in chosen.profiles)
        say(f"scheduling for {target.server} as {names}")
        for name in chosen.without_effect:
            say(f"{name} of {config.scheduler_file}: not in this scheduler, without effect")
        elector = _scheduler_elector(config, chosen.lease, client)
        health = dataclasses.replace(config.health, client_authority=target.certificate_authority)
        async with (
            serving_health(health, client, metrics.registry, elector, denials=denials, say=say),
            collected_by_memory(SystemClock()),
        ):
            await run_until(stopped, scheduler.run() if elector is None else elector.run(scheduler.run))


async def run_controllers(config: PartConfig, *, say: Say) -> None:
    """Run the controllers of a cluster until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        LostLeadership: another process may lead now.
    """
    # Only this part: the others would double the start of its process.
    from prometheus_client import CollectorRegistry

    from cathedra.client.queuemetrics import InformerMetrics, QueueMetrics
    from cathedra.client.resources import RESOURCECLAIMS
    from cathedra.cluster.parts.generations import generation_of
    from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions, selected, served_resources
    from cathedra.controllers.resourceclaim.metrics import show_claims

    chosen = selected(config.controllers)
    stopped, target, denials = stop_event(), config.target(), Denials(SystemClock())
    if not await server_arrives(target, stopped, clock=SystemClock(), say=say):
        return
    requests = RequestMetrics(SystemClock())
    async with open_transport(
        target, user_agent="kube-controller-manager", denials=denials, requests=requests
    ) as transport:
        clock = SystemClock()
        generation = generation_of(config.feature_gates)
        client = generation.client(Client(transport, clock=clock))
        registry = CollectorRegistry()
        elector = _elector(config, client, "kube-controller-manager")
        async with _accounts(config, target, denials, requests) as client_of:
            manager = ControllerManager(
                client,
                clock=clock,
                random=_random(),
                gates=config.feature_gates,
                elector=elector,
                options=ControllerOptions(
                    controllers=chosen,
                    root_ca=target.certificate_authority.decode(),
                    client_of=None
                    if client_of is None
                    else lambda account: generation.client(client_of(client, account)),
                    served=served_resources(config.feature_gates, generation.definitions),
                    replaced=generation.controllers,
                    metrics=QueueMetrics(registry, clock),
                    observer=InformerMetrics(registry),
                    registry=registry,
                    signer=_signer(config),
                ),
            )
            if "resourceclaim-controller" in chosen:
                show_claims(registry, manager.informers.of(RESOURCECLAIMS).store, config.feature_gates)
            show_release(registry, config.feature_gates)
            requests.export(registry)
            say(f"{len(manager.controllers)} controllers for {target.server}")
            health = dataclasses.replace(config.health, client_authority=target.certificate_authority)
            async with (
                serving_health(health, client, registry, elector, denials=denials, say=say),
                collected_by_memory(clock),
            ):
                await run_until(stopped, manager.run())


def _elector(config: PartConfig, client: Client, lease: str) -> LeaderElector | None:
    if not config.leader_elect:
        return None
    timing = config.lease_timing or LeaseTiming()
    return make_elector(client, config.lease or lease, clock=SystemClock(), random=_random(), timing=timing)


@asynccontextmanager
async def _accounts(
    config: PartConfig, target: Target, denials: Denials, requests: RequestMetrics
) -> AsyncIterator[Callable[[Client, str], Client] | None]:
    """Yield the function that returns the client of a service account in kube-system; None: all controllers are one
    user.
    """
    if not config.own_credentials:
        yield None
        return
    if target.socket is not None:
        raise InvalidOption("--use-service-account-credentials: over a socket all controllers are one user; name a URL")
    from cathedra.client.serviceaccounts import AccountTokens  # start-up time: with the option alone

    # Without the certificate of the manager itself: the API server would authenticate by it and ignore the token.
    anonymous = dataclasses.replace(
        target, client_certificate=b"", client_key=b"", token="", token_file=None, username="", password=""
    )
    clock = SystemClock()
    async with await HTTPTransport.open(
        anonymous, user_agent="kube-controller-manager", denials=denials, requests=requests
    ) as transport:

        def client_of(manager: Client, account: str) -> Client:
            tokens = AccountTokens(manager, "kube-system", account, clock)
            return Client(transport.with_tokens(tokens, anonymous), clock=clock)

        yield client_of


def _signer(config: PartConfig) -> Signer | None:
    if config.signing is None:
        return None
    from cathedra.certificates.authority import Authority  # start-up time: with the option alone
    from cathedra.certificates.requests import sign_request  # start-up time: with the option alone

    certificate, key = config.signing
    try:
        authority = Authority(KeyPair(certificate.read_bytes(), key.read_bytes()))
    except (ValueError, TypeError) as error:
        raise InvalidOption(
            f"--cluster-signing-cert-file and --cluster-signing-key-file: {certificate} and {key} are no authority "
            f"with its key: {error}"
        ) from error
    return lambda request, usages, seconds: sign_request(authority, request, usages, seconds, SystemClock().now())


def _scheduler_configuration(config: PartConfig) -> SchedulerConfiguration:
    from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION, read_configuration  # as above

    if config.scheduler_file is None:
        return DEFAULT_CONFIGURATION
    return read_configuration(config.scheduler_file.read_bytes())


def _scheduler_elector(config: PartConfig, lease: LeaseConfiguration, client: Client) -> LeaderElector | None:
    """Return the elector, if options or file request an election; the options' lease and times take precedence."""
    if not (config.leader_elect or lease.elect):
        return None
    timing = config.lease_timing or LeaseTiming(lease.duration, lease.renew_deadline, lease.retry_period)
    return make_elector(
        client,
        config.lease or lease.name,
        clock=SystemClock(),
        random=_random(),
        namespace=lease.namespace,
        timing=timing,
    )


def _random() -> Random:
    return Random(secrets.randbits(64))
