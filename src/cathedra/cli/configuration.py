"""From parsed options to the configuration of a cluster or a part."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from cathedra.api.quantity import Quantity, QuantityError
from cathedra.client.kubeconfig import current_context
from cathedra.cluster.config import (
    ClusterConfig,
    DriverConfig,
    InvalidOption,
    KubeletOptions,
    NodeFault,
    default_data_dir,
    parse_nodes,
    servers_for,
    usable_processors,
)
from cathedra.cluster.data.datadir import DataDir, node_of
from cathedra.cluster.data.directories import DEFAULT_NAME, current_cluster, directory_of, selected
from cathedra.cluster.identity.reach import Reach
from cathedra.profiles import load_profile
from cathedra.releases import FeatureGates

RESERVABLE: Final = ("cpu", "memory", "ephemeral-storage", "pid")
"""Resources that can be reserved, as with a kubelet."""


def selected_data(arguments: argparse.Namespace) -> DataDir:
    """Return the data directory of the existing cluster that a command means (`cathedra.cluster.data.directories`).

    Raises:
        InvalidOption: no cluster may have that name, two names were given, or several clusters are possible.
    """
    given: Path | None = arguments.data_dir
    if given is not None:
        return DataDir(given.expanduser().absolute())
    name, other = getattr(arguments, "name", None) or "", getattr(arguments, "cluster", None) or ""
    if name and other and name != other:
        raise InvalidOption(f"two clusters are named, {name!r} and {other!r}: name one")
    return selected(name or other)


class DriverPlace(NamedTuple):
    """API server, node and directories of a driver."""

    kubeconfig: Path | None
    node_name: str
    root: Path
    """Directory that corresponds to the kubelet's /var/lib/kubelet."""
    plugins: Path
    registry: Path
    cdi: Path


def driver_place(arguments: argparse.Namespace, environment: Mapping[str, str]) -> DriverPlace:
    """Return the place of a driver: by the options, else as the environment of a DaemonSet's pod, else a node of
    ``cathedra up``.

    Raises:
        InvalidOption: the node has no name, or is none of the cluster's.
    """
    name: str = arguments.node_name or environment.get("NODE_NAME", "")
    given: Path | None = arguments.kubeconfig
    root = absolute(arguments.root_dir)
    data = _cluster_of_driver(arguments, environment)
    if data is not None:
        found, node_root = node_of(data, name)
        given, root, name = given or found, root or node_root, name or node_root.name
    if not name:
        raise InvalidOption("--node-name or $NODE_NAME is needed: the node that the driver runs on")
    root = root or default_data_dir() / "nodes" / name

    def directory(variable: str, default: Path) -> Path:
        # An option that names the node's directory means its subdirectories too.
        return default if arguments.root_dir or data is not None else Path(environment.get(variable, default))

    return DriverPlace(
        given,
        name,
        root,
        directory("KUBELET_PLUGINS_DIRECTORY_PATH", root / "plugins"),
        directory("KUBELET_REGISTRAR_DIRECTORY_PATH", root / "plugins_registry"),
        absolute(arguments.cdi_dir) or directory("CDI_ROOT", root / "cdi"),
    )


def _cluster_of_driver(arguments: argparse.Namespace, environment: Mapping[str, str]) -> DataDir | None:
    """Return the cluster of ``cathedra up`` on whose node the driver runs; None: the node is elsewhere."""
    if arguments.cluster or arguments.data_dir:
        return selected_data(arguments)
    if arguments.kubeconfig or arguments.root_dir or "KUBELET_PLUGINS_DIRECTORY_PATH" in environment:
        return None
    # $KUBECONFIG may name a cluster that ``cathedra up`` did not start: the driver is meant for that.
    if environment.get("KUBECONFIG") and current_context() is not None and current_cluster() is None:
        return None
    data = selected()
    return data if data.kubeconfig.exists() else None


def data_dir(arguments: argparse.Namespace) -> Path:
    """Return the data directory in which a cluster is started, absolute: the one given, else that of its name.

    Raises:
        InvalidOption: no cluster may have that name.
    """
    given: Path | None = getattr(arguments, "data_dir", None)
    chosen = given or directory_of(getattr(arguments, "name", None) or DEFAULT_NAME)
    return chosen.expanduser().absolute()


def cluster_config(arguments: argparse.Namespace) -> ClusterConfig:
    """Return the configuration of ``cathedra up``.

    Raises:
        InvalidOption: an option is invalid.
        ProfileError: the profile does not exist.
    """
    nodes, groups = parse_nodes(arguments.nodes)
    given: int | None = arguments.apiserver_count
    return msgspec.structs.replace(
        server_config(arguments),
        apiserver_count=servers_for(usable_processors()) if given is None else given,
        nodes=nodes,
        groups=groups,
        runtime=arguments.runtime,
        cri_socket=arguments.cri_socket,
        pod_network=arguments.pod_network,
        scheduler_file=absolute(arguments.scheduler_config),
        faults=tuple(_fault(entry) for entry in arguments.fail),
        driver=driver_config(arguments),
        profile=load_profile(arguments.profile) if arguments.profile else None,
    )


def _fault(entry: str) -> NodeFault:
    profile, equals, share = entry.partition("=")
    try:
        return NodeFault(profile, float(share) if equals else 1.0)
    except ValueError as error:
        raise InvalidOption(f"--fail {entry!r}: the share must be a number as 0.1") from error


