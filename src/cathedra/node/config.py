"""The settings of a node agent: one value, made where the parts are composed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from cathedra.api.core.core_v1 import Taint
from cathedra.releases import DEFAULT_RELEASE, git_version


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of one node agent. Seconds everywhere."""

    name: str
    """The Node object's name."""
    root: Path | None
    """The counterpart of /var/lib/kubelet. None: no files and no sockets (a simulated node)."""
    address: str = "127.0.0.1"
    """The node's InternalIP; without ``listen_address`` also what its server listens on."""
    listen_address: str = ""
    """Address on which the server listens, if not ``address``."""
    port: int = 0
    """Port of logs and exec; 0: any free port. The Node's status has the actual port."""
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
    pod_network: str = ""
    """Subnet of the addresses of pods, with crun or runc; "": pods share the node's network."""
    cdi_directories: tuple[Path, ...] = ()
    """Directories of CDI documents; () means /etc/cdi, /var/run/cdi and ``root``/cdi."""
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    """Set when the Node is created."""
    cgroup_mount: Path | None = None
    """Mount of the unified cgroup hierarchy in which pods get cgroups. None: the kernel's, if the agent may write there
    and has a ``root``.
    """
    capacity: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Quantities by resource name; the machine's own for resources that are not listed."""
    reserved: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Quantities that are withheld from pods, for the system and the node's own programs."""
    kubelet_version: str = git_version(DEFAULT_RELEASE)
    register: bool = True
    """True if the agent creates the Node object; otherwise it must exist."""
    lease_seconds: float = 40.0
    heartbeat_seconds: float = 10.0
    """Interval of lease renewals; 0: never (another program renews it)."""
    status_seconds: float = 300.0
    """Interval of status writes while nothing changes."""
    prepare_retry: tuple[float, float] = (5.0, 60.0)
    """First and longest pause after claims could not be prepared. Kubernetes' own cadence is (75, 75)."""
    unprepare_retry: float = 10.0
    """Pause after a failed unprepare call."""
    reconcile_seconds: float = 60.0
    """Interval of the search for prepared claims of vanished pods."""
    wiping_seconds: float = 30.0
    """Time after which the ResourceSlices of an absent driver are deleted."""
    stop_containers: bool = True
    """True if containers end with the agent. False: they continue, and the next agent adopts them."""
    orphan_seconds: float = 600.0
    """Time after which containers without an agent are stopped."""
    api_server: tuple[str, int] | None = None
    """Host and port in KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT of containers."""
    api_server_ca: str = ""
    """PEM of the authority that signed the API server's certificate, for pods' service account volumes."""
    report_sidecar_health: bool = False
    """True if device health is also reported for restartable init containers; Kubernetes does not report it there."""
