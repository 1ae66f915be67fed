"""Pods of a service, and their ports."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Pod, Service, ServicePort
from cathedra.semantics.pods import is_terminal, long_running_containers


def selects_pod(service: Service, pod: Pod) -> bool:
    """Return True if the service selects the pod. One without a selector, or of type ExternalName, selects none."""
    spec, labels = service.spec, pod.metadata.labels
    if not spec.selector or spec.type == "ExternalName" or service.metadata.namespace != pod.metadata.namespace:
        return False
    return all(labels.get(key) == value for key, value in spec.selector.items())


def is_endpoint(pod: Pod) -> bool:
    """Return True if the pod can be reached at all; one that is being deleted still counts (ShouldPodBeInEndpoints)."""
    return not is_terminal(pod) and bool(pod.status.pod_ip or pod.status.pod_ips)


def has_hostname_in(service: Service, pod: Pod) -> bool:
    """Return True if the pod has a name of its own within the service (ShouldSetHostname)."""
    spec = pod.spec
    same = pod.metadata.namespace == service.metadata.namespace
    return bool(spec.hostname) and spec.subdomain == service.metadata.name and same


def target_port(pod: Pod, port: ServicePort) -> int | None:
    """Return the port of the pod behind a port of its service; None if the pod has none of that name (FindPort)."""
    if isinstance(port.target_port, int):
        return port.target_port or port.port
    for container in long_running_containers(pod):
        for opened in container.ports:
            if opened.name == port.target_port and (opened.protocol or "TCP") == (port.protocol or "TCP"):
                return opened.container_port
    return None
