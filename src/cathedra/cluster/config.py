"""Configuration of a cluster: the options of ``cathedra up``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from cathedra.api.core.core_v1 import Taint
from cathedra.api.formats import dns_label, dns_subdomain
from cathedra.api.quantity import Quantity, QuantityError
from cathedra.cluster import InvalidOption
from cathedra.cluster.identity.reach import Reach
from cathedra.profiles import HardwareProfile, load_profile
from cathedra.releases import DEFAULT_RELEASE, RELEASES, FeatureGates

__all__ = [
    "ClusterConfig",
    "DriverConfig",
    "InvalidOption",
    "KubeletOptions",
    "NodeFault",
    "NodeGroupSpec",
    "default_data_dir",
    "parse_nodes",
    "servers_for",
    "usable_processors",
]

MOST_SERVERS: Final = 64
_MOST_BY_DEFAULT: Final = 8
_PROCESSORS_OF_SERVER: Final = 4
"""An API server uses one processor; its clients, the scheduler and the controllers need the others. On two processors
a second server makes lists and pods slower."""
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
PLAIN_GROUP: Final = "node"
"""Name of the nodes that are in no group: ``node-0`` …"""
MAX_GROUP: Final = 50
"""Characters of a group's name, so that the names of its nodes are labels."""
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


class NodeGroupSpec(msgspec.Struct, frozen=True):
    """Nodes with equal devices: ``GROUP-0``, ``GROUP-1`` …"""

    name: str
    count: int
    profile: HardwareProfile | None = None
    """None: the nodes have no devices."""
    names: tuple[str, ...] = ()
    """Names of the nodes, if they do not follow from the group's."""
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = {}

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes."""
        return self.names or tuple(f"{self.name}-{number}" for number in range(self.count))


def parse_nodes(entries: Iterable[str]) -> tuple[int, tuple[NodeGroupSpec, ...]]:
    """Return the number of nodes of the cluster's own kind, and the groups: ``2``, ``cpu=2``, ``gpu=4:h100-8``.

    Raises:
        InvalidOption: an entry has another form, or a name occurs twice.
        ProfileError: there is no such profile.
    """
    counts: dict[str, int] = {}
    groups: list[NodeGroupSpec] = []
    for entry in entries:
        name, equals, rest = entry.partition("=") if "=" in entry else ("", "", entry)
        number, _, profile = rest.partition(":")
        name = name if equals else PLAIN_GROUP
        if equals and (dns_label(name) or name == PLAIN_GROUP or len(name) > MAX_GROUP):
            raise InvalidOption(
                f"--nodes {entry!r}: the name of a group is one of lower case letters, digits and '-', and not "
                f"{PLAIN_GROUP!r}"
            )
        if name in counts:
            what = f"the group {name!r}" if equals else "a number without a group"
            raise InvalidOption(f"--nodes names {what} twice")
        counts[name] = _count(number)
        if equals:
            groups.append(NodeGroupSpec(name, counts[name], load_profile(profile) if profile else None))
        elif profile:
            raise InvalidOption(f"--nodes {entry!r}: a profile needs a group, as in gpu={entry}")
    return counts.get(PLAIN_GROUP, 0), tuple(groups)


def _count(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise InvalidOption(f"--nodes must be a whole number, got {text!r}; a group is written as gpu=4:h100-8")
    if int(text) < 0:
        raise InvalidOption(f"--nodes must not be negative, got {text}")
    return int(text)


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


def servers_for(processors: int) -> int:
    """Return the number of API servers of a cluster on a machine with that number of processors."""
    return max(1, min(_MOST_BY_DEFAULT, processors // _PROCESSORS_OF_SERVER))


def usable_processors() -> int:
    """Return the number of processors that this process may use: those of its affinity, within the limit of its
    control group."""
    allowed = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return max(1, min(allowed, int(quota) // int(period)))
    # No control groups of version 2, or no limit (``max``).
    except (OSError, ValueError):
        return allowed


class ClusterConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a whole cluster."""

    data_dir: Path
    nodes: int = 1
    """Nodes with the devices of ``driver`` or ``profile``."""
    groups: tuple[NodeGroupSpec, ...] = ()
    """Further nodes, each group with devices of its own."""
    objects: tuple[Any, ...] = ()
    """Objects to create once the nodes are ready, each with its `ResourceRef`."""
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
    scheduler_file: Path | None = None
    """File with a KubeSchedulerConfiguration; None: the scheduler's defaults."""
    pod_network: str = ""
    """Subnet of the addresses of pods; "": pods share the node's network."""
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
        twice = [name for name, count in Counter(self.node_names).items() if count > 1]
        if twice:
            raise InvalidOption(f"two nodes have the name {twice[0]!r}: choose other groups with --nodes")
        if any(group.names for group in self.groups) and self.runtime != "simulated":
            raise InvalidOption("--from-dump needs --runtime simulated: the nodes of a dump are not here")
        if self.faults and self.runtime != "simulated":
            raise InvalidOption("--fail needs --runtime simulated: other nodes fail by themselves")
        if self.profile is not None and any(fault.profile == DYING_DEVICES for fault in self.faults):
            raise InvalidOption(f"--fail {DYING_DEVICES} is for the example driver's devices, not for --profile")
        if self.release not in RELEASES:
            raise InvalidOption(f"--kubernetes-version must be one of {', '.join(RELEASES)}, got {self.release!r}")
        needed = dict(self.driver.needed_gates)
        if self.profile is not None:
            needed = {}
        for profile in filter(None, (self.profile, *(group.profile for group in self.groups))):
            if profile.uses_counters:
                needed[f"--profile {profile.name}"] = PARTITIONS_GATE
        for option, gate in needed.items():
            if not FeatureGates.for_release(self.release, self.gates)[gate]:
                raise InvalidOption(f"{option} needs --feature-gates {gate}=true in {self.release}")

    @property
    def shares_store(self) -> bool:
        """Return True if other clusters' processes may work on the same objects."""
        return self.store.startswith("etcd://")

    @property
    def drivers(self) -> tuple[str, ...]:
        """The drivers that nodes outside of groups come with."""
        return (self.driver.name,) if self.profile is None else self.profile.drivers

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the nodes: ``node-0``, ``node-1`` …, and those of the groups."""
        plain = tuple(f"{PLAIN_GROUP}-{number}" for number in range(self.nodes))
        return plain + tuple(name for group in self.groups for name in group.node_names)

    def group_of(self, node: str) -> NodeGroupSpec | None:
        """Return the group of a node; None if it is in none."""
        prefix = node.rpartition("-")[0]
        return next((one for one in self.groups if (node in one.names if one.names else prefix == one.name)), None)
