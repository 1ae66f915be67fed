"""Services: kinds of addresses and their ports."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import core_v1
from cathedra.api.formats import dns_1035_label
from cathedra.api.struct import replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import PROXY_VERBS, Column, ConnectedSubresource, ResourceDefinition

SERVICE_COLUMNS: Final = (
    NAME,
    Column("Type", description="How the service is reached."),
    Column("Cluster-IP", description="Its address in the cluster."),
    Column("External-IP", description="Its addresses from outside."),
    Column("Port(s)", description="Its ports."),
    AGE,
    Column("Selector", priority=1, description="The pods behind it."),
)


def default_service(service: core_v1.Service) -> core_v1.Service:
    """Return the object with its defaults: a service inside the cluster, reached at the ports of its pods."""
    spec = service.spec
    changes: dict[str, Any] = absent(spec, type="ClusterIP", session_affinity="None")
    kind = spec.type or "ClusterIP"
    if kind != "ExternalName":
        changes |= absent(spec, internal_traffic_policy="Cluster")
    if kind in ("NodePort", "LoadBalancer"):
        changes |= absent(spec, external_traffic_policy="Cluster")
    if kind == "LoadBalancer":
        changes |= absent(spec, allocate_load_balancer_node_ports=True)
    if spec.cluster_ip == "None" and not spec.cluster_ips:
        changes["cluster_ips"] = ("None",)
        # The cluster has addresses of one family; endpoints that a user writes may be of both.
        families, policy = (("IPv4",), "SingleStack") if spec.selector else (("IPv4", "IPv6"), "RequireDualStack")
        changes |= {"ip_families": spec.ip_families or families} | absent(spec, ip_family_policy=policy)
    changes["ports"] = tuple(_service_port(port) for port in spec.ports)
    return replace(service, spec=replace(spec, **changes))


def _service_port(port: core_v1.ServicePort) -> core_v1.ServicePort:
    changes: dict[str, Any] = absent(port, protocol="TCP")
    if port.target_port in ("", 0):
        changes["target_port"] = port.port
    return replace(port, **changes)


def service_definition() -> ResourceDefinition[core_v1.Service]:
    """Return the definition of services."""
    return BuiltinKind(
        core_v1.Service,
        "services",
        namespaced=True,
        default=default_service,
        connected=(ConnectedSubresource("proxy", PROXY_VERBS, "ServiceProxyOptions"),),
        table=(SERVICE_COLUMNS, service_cells),
        short_names=("svc",),
        created_by_update=True,
        name_rule=dns_1035_label,
        categories=("all",),
        field_selectors={
            "spec.clusterIP": lambda service: service.spec.cluster_ip,
            "spec.type": lambda service: service.spec.type,
        },
    ).definition()


def service_cells(service: core_v1.Service, now: float) -> list[Any]:
    """Return the cells of a Service."""
    spec = service.spec
    ports = ",".join(_port(port) for port in spec.ports)
    selector = ",".join(f"{key}={value}" for key, value in sorted(spec.selector.items()))
    return [
        service.metadata.name,
        spec.type,
        next(iter(spec.cluster_ips), spec.cluster_ip) or "<none>",
        _external(service),
        ports or "<none>",
        age(service.metadata.creation_timestamp, now),
        selector or "<none>",
    ]


def _external(service: core_v1.Service) -> str:
    """Addresses from outside, as far as the type of the service has any."""
    spec = service.spec
    if spec.type in ("ClusterIP", "NodePort"):
        return ",".join(spec.external_ips) or "<none>"
    if spec.type == "LoadBalancer":
        given = sorted({entry.ip or entry.hostname for entry in service.status.load_balancer.ingress} - {""})
        return ",".join((*given, *spec.external_ips)) or "<pending>"
    return spec.external_name if spec.type == "ExternalName" else "<unknown>"


def _port(port: core_v1.ServicePort) -> str:
    node_port = f":{port.node_port}" if port.node_port else ""
    return f"{port.port}{node_port}/{port.protocol}"
