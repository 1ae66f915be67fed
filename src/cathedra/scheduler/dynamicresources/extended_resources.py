"""Extended resources that devices provide: requests of containers become one claim that the scheduler creates.

A container may request ``acme.test/fpga: 2`` as before. If a node has no device plugin for it and a device class has
that name, the scheduler creates a claim for the pod, and records which request serves which container
(docs/spec/scheduling.md §12).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from typing import Final

import msgspec

from cathedra.api.core.core_v1 import Container, ContainerExtendedResourceRequest, Pod, ResourceRequirements
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
from cathedra.remembering import numbered, remembered
from cathedra.scheduler.state.node_info import NodeInfo
from cathedra.scheduler.state.pod_info import IMPLICIT_PREFIX, PodInfo, is_extended_resource
from cathedra.semantics.owners import controller_reference, is_controlled_by
from cathedra.semantics.pods import is_sidecar

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY_NAME = "<extended-resources>"
Classes = tuple[tuple[str, str], ...]
"""Extended resources and the names of their device classes, sorted."""
_NO_REQUESTS: Final = ResourceClaimSpec()


class ExtendedResourceRequests(msgspec.Struct, frozen=True):
    """The content of the special claim, and which container each request serves."""

    spec: ResourceClaimSpec
    """Return the claim's spec: the same object for pods whose containers have equal resources."""
    mappings: tuple[ContainerExtendedResourceRequest, ...]


class Demand(msgspec.Struct):
    """Extended resources that a pod requests and that have a device class."""

    pod: Pod
    classes: Mapping[str, str]
    """Resource name → class name, for every requested resource that has one."""
    others: tuple[str, ...]
    """Requested extended resources without a class."""
    stale: ResourceClaim | None
    """A special claim left by an earlier cycle; it must go first."""
    all: frozenset[str] = frozenset()
    """The resources that have a class."""
    _requests: dict[frozenset[str], ExtendedResourceRequests] = msgspec.field(default_factory=dict)
    _claims: dict[frozenset[str], ResourceClaim] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note the resources that have a class."""
        self.all = frozenset(self.classes)

    def is_left_to_devices(self, there: Set[str]) -> bool:
        """Return True if devices must provide all resources on all nodes, which have the resources ``there`` of their
        own."""
        return not self.others and self.all.isdisjoint(there)

    def from_devices(self, node: NodeInfo) -> frozenset[str] | None:
        """Return the resources that devices must provide on ``node``; None if a resource cannot be had there at all."""
        if not self.others and self.all.isdisjoint(node.allocatable):
            return self.all  # as on most nodes
        # A node with a device plugin of its own for the resource keeps using that plugin; both would hand out the same
        # hardware.
        wanted = frozenset(name for name in self.classes if node.allocatable.get(name, 0) == 0)
        if any(name not in node.allocatable for name in self.others):
            return None
        return wanted

    def requests(self, resources: frozenset[str]) -> ExtendedResourceRequests:
        """Return the requests for these resources."""
        # Nodes differ in the resources that they have themselves. There are few such sets, and many nodes share each.
        made = self._requests.get(resources)
        if made is None:
            made = self._requests[resources] = requests_for(self.pod, {name: self.classes[name] for name in resources})
        return made

    def claim(self, resources: frozenset[str]) -> ResourceClaim:
        """Return the claim for these resources in memory, without a UID."""
        made = self._claims.get(resources)
        if made is None:
            made = self._claims[resources] = special_claim(self.pod, "", self.requests(resources).spec)
        return made


def demand_of(
    pod: PodInfo,
    class_behind: Callable[[str], str | None],
    owned_by: Callable[[str], Collection[ResourceClaim]],
) -> Demand | None:
    """Return the demand of a pod that requests extended resources; None if no class is behind any of them."""
    requested = list(filter(is_extended_resource, pod.qualified))
    classes = {name: class_name for name in requested if (class_name := class_behind(name)) is not None}
    if not classes:
        return None
    others = tuple(name for name in requested if name not in classes)
    stale = next((claim for claim in owned_by(pod.uid) if is_special_for(pod.pod, claim)), None)
    return Demand(pod.pod, classes, others, stale)


def class_of(resource: str, classes: Iterable[DeviceClass]) -> str | None:
    """Return the name of the class behind an extended resource, by its own name or by the implicit one; None if there
    is none."""
    named = [class_ for class_ in classes if class_.spec.extended_resource_name == resource]
    if named:
        # Several classes may claim one name. The choice has to be the same in every cycle, or a pod's claim would
        # change.
        return min(named, key=_newest_first).metadata.name
    if resource.startswith(IMPLICIT_PREFIX):
        wanted = resource.removeprefix(IMPLICIT_PREFIX)
        if any(class_.metadata.name == wanted for class_ in classes):
            return wanted
    return None


def _newest_first(class_: DeviceClass) -> tuple[int, str]:
    created = class_.metadata.creation_timestamp
    return (-created.micros if created is not None else 0, class_.metadata.name)


def special_claim(pod: Pod, uid: str, spec: ResourceClaimSpec = _NO_REQUESTS) -> ResourceClaim:
    """Return the claim in memory, under a temporary UID."""
    # Setting blockOwnerDeletion needs a permission on the pod's finalizers that the scheduler does not have.
    owner = replace(controller_reference(pod), block_owner_deletion=None)
    metadata = ObjectMeta(
        name=IN_MEMORY_NAME,
        generate_name=f"{pod.metadata.name}-extended-resources-",
        namespace=pod.metadata.namespace,
        uid=uid,
        annotations={ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata=metadata, spec=spec)


def is_special_for(pod: Pod, claim: ResourceClaim) -> bool:
    """Return True if ``claim`` was created for the extended resources of ``pod``."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return False
    return is_controlled_by(claim, pod)


