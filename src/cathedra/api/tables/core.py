"""Tables of the core kinds besides pods (spec: apimachinery.md, section 10)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.definition import Column
from cathedra.api.struct import Time
from cathedra.api.tables.ages import AGE, NAME, age

NODE_COLUMNS: Final = (
    NAME,
    Column("Status", description="Whether the node is ready for pods."),
    Column("Roles", description="The node's roles, from its labels."),
    AGE,
    Column("Version", description="The node agent's version."),
    Column("Internal-IP", priority=1, description="The node's address inside the cluster."),
    Column("External-IP", priority=1, description="The node's address from outside."),
    Column("OS-Image", priority=1, description="The operating system."),
    Column("Kernel-Version", priority=1, description="The kernel."),
    Column("Container-Runtime", priority=1, description="What runs the containers."),
)
NAMESPACE_COLUMNS: Final = (NAME, Column("Status", description="Active or Terminating."), AGE)
EVENT_COLUMNS: Final = (
    Column("Last Seen", description="How long ago it happened last."),
    Column("Type", description="Normal or Warning."),
    Column("Reason", description="What happened, in a word."),
    Column("Object", description="What it happened to."),
    Column("Subobject", priority=1, description="The part of the object."),
    Column("Source", priority=1, description="Who reports it."),
    Column("Message", description="What happened, in a sentence."),
    Column("First Seen", priority=1, description="How long ago it happened first."),
    Column("Count", priority=1, description="How often it happened."),
    Column("Name", format="name", priority=1, description="Name of the event object."),
)
CONFIGMAP_COLUMNS: Final = (NAME, Column("Data", type="string", description="How many entries."), AGE)
SECRET_COLUMNS: Final = (
    NAME,
    Column("Type", description="What the secret is for."),
    Column("Data", type="string", description="How many entries."),
    AGE,
)
SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type", description="How the service is reached."),
    Column("Cluster-IP", description="Its address in the cluster."),
    Column("External-IP", description="Its addresses from outside."),
    Column("Port(s)", description="Its ports."),
    AGE,
    Column("Selector", priority=1, description="The pods behind it."),
)
QUOTA_COLUMNS: Final = (
    NAME,
    Column("Request", description="Requests and counts: used/allowed."),
    Column("Limit", description="Limits: used/allowed."),
    AGE,
)


def node_cells(node: core_v1.Node, now: float) -> list[Any]:
    """Cells of a Node."""
    addresses = {address.type: address.address for address in reversed(node.status.addresses)}
    info = node.status.node_info
    kernel = info.kernel_version if info else ""
    if kernel and info and info.architecture:
        kernel = f"{kernel} ({info.architecture})"
    return [
        node.metadata.name,
        _node_status(node),
        _roles(node.metadata.labels),
        age(node.metadata.creation_timestamp, now),
        info.kubelet_version if info else "",
        addresses.get("InternalIP") or "<none>",
        addresses.get("ExternalIP") or "<none>",
        (info.os_image if info else "") or "<unknown>",
        kernel or "<unknown>",
        (info.container_runtime_version if info else "") or "<unknown>",
    ]


def _node_status(node: core_v1.Node) -> str:
    words = ["Unknown"]
    for condition in node.status.conditions:
        if condition.type == "Ready":
            words = ["Ready" if condition.status == "True" else "NotReady"]
    if node.spec.unschedulable:
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(labels: dict[str, str]) -> str:
    prefix = "node-role.kubernetes.io/"
    roles = {label.removeprefix(prefix) for label in labels if label.startswith(prefix) and label != prefix}
    roles |= {value for label, value in labels.items() if label == "kubernetes.io/role" and value}
    return ",".join(sorted(roles)) or "<none>"


def namespace_cells(namespace: core_v1.Namespace, now: float) -> list[Any]:
    """Cells of a Namespace."""
    return [namespace.metadata.name, namespace.status.phase, age(namespace.metadata.creation_timestamp, now)]


def event_cells(event: core_v1.Event, now: float) -> list[Any]:
    """Cells of an Event."""
    first: Time | None = event.first_timestamp or event.event_time
    last: Time | None = event.last_timestamp or first
    count = event.count
    if event.series is not None:
        last = event.series.last_observed_time or last
        count = event.series.count
    target = event.involved_object
    return [
        age(last, now),
        event.type,
        event.reason,
        f"{target.kind.lower()}/{target.name}" if target.name else target.kind.lower(),
        target.field_path,
        _source(event),
        event.message.strip(),
        age(first, now),
        max(count, 1),
        event.metadata.name,
    ]


def _source(event: core_v1.Event) -> str:
    component = event.source.component or event.reporting_component
    host = event.source.host or event.reporting_instance
    return f"{component}, {host}" if host else component


def configmap_cells(config: core_v1.ConfigMap, now: float) -> list[Any]:
    """Cells of a ConfigMap."""
    entries = len(config.data) + len(config.binary_data)
    return [config.metadata.name, entries, age(config.metadata.creation_timestamp, now)]


def secret_cells(secret: core_v1.Secret, now: float) -> list[Any]:
    """Cells of a Secret."""
    return [secret.metadata.name, secret.type, len(secret.data), age(secret.metadata.creation_timestamp, now)]


def service_cells(service: core_v1.Service, now: float) -> list[Any]:
    """Cells of a Service."""
    spec = service.spec
    ports = ",".join(_port(port) for port in spec.ports)
    selector = ",".join(f"{key}={value}" for key, value in sorted(spec.selector.items()))
    return [
        service.metadata.name,
        spec.type,
        spec.cluster_ip or "<none>",
        ",".join(spec.external_ips) or "<none>",
        ports or "<none>",
        age(service.metadata.creation_timestamp, now),
        selector or "<none>",
    ]


def _port(port: core_v1.ServicePort) -> str:
    node_port = f":{port.node_port}" if port.node_port else ""
    return f"{port.port}{node_port}/{port.protocol}"


def quota_cells(quota: core_v1.ResourceQuota, now: float) -> list[Any]:
    """Cells of a ResourceQuota."""
    used = quota.status.used
    entries = {name: f"{name}: {used.get(name, 0)}/{hard}" for name, hard in sorted(quota.status.hard.items())}
    requests = ", ".join(text for name, text in entries.items() if not name.startswith("limits"))
    limits = ", ".join(text for name, text in entries.items() if name.startswith("limits"))
    return [quota.metadata.name, requests, limits, age(quota.metadata.creation_timestamp, now)]
