"""The settings of a node agent: one value, made where the parts are composed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from cathedra.api.core.core_v1 import Taint
from cathedra.releases import NEWEST, git_version

__all__ = ["NodeConfig"]


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one node agent. Seconds everywhere."""

    name: str
    """The Node object's name."""
    root: Path | None
    """What /var/lib/kubelet is to a kubelet. None: nothing on disk, no sockets (a simulated node)."""
    address: str = "127.0.0.1"
    """The node's InternalIP; without ``listen_address`` also what its server listens on."""
    listen_address: str = ""
    """What the server listens on, where that is not ``address``."""
    port: int = 0
    """Where logs and exec are served; 0: any free port. The Node's status tells which."""
    certificate: Path | None = None
    key: Path | None = None
    """PEM files of the server; without both it signs a certificate itself."""
    client_authority: Path | None = None
    """PEM file of the authorities that sign certificates of the server's callers. An agent with a ``root`` needs it."""
    runtime: str = "auto"
    """``auto`` (what answers at ``cri_socket``, else crun, else runc, else processes), ``oci`` (crun or runc, or fail),
    ``cri``, ``crun``, ``runc``, ``process``."""
    cri_socket: str = ""
    """The container runtime's socket, as a path or ``unix:///PATH``; "": the first of the usual ones, with ``cri``."""
    cdi_directories: tuple[Path, ...] = ()
    """Where CDI documents are; () means /etc/cdi, /var/run/cdi and ``root``/cdi."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    """Set when the Node is created."""
    cgroup_mount: Path | None = None
    """Where the unified cgroup hierarchy is in which pods get cgroups of their own; None: where the kernel has it, if
    this agent may write there and has a ``root``."""
    capacity: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Resources by name, as quantities; what is not given is asked from the machine."""
    reserved: Mapping[str, str] = msgspec.field(default_factory=dict)
    """How much of each resource is kept from pods, as quantities: for the system and for the node's own programs."""
    kubelet_version: str = git_version(NEWEST)
    register: bool = True
    """Whether to create the Node object; else it must exist."""
    lease_seconds: float = 40.0
    heartbeat_seconds: float = 10.0
    """How often the lease is renewed; 0: never (another program answers for the node)."""
    status_seconds: float = 300.0
    """How often the Node's status is written when nothing has changed."""
    prepare_retry: tuple[float, float] = (5.0, 60.0)
    """First and longest pause after claims could not be prepared. Kubernetes' own cadence is (75, 75)."""
    unprepare_retry: float = 10.0
    """Pause after claims could not be let go."""
    reconcile_seconds: float = 60.0
    """How often vanished pods with prepared claims are looked for."""
    wiping_seconds: float = 30.0
    """How long a driver may be away before its ResourceSlices are removed."""
    stop_containers: bool = True
    """Whether containers end with the agent. False: they go on, and the next agent finds them."""
    orphan_seconds: float = 600.0
    """How long containers go on when no agent is there; then they are ended."""
    api_server: tuple[str, int] | None = None
    """Host and port that pods are told in KUBERNETES_SERVICE_HOST and _PORT."""
    api_server_ca: str = ""
    """PEM of the authority that signed the API server's certificate, for pods' service account volumes."""
    report_sidecar_health: bool = False
    """Whether device health also appears on restartable init containers, where Kubernetes does not report it."""
