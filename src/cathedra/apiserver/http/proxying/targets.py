"""Targets of the sub-resource ``proxy`` of nodes, pods and services (docs/spec/apimachinery.md §12).

A name may have a scheme before it and a port behind it: ``https:pod-1:8443``. A pod or node can claim any address as
its own, so requests go only to addresses that Kubernetes permits: not to this machine itself (loopback), not to
neighbours on the link (where clouds keep credentials), and not to many machines at once. The agent of a node is the
exception, because it has to prove its identity.
"""

from __future__ import annotations

import ipaddress
from typing import Any, Final

import msgspec

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.goquote import go_quote
from cathedra.api.status import bad_request, failure, not_found
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.serviceendpoints import NoEndpoint, service_endpoint
from cathedra.apiserver.request import Call
from cathedra.apiserver.routes import NODES, PODS, SERVICES

_ADDRESS_ORDER: Final = ("InternalIP", "ExternalDNS", "ExternalIP", "Hostname", "InternalDNS")
_SCHEMES: Final = frozenset({"", "http", "https"})
_KUBELET_PORT: Final = 10250
_SIMULATED: Final = "simulated://"
"""Beginning of the runtime's version in the status of nodes whose containers only exist in the API."""
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")


class NodeEndpoint(msgspec.Struct, frozen=True):
    """The address of the agent of a node."""

    node: str
    address: str
    port: int


class ProxyTarget(msgspec.Struct, frozen=True):
    """A server that is not the agent of a node; ``port`` is "" for the default of the scheme."""

    scheme: str
    address: str
    port: str

    @property
    def origin(self) -> str:
        """Scheme, host and port, as URLs begin."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}{f':{self.port}' if self.port else ''}"


class _Named(msgspec.Struct, frozen=True):
    scheme: str
    name: str
    port: str


def agent_of(registry: Registry, name: str) -> NodeEndpoint:
    """Return the address of the agent of the node ``name``, from the status of the node.

    Raises:
        StatusError: there is no such node, its status names no address, or it is simulated and has no containers.
    """
    node: Node | None = registry.find(NODES, name)
    if node is None:
        raise not_found(NODES, name)
    # Nothing listens for a simulated node. A refused connection to port 10250 would look like a broken cluster.
    info = node.status.node_info
    if info is not None and info.container_runtime_version.startswith(_SIMULATED):
        raise bad_request(
            f"node {go_quote(name)} is simulated: its containers do not run, so there are no logs, and exec, attach "
            "and port-forward have no target; cathedra up --runtime process runs them"
        )
    known = {address.type: address.address for address in node.status.addresses}
    for kind in _ADDRESS_ORDER:
        if kind in known:
            endpoints: Any = node.status.daemon_endpoints
            port = endpoints.kubelet_endpoint.port if endpoints and endpoints.kubelet_endpoint else 0
            return NodeEndpoint(name, known[kind], port or _KUBELET_PORT)
    shown = " ".join(f"{{{kind} {address}}}" for kind, address in known.items())
    raise failure(500, "", f"no preferred addresses found; known addresses: [{shown}]")


def target_of(registry: Registry, call: Call) -> NodeEndpoint | ProxyTarget:
    """Return the target of a request on ``proxy``.

    Raises:
        StatusError: 400, the name or the address is not permitted; 404, there is no such object; 503, a service leads
            nowhere.
    """
    if call.resource == NODES:
        return _node(registry, _split(call.name, "node"))
    if call.resource == PODS:
        return _pod(registry, call.namespace, _split(call.name, "pod"))
    return _service(registry, call.namespace, _split(call.name, "service"))


def _split(given: str, kind: str) -> _Named:
    parts = given.split(":")
    if len(parts) <= 3:
        scheme, name, port = parts if len(parts) == 3 else ["", *parts, ""][:3]
        if name and scheme in _SCHEMES:
            return _Named(scheme, name, port)
    raise bad_request(f"invalid {kind} request {go_quote(given)}")


def _node(registry: Registry, named: _Named) -> NodeEndpoint | ProxyTarget:
    agent = agent_of(registry, named.name)
    if named.port in ("", str(agent.port)):
        return agent
    return _reachable(named.scheme, agent.address, named.port)


def _pod(registry: Registry, namespace: str, named: _Named) -> ProxyTarget:
    pod: Pod | None = registry.find(PODS, f"{namespace}/{named.name}")
    if pod is None:
        raise not_found(PODS, named.name)
    containers = pod.spec.containers if pod.spec else ()
    opened = (str(port.container_port) for container in containers for port in container.ports[:1])
    port = named.port or next(opened, "")
    return _reachable(named.scheme, pod.status.pod_ip if pod.status else "", port)


def _service(registry: Registry, namespace: str, named: _Named) -> ProxyTarget:
    service: Any = registry.find(SERVICES, f"{namespace}/{named.name}")
    if service is None:
        raise not_found(SERVICES, named.name)
    ports = {port.name: port.port for port in service.spec.ports}
    if not named.port and len(ports) == 1:
        port = next(iter(ports.values()))
    else:
        port = int(named.port) if named.port.isdecimal() else ports.get(named.port, 0)
    nowhere = f"no endpoints available for service {go_quote(named.name)}"
    if not port or service.spec.type == "ExternalName":
        raise failure(503, "ServiceUnavailable", nowhere)
    try:
        address, target = service_endpoint(registry, namespace, named.name, port)
    except NoEndpoint as error:
        raise failure(503, "ServiceUnavailable", str(error)) from None
    if not _is_proxyable(address):
        raise failure(503, "ServiceUnavailable", nowhere)
    return ProxyTarget(named.scheme or "http", address, str(target))


def _reachable(scheme: str, address: str, port: str) -> ProxyTarget:
    if not _is_proxyable(address):
        raise bad_request("address not allowed")
    if port and not (port.isdecimal() and 0 < int(port) < 2**16):
        raise bad_request(f"invalid port {go_quote(port)}")
    return ProxyTarget(scheme or "http", address, port)


def _is_proxyable(address: str) -> bool:
    """Return True if it is the address of one machine that is reached through a network."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    # ::ffff:127.0.0.1 is the loopback address too.
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    refused = found.is_unspecified or found.is_loopback or found.is_link_local or found.is_multicast
    return not refused and found != _BROADCAST
