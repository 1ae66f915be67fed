"""What an endpoint slice says of one pod (k8s.io/endpointslice, utils.go)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from cathedra.api.core.core_v1 import Node, ObjectReference, Pod, Service
from cathedra.api.core.discovery_v1 import Endpoint, EndpointConditions, EndpointPort
from cathedra.semantics.pods import is_ready
from cathedra.semantics.services import has_hostname_in, target_port

__all__ = ["address_types", "endpoint_of", "ports_of"]

_ZONE = "topology.kubernetes.io/zone"


def address_types(service: Service) -> tuple[str, ...]:
    """The kinds of addresses that the service has, one for each of its families.

    Kubernetes' API server gives every service its families. Here a service may be without: then it has the family of
    its address, or that of a cluster with one kind of addresses.
    """
    spec = service.spec
    known = tuple(family for family in spec.ip_families if family in ("IPv4", "IPv6"))
    return known or ("IPv6" if ":" in spec.cluster_ip else "IPv4",)


def ports_of(service: Service, pod: Pod) -> tuple[EndpointPort, ...]:
    """The ports of the pod behind those of the service; ports that the pod does not have are left out."""
    found: list[EndpointPort] = []
    for port in service.spec.ports:
        number = target_port(pod, port)
        if number is not None:
            found.append(
                EndpointPort(
                    name=port.name, port=number, protocol=port.protocol or "TCP", app_protocol=port.app_protocol
                )
            )
    return tuple(found)


def endpoint_of(pod: Pod, node: Node | None, service: Service, address_type: str) -> Endpoint | None:
    """The pod as an endpoint; None if it has no address of that type."""
    addresses = tuple(_addresses(pod, address_type))
    if not addresses:
        return None
    serving = is_ready(pod)
    terminating = pod.metadata.deletion_timestamp is not None
    ready = service.spec.publish_not_ready_addresses or (serving and not terminating)
    metadata = pod.metadata
    return Endpoint(
        addresses=addresses,
        conditions=EndpointConditions(ready=ready, serving=serving, terminating=terminating),
        hostname=pod.spec.hostname if has_hostname_in(service, pod) else None,
        target_ref=ObjectReference(kind="Pod", namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
        node_name=pod.spec.node_name or None,
        zone=(node.metadata.labels.get(_ZONE) if node is not None else None) or None,
    )


def _addresses(pod: Pod, address_type: str) -> Iterator[str]:
    for text in [one.ip for one in pod.status.pod_ips] or [pod.status.pod_ip]:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        if f"IPv{address.version}" == address_type:
            yield str(address)
