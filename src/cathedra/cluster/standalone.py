"""Each part in a process of its own: the API server on a data directory, the others wherever a kubeconfig points.

That is how a part is put in the place of its Kubernetes counterpart, or beside it: the scheduler against a real API
server, the node agent under a real control plane, the driver at a real kubelet.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cathedra.api.gates import FeatureGates
from cathedra.certificates import KeyPair
from cathedra.client import kubeconfig
from cathedra.client.client import Client
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.leaderelection import LeaderElector, LeaseTiming
from cathedra.clock import SystemClock
from cathedra.cluster.config import ClusterConfig, DriverConfig, InvalidOption
from cathedra.cluster.datadir import DataDir
from cathedra.cluster.electors import make_elector
from cathedra.cluster.gctuning import tune_collection
from cathedra.cluster.health import HealthOptions, serving_health
from cathedra.cluster.signals import run_until, stop_event
from cathedra.files.atomic import write_durable
from cathedra.files.private import private_directory

if TYPE_CHECKING:
    from cathedra.controllers.certificates.signers import Signer
    from cathedra.scheduler.configuration.reading import LeaseConfiguration, SchedulerConfiguration

__all__ = [
    "PartConfig",
    "ServingOptions",
    "run_apiserver",
    "run_controllers",
    "run_driver",
    "run_node",
    "run_scheduler",
]

Say = Callable[[str], None]
"""Where a line of progress goes."""

KUBELET_ROOT: Final = Path("/var/lib/kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """How a node's server shows itself and knows its callers (PEM files)."""

    address: str = "127.0.0.1"
    """The node's InternalIP, and what its server listens on."""
    port: int = 0
    """0: any free one; the Node's status tells which."""
    certificate: Path | None = None
    key: Path | None = None
    """Without both the node signs a certificate itself."""
    client_authority: Path | None = None
    """Who signs callers' certificates; None: the authority that the kubeconfig names."""

    def __post_init__(self) -> None:
        try:
            unusable = ipaddress.ip_address(self.address).is_unspecified
        except ValueError:
            unusable = True
        if unusable:
            raise InvalidOption(
                f"--address must be an IP address under which the node is reached, got {self.address!r}"
            )
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"--port must be between 0 and 65535, got {self.port}")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartConfig:
    """One part beside an API server that runs elsewhere."""

    kubeconfig: Path | None = None
    """None: kubectl's precedence."""
    release: str = "1.37"
    gates: Mapping[str, bool] = field(default_factory=dict)
    leader_elect: bool = False
    scheduler_file: Path | None = None
    """A KubeSchedulerConfiguration."""
    controllers: str = "*"
    """Which controllers run: names, ``*`` for those that run by default, ``-name`` for none of that name."""
    signing: tuple[Path, Path] | None = None
    """Certificate and key (PEM files) of the authority that signs certificates; None: none are signed."""
    own_credentials: bool = False
    """Whether each controller is the service account of its name."""
    health: HealthOptions = field(default_factory=lambda: HealthOptions())
    lease: str = ""
    """The lease of the leader; "": the part's own in Kubernetes."""
    node_name: str = ""
    root: Path = KUBELET_ROOT
    """What /var/lib/kubelet is to a kubelet: sockets, checkpoints, containers."""
    cdi: Path | None = None
    """Where CDI documents are written; None: in ``root``."""
    runtime: str = "auto"
    serving: ServingOptions = field(default_factory=lambda: ServingOptions())
    driver: DriverConfig = field(default_factory=DriverConfig)

    @property
    def feature_gates(self) -> FeatureGates:
        """The release's gates with the overrides."""
        return FeatureGates.for_release(self.release, self.gates)

    def target(self) -> Target:
        """Where the API server is.

        Raises:
            KubeconfigError: there is no usable configuration.
        """
        return kubeconfig.load(self.kubeconfig)


