"""Config maps and secrets that a pod refers to, and fields of the pod itself: where values come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from cathedra.api.core.core_v1 import ConfigMap, Container, Pod, ResourceFieldSelector, Secret
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.goquote import go_quote
from cathedra.api.quantity import Quantity
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS, SECRETS
from cathedra.client.transport import ResourceRef

_LIMITED_BY_NODE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})


T = TypeVar("T", bound=KubeObject)


class References:
    """Reads config maps and secrets of one namespace, each once."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._config_maps: dict[str, ConfigMap | None] = {}
        self._secrets: dict[str, Secret | None] = {}

    async def config_map(self, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
        """Return the map's content; None if it is missing and optional.

        Raises:
            ConfigError: it is missing, or cannot be read now.
        """
        if name not in self._config_maps:
            self._config_maps[name] = await self._get(CONFIGMAPS, name)
        found = self._config_maps[name]
        if found is None:
            if optional:
                return None
            raise ContainerConfigError(f'configmap "{name}" not found')
        return {key: value.encode() for key, value in found.data.items()} | found.binary_data

    async def secret(self, name: str, *, optional: bool) -> Mapping[str, bytes] | None:
        """Return the secret's content; None if it is missing and optional.

        Raises:
            ConfigError: it is missing, or cannot be read now.
        """
        if name not in self._secrets:
            self._secrets[name] = await self._get(SECRETS, name)
        found = self._secrets[name]
        if found is None:
            if optional:
                return None
            raise ContainerConfigError(f'secret "{name}" not found')
        return found.data

    async def _get(self, ref: ResourceRef[T], name: str) -> T | None:
        try:
            return await self._client.resource(ref, self._namespace).get(name)
        except StatusError as error:
            if error.is_not_found:
                return None
            raise ContainerConfigError(str(error)) from error
        except ConnectionError as error:
            raise ContainerConfigError(str(error)) from error


def field_value(pod: Pod, path: str, node_ip: str, pod_ip: str = "") -> str:
    """Return the pod's field at ``path`` of a downward API reference; without ``pod_ip`` its address is the node's.

    Raises:
        ConfigError: the downward API has no such field.
    """
    metadata, spec = pod.metadata, pod.spec
    for prefix, values in (("metadata.labels", metadata.labels), ("metadata.annotations", metadata.annotations)):
        if path == prefix:
            return "\n".join(f"{key}={go_quote(value)}" for key, value in sorted(values.items()))
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return values.get(path[len(prefix) + 2 : -2], "")
    plain = {
        "metadata.name": metadata.name,
        "metadata.namespace": metadata.namespace,
        "metadata.uid": metadata.uid,
        "spec.nodeName": spec.node_name,
        "spec.serviceAccountName": spec.service_account_name or "default",
        "status.hostIP": node_ip,
        "status.hostIPs": node_ip,
        "status.podIP": pod_ip or node_ip,
        "status.podIPs": pod_ip or node_ip,
    }
    if path not in plain:
        raise ContainerConfigError(f"unsupported fieldPath: {path}")
    return plain[path]


def resource_value(
    pod: Pod, container: Container, selector: ResourceFieldSelector, allocatable: Mapping[str, Quantity]
) -> str:
    """Return a request or limit of a container, in units of the selector's divisor, rounded up.

    Without a limit, the limit is the node's ``allocatable``.

    Raises:
        ConfigError: there is no such container or resource.
    """
    every = (*pod.spec.init_containers, *pod.spec.containers)
    wanted = selector.container_name or container.name
    found = next((c for c in every if c.name == wanted), None)
    kind, _, resource = selector.resource.partition(".")
    if found is None or kind not in {"limits", "requests"} or not resource:
        raise ContainerConfigError(f"unsupported container resource: {selector.resource}")
    values = found.resources.limits if kind == "limits" else found.resources.requests
    quantity = values.get(resource)
    if quantity is None and kind == "limits" and resource in _LIMITED_BY_NODE:
        quantity = allocatable.get(resource)
    if quantity is None:
        return "0"
    divisor = selector.divisor
    nanos = divisor.nanos if divisor is not None and divisor.nanos else 10**9
    return str(-(-quantity.nanos // nanos))


class ContainerConfigError(Exception):
    """A container's configuration refers to something that does not exist."""


class VolumeError(Exception):
    """A volume cannot be made."""