def server_config(arguments: argparse.Namespace) -> ClusterConfig:
    """Return the configuration of ``cathedra apiserver``: a cluster without nodes.

    Raises:
        InvalidOption: an option is invalid.
    """
    return ClusterConfig(
        data_dir=data_dir(arguments),
        nodes=0,
        log_level=arguments.log_level,
        log_format=arguments.log_format,
        port=arguments.port,
        reach=Reach(
            bind_address=arguments.bind_address,
            advertise_address=arguments.advertise_address,
            names=tuple(arguments.tls_san),
            client_authority=absolute(arguments.client_ca_file),
        ),
        store=arguments.store,
        accept_lost_writes=arguments.accept_lost_writes,
        release=arguments.kubernetes_version,
        gates=gate_overrides(arguments.feature_gates),
        runtime_config=_switches("--runtime-config", arguments.runtime_config),
        apiserver_count=1 if arguments.apiserver_count is None else arguments.apiserver_count,
        max_requests_inflight=arguments.max_requests_inflight,
        kubelet=KubeletOptions(
            client_certificate=absolute(arguments.kubelet_client_certificate),
            client_key=absolute(arguments.kubelet_client_key),
            authority=absolute(arguments.kubelet_certificate_authority),
        ),
        audit_log=absolute(arguments.audit_log_path),
        audit_policy=absolute(arguments.audit_policy_file),
    )


def driver_config(arguments: argparse.Namespace) -> DriverConfig:
    """Return the configuration of the example driver.

    Raises:
        InvalidOption: an attribute has no value, or a quantity is invalid.
    """
    return DriverConfig(
        profile=arguments.driver_profile,
        name=arguments.driver_name,
        shared=arguments.allow_multiple_allocations,
        cpus=arguments.cpus_per_numa_node,
        publish_status=arguments.publish_device_status,
        binding_conditions=arguments.binding_conditions,
        gpus=arguments.gpus,
        partitions=arguments.gpu_partitions,
        memory=arguments.gpu_memory,
        attributes=dict(pairs("--gpu-attribute", arguments.gpu_attribute)),
    )


def gate_overrides(text: str) -> dict[str, bool]:
    """``A=true,B=false`` as a table.

    Raises:
        InvalidOption: an entry is not of that form.
    """
    return _switches("--feature-gates", text)


def gates_without_effect(release: str, gates: Mapping[str, bool]) -> list[str]:
    """Return a line for each gate that ``gates`` names and changes, and that switches nothing in Cathedra.

    Raises:
        UnknownGate: the release has no such gate, or it cannot be changed.
    """
    changed = FeatureGates.for_release(release, gates).without_effect()
    # `AllAlpha` names none of the sixty gates that it changes.
    named = [gate for gate in changed if gate in gates]
    return [f"the feature gate {gate} of Kubernetes {release} has no effect in Cathedra" for gate in named]


def _switches(option: str, text: str) -> dict[str, bool]:
    switches: dict[str, bool] = {}
    for name, value in pairs(option, filter(None, text.split(","))):
        if value.lower() not in ("true", "false"):
            raise InvalidOption(f"{option} {name}={value}: the value must be true or false")
        switches[name] = value.lower() == "true"
    return switches


def absolute(path: Path | None) -> Path | None:
    """Return the file meant by an option, if it was given."""
    return None if path is None else path.expanduser().absolute()


def reserved_resources(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the sum of ``--kube-reserved`` and ``--system-reserved``, as quantities.

    Raises:
        InvalidOption: the value is no list of resources and quantities, or a resource cannot be reserved.
    """
    total: dict[str, Quantity] = {}
    for option, text in (
        ("--kube-reserved", arguments.kube_reserved),
        ("--system-reserved", arguments.system_reserved),
    ):
        for name, value in pairs(option, filter(None, text.split(","))):
            total[name] = total.get(name, Quantity("0")) + _reserved(option, name, value)
    return {name: str(quantity) for name, quantity in total.items()}


def _reserved(option: str, name: str, value: str) -> Quantity:
    if name not in RESERVABLE:
        raise InvalidOption(f"{option}: cannot reserve {name!r} resource; there are {', '.join(RESERVABLE)}")
    try:
        quantity = Quantity(value)
    except QuantityError as error:
        raise InvalidOption(f"{option}: {value!r} is no quantity of {name}; write it as 500m or 1Gi") from error
    if quantity.nanos < 0:
        raise InvalidOption(f"{option}: resource quantity for {name!r} cannot be negative: {value}")
    return quantity


def pairs(option: str, entries: Iterable[str]) -> Iterable[tuple[str, str]]:
    """``NAME=VALUE`` entries of an option.

    Raises:
        InvalidOption: one is not of that form.
    """
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not name or not equals:
            raise InvalidOption(f"{option} {entry!r} is not of the form NAME=VALUE")
        yield name.strip(), value.strip()


def kept_where(store: str) -> str:
    """Return the text about the objects of a stopped cluster."""
    if store == "memory":
        return "its objects were in memory and are gone"
    if store.startswith("etcd://"):
        return f"its objects are kept in etcd ({store.removeprefix('etcd://').partition('?')[0]})"
    return "its objects are kept"
