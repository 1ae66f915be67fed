"""Endpoint of a service: a ready pod that it selects. There is no service network that would choose one."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.scheme import GroupResource
from cathedra.api.selectors import parse_label_selector
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.semantics.pods import is_ready
from cathedra.semantics.services import target_port

_SERVICES: Final = GroupResource("", "services")
_PODS: Final = GroupResource("", "pods")


class NoEndpoint(LookupError):
    """The service has no endpoint; the text has the reason."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason = reason
        """The reason as conditions of API services have it, in one word."""
        super().__init__(text)

    def __str__(self) -> str:
        return str(self.args[0])


def service_endpoint(registry: Registry, namespace: str, name: str, port: int) -> tuple[str, int]:
    """Return the address and port behind a port of a service.

    Raises:
        NoEndpoint: there is no such service or port, or no ready pod.
    """
    service: Any = registry.find(_SERVICES, f"{namespace}/{name}")
    if service is None:
        raise NoEndpoint("ServiceNotFound", f'service "{name}" not found')
    opened = next((one for one in service.spec.ports if one.port == port), None)
    if opened is None:
        raise NoEndpoint("ServicePortError", f'no service port {port} found for service "{name}"')
    if service.spec.type == "ExternalName":
        return service.spec.external_name, opened.port
    selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
    matches = parse_label_selector(selector).matches
    for entry in registry.table(_PODS).select(Selection(namespace)):
        pod = entry.object
        if selector and is_ready(pod) and matches(pod.metadata.labels):
            target = target_port(pod, opened)
            if target is None:
                wanted = f'no port "{opened.target_port}" in pod "{pod.metadata.name}"'
                raise NoEndpoint("MissingEndpoints", wanted)
            return pod.status.pod_ip or pod.status.host_ip, target
    raise NoEndpoint("MissingEndpoints", f'no endpoints available for service "{name}"')
