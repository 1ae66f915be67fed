"""Configuration of a cluster: the options of ``cathedra up``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from cathedra.api.formats import dns_subdomain
from cathedra.api.quantity import Quantity, QuantityError
from cathedra.cluster import InvalidOption
from cathedra.cluster.identity.reach import Reach
from cathedra.profiles import HardwareProfile
from cathedra.releases import DEFAULT_RELEASE, RELEASES, FeatureGates

__all__ = ["ClusterConfig", "DriverConfig", "InvalidOption", "KubeletOptions", "NodeFault", "default_data_dir"]

MOST_SERVERS: Final = 64
RUNTIMES: Final = ("auto", "cri", "oci", "process", "simulated")

PROFILE_FAMILIES: Final = {"gpu": "gpu", "mig": "gpu", "net": "net", "cpu": "cpu", "test": "test"}
"""The profiles of the example driver, and the first word of its name with each."""

FLAPPING: Final = "flapping"
SLOW_PREPARE: Final = "slow-prepare"
DYING_DEVICES: Final = "dying-devices"
FAULTS: Final = (FLAPPING, SLOW_PREPARE, DYING_DEVICES)
"""Faults that can be injected into simulated nodes."""

PARTITIONS_GATE: Final = "DRAPartitionableDevices"
SHARES_GATE: Final = "DRAConsumableCapacity"
BINDING_GATE: Final = "DRADeviceBindingConditions"
PROFILE_GATES: Final = {"mig": PARTITIONS_GATE, "net": SHARES_GATE, "cpu": "DRANodeAllocatableResources"}
MAX_DRIVER_NAME: Final = 63
MAX_PARTITIONS: Final = 16
"""More parts than real GPUs are cut into."""


def default_data_dir(environment: Mapping[str, str] | None = None) -> Path:
    """``$CATHEDRA_DATA_DIR``, else ``cathedra`` in the user's state directory."""
    environment = os.environ if environment is None else environment
    if chosen := environment.get("CATHEDRA_DATA_DIR"):
        return Path(chosen)
    state = environment.get("XDG_STATE_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".local" / "state"
    return Path(state) / "cathedra"


class DriverConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of the example driver: profile, name, and devices."""

    profile: str = "gpu"
    name: str = ""
    """Given as "", it becomes that of the profile, as ``gpu.example.com``."""
    gpus: int = 8
    """GPUs on each node, or whatever devices the profile has."""
    partitions: int = 0
    """Equal parts into which each GPU can be cut; 0: it cannot."""
    memory: str = "80Gi"
    attributes: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Attributes that replace or join the example's own, as text."""
    shared: bool = False
    """True if many claims may have a share of a GPU each."""
    cpus: int = 4
    """CPUs of each simulated NUMA node."""
    publish_status: bool = False
    """True if devices are reported in the status of claims."""
    binding_conditions: bool = False
    """True if pods are bound only after the driver has declared their devices ready."""

    def __post_init__(self) -> None:
        if self.profile not in PROFILE_FAMILIES:
            raise InvalidOption(f"--driver-profile must be one of {', '.join(PROFILE_FAMILIES)}, got {self.profile!r}")
        if not self.name:
            force_setattr(self, "name", f"{PROFILE_FAMILIES[self.profile]}.example.com")
        if self.profile != "gpu" and (self.partitions or self.shared):
            option = "--gpu-partitions" if self.partitions else "--allow-multiple-allocations"
            raise InvalidOption(f"{option} is for the profile gpu; {self.profile!r} has it not")
        if self.cpus < 1:
            raise InvalidOption(f"--cpus-per-numa-node must be at least 1, got {self.cpus}")
        if self.gpus < 0:
            raise InvalidOption(f"--gpus must not be negative, got {self.gpus}")
        if not 0 <= self.partitions <= MAX_PARTITIONS:
            raise InvalidOption(f"--gpu-partitions must be between 0 and {MAX_PARTITIONS}, got {self.partitions}")
        try:
            Quantity(self.memory)
        except QuantityError as error:
            raise InvalidOption(f"--gpu-memory {self.memory!r} is no quantity; write it as 80Gi") from error
        if len(self.name) > MAX_DRIVER_NAME or dns_subdomain(self.name):
            raise InvalidOption(
                f"--driver-name {self.name!r} is no DNS name as gpu.example.com, of at most 63 characters"
            )

    @property
    def needed_gates(self) -> Mapping[str, str]:
        """Return each used option with the feature gate without which the API server drops its fields."""
        needed: dict[str, str] = {}
        if self.partitions:
            needed["--gpu-partitions"] = PARTITIONS_GATE
        if self.shared:
            needed["--allow-multiple-allocations"] = SHARES_GATE
        if self.binding_conditions:
            needed["--binding-conditions"] = BINDING_GATE
        if self.profile in PROFILE_GATES:
            needed[f"--driver-profile {self.profile}"] = PROFILE_GATES[self.profile]
        return needed


class NodeFault(msgspec.Struct, frozen=True):
    """A way in which simulated nodes fail on purpose, and the share of nodes that do."""

    profile: str
    share: float = 1.0

    def __post_init__(self) -> None:
        if self.profile not in FAULTS:
            raise InvalidOption(f"--fail must be one of {', '.join(FAULTS)}, got {self.profile!r}")
        if not 0 < self.share <= 1:
            raise InvalidOption(f"--fail {self.profile}: the share must be in (0, 1], got {self.share:g}")


class KubeletOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's credentials at nodes, if not issued by the cluster (PEM files)."""

    client_certificate: Path | None = None
    client_key: Path | None = None
    authority: Path | None = None
    """Authority of the nodes' serving certificates; None: the cluster's."""

    def __post_init__(self) -> None:
        if (self.client_certificate is None) != (self.client_key is None):
            raise InvalidOption("--kubelet-client-certificate and --kubelet-client-key need each other")
        for file in (self.client_certificate, self.client_key, self.authority):
            if file is not None and not file.is_file():
                raise InvalidOption(f"{file} is no file; the options --kubelet-… name PEM files")


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a whole cluster."""

    data_dir: Path
    nodes: int = 1
    apiserver_count: int = 1
    """Processes that serve requests on the port; all but the first are children."""
    log_level: str = "info"
    log_format: str = "text"
    """Format of the logs of child processes."""
    port: int = 0
    """Port of the API server; 0 takes the one used before, or a free one."""
    reach: Reach = msgspec.field(default_factory=Reach)
    store: str = "sqlite"
    accept_lost_writes: int | None = None
    """The acknowledged revision without which a database that lost it may be opened; None: it may not."""
    runtime: str = "auto"
    cri_socket: str = ""
    """Socket of the container runtime; "": the usual places, with the runtime ``cri``."""
    faults: tuple[NodeFault, ...] = ()
    """Injected faults of simulated nodes."""
    release: str = DEFAULT_RELEASE
    gates: Mapping[str, bool] = msgspec.field(default_factory=dict)
    runtime_config: Mapping[str, bool] = msgspec.field(default_factory=dict)
    """API versions that are served or not, over the release's defaults."""
    max_requests_inflight: int = 600
    """Requests that the API server works on at the same time."""
    audit_log: Path | None = None
    """File of the audit log; None: none."""
    audit_policy: Path | None = None
    """File of the audit policy; None: the metadata of all requests."""
    kubelet: KubeletOptions = msgspec.field(default_factory=KubeletOptions)
    driver: DriverConfig = msgspec.field(default_factory=DriverConfig)
    profile: HardwareProfile | None = None
    """Hardware profile of nodes; None: the example driver's devices."""
    context: str = "cathedra"
    """Name of the kubeconfig context."""
    leaving: tuple[str, ...] = ()
    """Nodes that the cluster had before: they are drained, then removed."""

    def __post_init__(self) -> None:
        if self.nodes < 0:
            raise InvalidOption(f"--nodes must not be negative, got {self.nodes}")
        if not 1 <= self.apiserver_count <= MOST_SERVERS:
            raise InvalidOption(f"--apiserver-count must be between 1 and {MOST_SERVERS}, got {self.apiserver_count}")
        if not 0 <= self.port <= 65535:
            raise InvalidOption(f"--port must be between 0 and 65535, got {self.port}")
        if self.max_requests_inflight < 1:
            raise InvalidOption(f"--max-requests-inflight must be at least 1, got {self.max_requests_inflight}")
        if self.store not in ("sqlite", "memory") and not self.store.startswith("etcd://"):
            raise InvalidOption(f"--store must be sqlite, memory or etcd://HOST:PORT, got {self.store!r}")
        if self.runtime not in RUNTIMES:
            raise InvalidOption(f"--runtime must be one of {', '.join(RUNTIMES)}, got {self.runtime!r}")
        if self.faults and self.runtime != "simulated":
            raise InvalidOption("--fail needs --runtime simulated: other nodes fail by themselves")
        if self.profile is not None and any(fault.profile == DYING_DEVICES for fault in self.faults):
            raise InvalidOption(f"--fail {DYING_DEVICES} is for the example driver's devices, not for --profile")
        if self.release not in RELEASES:
            raise InvalidOption(f"--kubernetes-version must be one of {', '.join(RELEASES)}, got {self.release!r}")
        needed = self.driver.needed_gates
        if self.profile is not None:
            needed = {f"--profile {self.profile.name}": PARTITIONS_GATE} if self.profile.uses_counters else {}
        for option, gate in needed.items():
            if not FeatureGates.for_release(self.release, self.gates)[gate]:
                raise InvalidOption(f"{option} needs --feature-gates {gate}=true in {self.release}")

    @property
    def shares_store(self) -> bool:
        """Return True if other clusters' processes may work on the same objects."""
        return self.store.startswith("etcd://")

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that nodes come with."""
        return (self.driver.name,) if self.profile is None else self.profile.drivers

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes: ``node-0``, ``node-1`` …"""
        return tuple(f"node-{number}" for number in range(self.nodes))
