"""Configuration of a part in a process of its own."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cathedra.client import kubeconfig
from cathedra.client.kubeconfig import Target
from cathedra.cluster.config import DriverConfig, InvalidOption
from cathedra.cluster.identity.reach import own_address
from cathedra.cluster.process.health import HealthOptions
from cathedra.cluster.process.plainhealth import PlainEndpoint
from cathedra.releases import DEFAULT_RELEASE, FeatureGates

if TYPE_CHECKING:
    from cathedra.client.leaderelection import LeaseTiming

KUBELET_ROOT: Final = Path("/var/lib/kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """Addresses, certificates and authentication of a node's server (PEM files)."""

    address: str = "127.0.0.1"
    """Address of the server; without ``node_ip`` also the node's InternalIP."""
    node_ip: str = ""
    """The node's InternalIP, under which the API server reaches it."""
    port: int = 0
    """Port; 0: any free one, which the Node's status has."""
    healthz: PlainEndpoint = field(default_factory=lambda: PlainEndpoint("--healthz-port"))
    """Address of the health port, for probes of the same machine."""
    rotate_client: bool = False
    """True if the certificate that the node shows to the API server is renewed before it ends."""
    rotate_server: bool = False
    """True if that of its server is."""
    certificate: Path | None = None
    key: Path | None = None
    """Without both the node signs a certificate itself."""
    client_authority: Path | None = None
    """Authority of callers' certificates; None: that of the kubeconfig."""

    def __post_init__(self) -> None:
        if not _is_address(self.address):
            raise InvalidOption(f"--address must be an IP address to listen on, got {self.address!r}")
        if self.node_ip and (not _is_address(self.node_ip) or ipaddress.ip_address(self.node_ip).is_unspecified):
            raise InvalidOption(
                f"--node-ip must be an IP address under which the node is reached, got {self.node_ip!r}"
            )
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"--port must be between 0 and 65535, got {self.port}")

    @property
    def internal_ip(self) -> str:
        """The node's InternalIP: the one given, else the one that is listened on, else this machine's."""
        listening = ipaddress.ip_address(self.address)
        return self.node_ip or (own_address(listening.version) if listening.is_unspecified else self.address)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class PartConfig:
    """One part beside an API server elsewhere."""

    kubeconfig: Path | None = None
    """File; None: found as kubectl does."""
    release: str = DEFAULT_RELEASE
    gates: Mapping[str, bool] = field(default_factory=dict)
    leader_elect: bool = False
    scheduler_file: Path | None = None
    """File with a KubeSchedulerConfiguration."""
    controllers: str = "*"
    """Selected controllers: names, ``*`` for the default ones, ``-name`` for all without that one."""
    signing: tuple[Path, Path] | None = None
    """Certificate and key (PEM files) of the authority that signs certificates; None: none are signed."""
    own_credentials: bool = False
    """True if each controller is the service account of its name."""
    health: HealthOptions = field(default_factory=lambda: HealthOptions())
    lease: str = ""
    """The lease of the leader; "": the part's own in Kubernetes."""
    lease_timing: LeaseTiming | None = None
    """None: the part's own."""
    node_name: str = ""
    root: Path = KUBELET_ROOT
    """Counterpart of /var/lib/kubelet: sockets, checkpoints, containers."""
    cdi: Path | None = None
    """Directory of CDI documents; None: in ``root``."""
    plugins: Path | None = None
    """Directory with a directory of each driver; None: in ``root``."""
    registry: Path | None = None
    """Directory of registration sockets; None: in ``root``."""
    runtime: str = "auto"
    cri_socket: str = ""
    """Socket of the container runtime; "": the usual places, with the runtime ``cri``."""
    pod_network: str = ""
    """Subnet of the addresses of pods; "": pods share the node's network."""
    reserved: Mapping[str, str] = field(default_factory=dict)
    """Quantities of the node's resources that are withheld from pods."""
    keep_containers: bool = False
    """True if containers outlive a node agent that is stopped."""
    serving: ServingOptions = field(default_factory=lambda: ServingOptions())
    driver: DriverConfig = field(default_factory=DriverConfig)
    module: str = ""
    """``MODULE:DRIVER`` of a driver's author; "": the example driver."""
    driver_file: Path | None = None
    """The driver's own configuration, with which it is made."""
    driver_root: Path | None = None
    """Directory of the kernel driver's files, for drivers that need them."""
    pod_uid: str = ""
    """Names the driver's instance, so that another may run beside it; "": there is one at a time."""
    endpoint: PlainEndpoint = field(default_factory=lambda: PlainEndpoint("--http-endpoint"))
    """Address of the driver's health and metrics."""

    @property
    def feature_gates(self) -> FeatureGates:
        """The release's gates with the overrides."""
        return FeatureGates.for_release(self.release, self.gates)

    def target(self) -> Target:
        """Return the API server's address and credentials.

        Raises:
            KubeconfigError: there is no usable configuration.
        """
        return kubeconfig.load(self.kubeconfig)
