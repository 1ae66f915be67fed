"""Extended resources that devices provide: requests of containers become one claim of the scheduler's own making.

A container may ask for ``acme.test/fpga: 2`` as it always did. Where a node has no device plugin for it and a device
class carries that name, the scheduler makes a claim for the pod, and records which request serves which container
(docs/spec/scheduling.md §12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from cathedra.api.core.core_v1 import Container, ContainerExtendedResourceRequest, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)
from cathedra.api.struct import replace
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.resources import IMPLICIT_PREFIX, is_extended_resource
from cathedra.semantics.owners import controller_reference, is_controlled_by
from cathedra.semantics.pods import is_sidecar

__all__ = [
    "ANNOTATION",
    "IN_MEMORY_NAME",
    "Demand",
    "Requests",
    "class_of",
    "extended_requests",
    "is_special_for",
    "requests_for",
    "special_claim",
]

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY_NAME = "<extended-resources>"


class Requests(msgspec.Struct, frozen=True):
    """The content of the special claim, and which container each request serves."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class Demand(msgspec.Struct):
    """What a pod calls for by extended resources that have a class."""

    pod: Pod
    classes: Mapping[str, str]
    """Resource name → class name, for every requested resource that has one."""
    others: tuple[str, ...]
    """Requested extended resources without a class."""
    stale: ResourceClaim | None
    """A special claim left by an earlier cycle; it must go first."""
    _requests: dict[frozenset[str], Requests] = msgspec.field(default_factory=dict)
    _all: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Note the resources that have a class."""
        self._all = frozenset(self.classes)

    def from_devices(self, node: NodeInfo) -> frozenset[str] | None:
        """The resources that devices must provide on ``node``; None if a resource cannot be had there at all."""
        if not self.others and self._all.isdisjoint(node.allocatable):
            return self._all  # as on most nodes
        wanted = frozenset(name for name in self.classes if node.allocatable.get(name, 0) == 0)
        if any(name not in node.allocatable for name in self.others):
            return None
        return wanted

    def requests(self, resources: frozenset[str]) -> Requests:
        """The requests for these resources."""
        made = self._requests.get(resources)
        if made is None:
            made = self._requests[resources] = requests_for(self.pod, {name: self.classes[name] for name in resources})
        return made


def class_of(resource: str, classes: Iterable[DeviceClass]) -> str | None:
    """The class behind an extended resource: by its own name, or by the implicit one."""
    named = [class_ for class_ in classes if class_.spec.extended_resource_name == resource]
    if named:
        return min(named, key=_newest_first).metadata.name
    if resource.startswith(IMPLICIT_PREFIX):
        wanted = resource.removeprefix(IMPLICIT_PREFIX)
        if any(class_.metadata.name == wanted for class_ in classes):
            return wanted
    return None


def _newest_first(class_: DeviceClass) -> tuple[int, str]:
    created = class_.metadata.creation_timestamp
    return (-created.micros if created is not None else 0, class_.metadata.name)


def special_claim(pod: Pod, uid: str, requests: Sequence[DeviceRequest] = ()) -> ResourceClaim:
    """The claim in memory, under a temporary UID."""
    owner = replace(controller_reference(pod), block_owner_deletion=None)
    metadata = ObjectMeta(
        name=IN_MEMORY_NAME,
        generate_name=f"{pod.metadata.name}-extended-resources-",
        namespace=pod.metadata.namespace,
        uid=uid,
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(
        metadata=metadata, spec=ResourceClaimSpec(devices=DeviceClaim(requests=tuple(requests) or None))
    )


def is_special_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether ``claim`` was made for the extended resources of ``pod``."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return False
    return is_controlled_by(claim, pod)


class _Use(msgspec.Struct, frozen=True):
    """One container's wish for one resource."""

    index: int
    container: Container
    quantity: int


def requests_for(pod: Pod, classes: Mapping[str, str]) -> Requests:
    """One request per long-lived container and resource; init containers use those again where they suffice."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(classes):
        wanted, served = _of_resource(pod, resource, classes[resource])
        requests += wanted
        mappings += served
    return Requests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def _of_resource(
    pod: Pod, resource: str, class_name: str
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    long_lived, short_lived = _uses(pod, resource)
    lasting = [(use, _request_name(use, resource)) for use in long_lived]
    requests = [_request(name, class_name, use.quantity) for use, name in lasting]
    mappings = [_mapping(use, resource, name) for use, name in lasting]
    brief: list[ContainerExtendedResourceRequest] = []
    extras: dict[str, int] = {}
    for use in short_lived:
        left = use.quantity
        for other, name in lasting:
            if left > 0 and other.index >= use.index:
                brief.append(_mapping(use, resource, name))
                left -= other.quantity
        if left > 0:
            extras[_request_name(use, resource)] = left
            brief.append(_mapping(use, resource, _request_name(use, resource)))
    if extras:
        # Init containers run one after another: the largest remainder serves them all.
        largest = max(extras, key=extras.__getitem__)
        requests.append(_request(largest, class_name, extras[largest]))
        brief = [replace(one, request_name=largest) if one.request_name in extras else one for one in brief]
    return requests, mappings + brief


def _uses(pod: Pod, resource: str) -> tuple[list[_Use], list[_Use]]:
    """The containers that ask for ``resource``: those that stay (sidecars are among them), and those that end."""
    inits = len(pod.spec.init_containers)
    long_lived: list[_Use] = []
    short_lived: list[_Use] = []
    for index, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        quantity = container.resources.requests.get(resource)
        if quantity is None or quantity.value() <= 0:
            continue
        stays = index >= inits or is_sidecar(container)
        (long_lived if stays else short_lived).append(_Use(index, container, quantity.value()))
    return long_lived, short_lived


def _request_name(use: _Use, resource: str) -> str:
    position = sorted(use.container.resources.requests).index(resource)
    return f"container-{use.index}-request-{position}"


def _request(name: str, class_name: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=count)
    return DeviceRequest(name=name, exactly=exactly)


def _mapping(use: _Use, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=use.container.name, resource_name=resource, request_name=request
    )


def extended_requests(requests: Mapping[str, int]) -> list[str]:
    """The extended resources among a pod's requests."""
    return [name for name, amount in requests.items() if amount and "/" in name and is_extended_resource(name)]