class _Use(msgspec.Struct, frozen=True):
    """The request of one container for one resource."""

    index: int
    container: Container
    quantity: int


def requests_for(pod: Pod, classes: Mapping[str, str]) -> ExtendedResourceRequests:
    """Return one request per long-lived container and resource; init containers reuse those where they suffice."""
    containers, sorted_classes = pod.spec.containers, tuple(sorted(classes.items()))
    if pod.spec.init_containers:
        return _requests_for(_Containers(pod.spec.init_containers, containers), sorted_classes)
    names = tuple([container.name for container in containers])
    return _plain_requests(names, sorted_classes, *[container.resources for container in containers])


class _Containers(msgspec.Struct, frozen=True):
    """All of a pod that its requests depend on."""

    inits: Sequence[Container]
    others: Sequence[Container]


_number: Final = numbered("resources of containers", size=256)


def _key(names: tuple[str, ...], classes: Classes, *resources: ResourceRequirements) -> Hashable:
    return names, classes, tuple(map(_number, resources))


@remembered("requests of extended resources", key=_key, size=1024)
def _plain_requests(
    names: tuple[str, ...], classes: Classes, *resources: ResourceRequirements
) -> ExtendedResourceRequests:
    """Return the requests of pods without init containers. They depend on what is in the key, and on nothing else of a
    container."""
    containers = [Container(name=name, resources=one) for name, one in zip(names, resources, strict=True)]
    return _requests_for(_Containers((), containers), classes)


def _requests_for(containers: _Containers, classes: Classes) -> ExtendedResourceRequests:
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource, class_name in classes:
        wanted, served = _of_resource(containers, resource, class_name)
        requests += wanted
        mappings += served
    inside = tuple(sorted(requests, key=lambda request: request.name))
    return ExtendedResourceRequests(ResourceClaimSpec(devices=DeviceClaim(requests=inside or None)), tuple(mappings))


def _of_resource(
    containers: _Containers, resource: str, class_name: str
) -> tuple[list[DeviceRequest], list[ContainerExtendedResourceRequest]]:
    long_lived, short_lived = _uses(containers, resource)
    lasting = [(use, _request_name(use, resource)) for use in long_lived]
    requests = [_request(name, class_name, use.quantity) for use, name in lasting]
    mappings = [_mapping(use, resource, name) for use, name in lasting]
    brief: list[ContainerExtendedResourceRequest] = []
    extras: dict[str, int] = {}
    for use in short_lived:
        left = use.quantity
        for other, name in lasting:
            # Only containers that start later: those devices are free while this init container runs.
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


def _uses(containers: _Containers, resource: str) -> tuple[list[_Use], list[_Use]]:
    """Return the containers that request ``resource``: those that keep running (sidecars included), and those
    that end."""
    inits = len(containers.inits)
    long_lived: list[_Use] = []
    short_lived: list[_Use] = []
    for index, container in enumerate((*containers.inits, *containers.others)):
        quantity = container.resources.requests.get(resource)
        if quantity is None or quantity.value() <= 0:
            continue
        stays = index >= inits or is_sidecar(container)
        (long_lived if stays else short_lived).append(_Use(index, container, quantity.value()))
    return long_lived, short_lived


def _request_name(use: _Use, resource: str) -> str:
    # Sorted, because the order of a mapping is not part of the object; the name must be the same after a restart.
    position = sorted(use.container.resources.requests).index(resource)
    return f"container-{use.index}-request-{position}"


def _request(name: str, class_name: str, count: int) -> DeviceRequest:
    exactly = ExactDeviceRequest(device_class_name=class_name, allocation_mode="ExactCount", count=count)
    return DeviceRequest(name=name, exactly=exactly)


def _mapping(use: _Use, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(
        container_name=use.container.name, resource_name=resource, request_name=request
    )


def nodes_by_resources(
    demand: Demand, nodes: Sequence[NodeInfo], there: Set[str]
) -> Mapping[frozenset[str] | None, Sequence[NodeInfo]]:
    """Nodes by the extended resources that devices must provide there; under None those that lack one altogether.

    ``there``: the resources that nodes have of their own.
    """
    if demand.is_left_to_devices(there):
        return {demand.all: nodes}
    groups: dict[frozenset[str] | None, list[NodeInfo]] = {}
    for node in nodes:
        groups.setdefault(demand.from_devices(node), []).append(node)
    return groups