async def run_apiserver(config: ClusterConfig, *, say: Say) -> None:
    """Serve a data directory until SIGINT or SIGTERM.

    Raises:
        InvalidOption: the data directory cannot be used.
        StorageError: the store cannot be read.
        OSError: the port is taken.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.cluster.serving import open_server, write_kubeconfig

    data = DataDir(config.data_dir)
    with data.held():
        stopped = stop_event()
        gates = FeatureGates.for_release(config.release, config.gates)
        server = await open_server(config, gates=gates, clock=SystemClock(), random=_random())
        try:
            write_kubeconfig(server, config, data.kubeconfig, merge=False, say=say)
            say(f"API server {server.url}")
            say(f"export KUBECONFIG={data.kubeconfig}")
            tune_collection()
            await stopped.wait()
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
    from cathedra.scheduler.metrics import SchedulerMetrics
    from cathedra.scheduler.scheduler import Scheduler

    chosen = _scheduler_configuration(config)
    if chosen.kubeconfig and config.kubeconfig is None:
        config = dataclasses.replace(config, kubeconfig=Path(chosen.kubeconfig))
    stopped, target = stop_event(), config.target()
    async with await HTTPTransport.open(target, user_agent="kube-scheduler") as transport:
        client = Client(transport, clock=SystemClock())
        metrics = SchedulerMetrics()
        scheduler = Scheduler(
            client,
            clock=SystemClock(),
            random=_random(),
            gates=config.feature_gates,
            configuration=chosen,
            metrics=metrics,
        )
        metrics.show(scheduler.statistics)
        names = ", ".join(profile.name for profile in chosen.profiles)
        say(f"scheduling for {target.server} as {names}")
        for name in chosen.without_effect:
            say(f"{name} of {config.scheduler_file}: not in this scheduler, without effect")
        elector = _scheduler_elector(config, chosen.lease, client)
        health = dataclasses.replace(config.health, client_authority=target.certificate_authority)
        async with serving_health(health, client, metrics.registry, elector, say=say):
            await run_until(stopped, scheduler.run() if elector is None else elector.run(scheduler.run))


async def run_controllers(config: PartConfig, *, say: Say) -> None:
    """Run the controllers of a cluster until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        LostLeadership: another process may lead now.
    """
    # Only this part: the others would double the start of its process.
    from prometheus_client import CollectorRegistry

    from cathedra.client.queuemetrics import QueueMetrics
    from cathedra.client.resources import RESOURCECLAIMS
    from cathedra.controllers.controller_manager import ControllerManager, selected
    from cathedra.controllers.resourceclaim.metrics import show_claims

    chosen = selected(config.controllers)
    stopped, target = stop_event(), config.target()
    async with await HTTPTransport.open(target, user_agent="kube-controller-manager") as transport:
        clock = SystemClock()
        client = Client(transport, clock=clock)
        registry = CollectorRegistry()
        elector = _elector(config, client, "kube-controller-manager")
        async with _accounts(config, target) as client_of:
            manager = ControllerManager(
                client,
                clock=clock,
                random=_random(),
                gates=config.feature_gates,
                controllers=chosen,
                root_ca=target.certificate_authority.decode(),
                elector=elector,
                client_of=None if client_of is None else lambda account: client_of(client, account),
                metrics=QueueMetrics(registry, clock),
                signer=_signer(config),
            )
            if "resourceclaim-controller" in chosen:
                show_claims(registry, manager.informers.of(RESOURCECLAIMS).store)
            say(f"{len(manager.controllers)} controllers for {target.server}")
            health = dataclasses.replace(config.health, client_authority=target.certificate_authority)
            async with serving_health(health, client, registry, elector, say=say):
                await run_until(stopped, manager.run())


async def run_node(config: PartConfig, *, say: Say) -> None:
    """Run the pods of one node until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        UnprotectedServer: nothing says whose certificates the node's callers show.
        OSError: the root directory cannot be used.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.node.agent import NodeAgent
    from cathedra.node.config import NodeConfig

    stopped, target = stop_event(), config.target()
    server = urlsplit(target.server)
    async with await HTTPTransport.open(target, user_agent="kubelet") as transport:
        node = NodeConfig(
            name=config.node_name,
            root=config.root,
            address=config.serving.address,
            port=config.serving.port,
            certificate=config.serving.certificate,
            key=config.serving.key,
            client_authority=config.serving.client_authority or _authority_file(config.root, target),
            runtime=config.runtime,
            kubelet_version=f"v{config.release}.0",
            api_server=(server.hostname or "127.0.0.1", server.port or 443),
            api_server_ca=target.certificate_authority.decode(),
        )
        client = Client(transport, clock=SystemClock())
        agent = NodeAgent(client, node, clock=SystemClock(), random=_random(), gates=config.feature_gates)

        async def announce() -> None:
            await agent.wait_ready()
            say(f"node {node.name} is Ready; plugins register in {config.root / 'plugins_registry'}")
            if agent.missing:
                say(agent.missing)

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(announce())
                await agent.run()

        await run_until(stopped, run())


async def run_driver(config: PartConfig, *, say: Say) -> None:
    """Run the example driver on one node until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        DriverError: an option is wrong, or the node agent does not take the driver.
    """
    # Only this part: the others would double the start of its process.
    from cathedra.cluster.nodes import driver_for
    from cathedra.driver.run import DriverRunner

    stopped, target = stop_event(), config.target()
    driver = driver_for(config.driver)
    async with await HTTPTransport.open(target, user_agent=driver.name) as transport:
        runner = DriverRunner(
            driver,
            Client(transport, clock=SystemClock()),
            node_name=config.node_name,
            plugin_dir=config.root / "plugins" / driver.name,
            registry_dir=config.root / "plugins_registry",
            cdi_dir=config.cdi or config.root / "cdi",
            clock=SystemClock(),
            random=_random(),
        )

        async def announce() -> None:
            await runner.slices.wait_published()
            say(f"driver {driver.name}: {config.driver.gpus} devices published for node {config.node_name}")

        async def run() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(announce())
                await runner.run()

        await run_until(stopped, run())


def _authority_file(root: Path, target: Target) -> Path | None:
    """The kubeconfig's authority as a file of the node, as clusters usually name it to kubelets; None: it has none."""
    if not target.certificate_authority:
        return None
    file = private_directory(root / "pki") / "client-ca.crt"
    write_durable(file, target.certificate_authority, mode=0o644)
    return file


def _elector(config: PartConfig, client: Client, lease: str) -> LeaderElector | None:
    if not config.leader_elect:
        return None
    return make_elector(client, config.lease or lease, clock=SystemClock(), random=_random())


@asynccontextmanager
async def _accounts(config: PartConfig, target: Target) -> AsyncIterator[Callable[[Client, str], Client] | None]:
    """How a client becomes the one of a service account in kube-system; None: all controllers are one user."""
    if not config.own_credentials:
        yield None
        return
    from cathedra.client.serviceaccounts import ServiceAccountTokens  # start-up time: with the option alone

    # Without the certificate of the manager itself: the API server would look at that before it looks at a token.
    anonymous = dataclasses.replace(
        target, client_certificate=b"", client_key=b"", token="", token_file=None, username="", password=""
    )
    clock = SystemClock()
    async with await HTTPTransport.open(anonymous, user_agent="kube-controller-manager") as transport:

        def client_of(manager: Client, account: str) -> Client:
            tokens = ServiceAccountTokens(manager, "kube-system", account, clock)
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
    """The option or the file asks for an election; the option's lease wins."""
    if not (config.leader_elect or lease.elect):
        return None
    timing = LeaseTiming(lease.duration, lease.renew_deadline, lease.retry_period)
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
