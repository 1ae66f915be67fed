"""The driver with which Kubernetes tested Dynamic Resource Allocation from 1.26 to 1.30, as two programs.

A controller counts claims and copies parameters into their handles, and a node plugin turns them into environment
variables. The resources themselves do nothing. Parameters are ConfigMaps: an entry ``a: b`` of the claim's becomes
``user_a=b``, one of the class's ``admin_a=b``. What is allocated is counted from the claims themselves when the
controller starts, so that it may die at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.api.struct import decode
from cathedra.classic.controller import ClaimAllocation, ClassicDriver, WantedClaim
from cathedra.classic.nodes.plugin import NodeClaim, NodeDriver
from cathedra.classic.resources import CLAIMS, classic_client
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import CONFIGMAPS
from cathedra.driver.claim import Edits
from cathedra.driver.errors import DriverError
from cathedra.driver.files import Files
from cathedra.driver.preparing.specs import ClaimSpecs


class ParametersError(Exception):
    """The parameters of a claim or class cannot be used."""


class Exhausted(Exception):
    """There is nothing left to give."""


class TestDriver(ClassicDriver):
    """Gives away resources that do nothing."""

    __test__ = False

    def __init__(
        self,
        client: Client,
        name: str,
        resources: TestResources,
        *,
        random: Random,
        class_parameters: Mapping[str, str] | None = None,
    ) -> None:
        """``class_parameters`` stand for those of every class that refers to none."""
        self._client = client
        self._name = name
        self._resources = resources
        self._random = random
        self._class_parameters = dict(class_parameters or {})
        self._allocated = AllocatedClaims(resources)

    async def recover(self) -> None:
        """Count the allocations that exist when the controller starts.

        Raises:
            StatusError, ConnectionError: the API server cannot be reached.
        """
        await self._allocated.recover(classic_client(self._client).resource(CLAIMS), self._node_of)

    def _node_of(self, claim: v1alpha2.ResourceClaim) -> str | None:
        status = claim.status
        if status.allocation is None or status.driver_name != self._name:
            return None
        handles = status.allocation.resource_handles
        return HandleData.decode(handles[0].data).node if handles else ""

    def statistics(self) -> dict[str, int]:
        """Return claims that are allocated, by node; "" counts those of the cluster."""
        return self._allocated.statistics()

    async def get_class_parameters(self, resource_class: v1alpha2.ResourceClass) -> Any:
        """Return the entries of the ConfigMap that the class refers to."""
        reference = resource_class.parameters_ref
        if reference is None:
            return self._class_parameters
        if (reference.api_group, reference.kind) != ("", "ConfigMap"):
            raise ParametersError(
                "class parameters are only supported in APIVersion v1, Kind ConfigMap, "
                f"got: {reference.api_group} {reference.kind}"
            )
        return await self._config_map(reference.namespace, reference.name)

    async def get_claim_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass, class_parameters: Any
    ) -> Any:
        """Return the entries of the ConfigMap that the claim refers to."""
        reference = claim.spec.parameters_ref
        if reference is None:
            return {}
        if (reference.api_group, reference.kind) != ("", "ConfigMap"):
            raise ParametersError(
                "claim parameters are only supported in APIVersion v1, Kind ConfigMap, "
                f"got: {reference.api_group} {reference.kind}"
            )
        return await self._config_map(claim.metadata.namespace, reference.name)

    async def _config_map(self, namespace: str, name: str) -> Mapping[str, str]:
        try:
            return (await self._client.resource(CONFIGMAPS, namespace).get(name)).data
        except StatusError as error:
            raise ParametersError(f"get config map: {error}") from error

    async def allocate(self, claims: Sequence[ClaimAllocation], selected_node: str) -> None:
        """Allocate one claim after the other; if nothing is left for one, it gets an ``error``."""
        for wanted in claims:
            try:
                wanted.allocation = self._allocate(wanted, selected_node)
            except Exhausted as error:
                wanted.error = error

    def _allocate(self, wanted: ClaimAllocation, selected_node: str) -> v1alpha2.AllocationResult:
        node = self._allocated.node_of(wanted.claim)
        if node is None:
            node = self._node_for(selected_node) if self._resources.node_local else self._cluster()
        env = {
            **{f"user_{key.lower()}": value for key, value in wanted.claim_parameters.items()},
            **{f"admin_{key.lower()}": value for key, value in wanted.class_parameters.items()},
        }
        allocation = self._resources.allocation(self._name, node, HandleData(env, node).encode())
        self._allocated.enter(wanted.claim, node)
        return allocation

    def _node_for(self, selected: str) -> str:
        if selected:
            if not self._allocated.has_room(selected, 1):
                raise Exhausted(f'resources exhausted on node "{selected}"')
            return selected
        viable = [node for node in self._resources.nodes if self._allocated.has_room(node, 1)]
        if not viable:
            raise Exhausted("resources exhausted on all nodes")
        return self._random.choice(viable)

    def _cluster(self) -> str:
        limit = self._resources.max_allocations
        if limit and len(self._allocated) >= limit:
            raise Exhausted("resources exhausted in the cluster")
        return ""

    async def deallocate(self, claim: v1alpha2.ResourceClaim) -> None:
        """Count the claim no longer."""
        self._allocated.remove(claim)

    async def unsuitable_nodes(self, pod: Pod, claims: Sequence[ClaimAllocation], potential_nodes: list[str]) -> None:
        """Enter, for each claim, the nodes without room for all of the pod's claims together."""
        self._allocated.exclude_nodes(claims, potential_nodes)


# Count of a test driver's allocations, made from the claims themselves, so that its controller may be killed at any
# time.

C = TypeVar("C", bound=KubeObject)


class AllocatedClaims:
    """The claims that a test driver has allocated, and the room that is left."""

    def __init__(self, resources: TestResources) -> None:
        self._resources = resources
        self._nodes: dict[str, str] = {}
        """Claim UID → its node, "" for the cluster's."""

    async def recover(self, claims: ResourceClient[C], node_of: Callable[[C], str | None]) -> None:
        """Count the allocations that exist when the controller starts.

        ``node_of`` returns the node of an allocation; None: not at all, or by another driver. A server without claims
        has none to count.

        Raises:
            StatusError, ConnectionError: the API server cannot be reached.
        """
        try:
            page = await claims.list()
        except StatusError as error:
            if not error.is_not_found:
                raise
            return
        for claim in page.items:
            node = node_of(claim)
            if node is not None:
                self._nodes[claim.metadata.uid] = node

    def statistics(self) -> dict[str, int]:
        """Return claims that are allocated, by node; "" counts those of the cluster."""
        return dict(Counter(self._nodes.values()))

    def __len__(self) -> int:
        return len(self._nodes)

    def node_of(self, claim: KubeObject) -> str | None:
        """Return the node of the claim's allocation. "" is the cluster; None is no allocation."""
        return self._nodes.get(claim.metadata.uid)

    def enter(self, claim: KubeObject, node: str) -> None:
        """Count a claim as allocated."""
        self._nodes[claim.metadata.uid] = node

    def remove(self, claim: KubeObject) -> None:
        """Count the claim no longer."""
        self._nodes.pop(claim.metadata.uid, None)

    def has_room(self, node: str, claims: int) -> bool:
        """Return True if that many more claims can be allocated for use on the node."""
        resources = self._resources
        if resources.nodes and node not in resources.nodes:
            return False
        if not resources.max_allocations:
            return True
        taken = Counter(self._nodes.values())[node] if resources.node_local else len(self._nodes)
        return taken + claims <= resources.max_allocations

    def exclude_nodes(self, claims: Sequence[WantedClaim[Any]], potential_nodes: Iterable[str]) -> None:
        """Enter the nodes without room for all of a pod's claims together."""
        count = sum(self.node_of(wanted.claim) is None for wanted in claims)
        unsuitable = [node for node in potential_nodes if not self.has_room(node, count)]
        for wanted in claims:
            wanted.unsuitable_nodes = list(unsuitable)


DRIVER_NAME = "test-driver.cdi.k8s.io"


class InvalidResources(DriverError):
    """The file of ``--resource-config`` describes no resources."""


class TestResources(msgspec.Struct, frozen=True, rename="pascal", forbid_unknown_fields=True):
    """The resources of one test driver; in files with the names that the Go program reads."""

    __test__ = False

    dont_set_reserved_for: bool = False
    """Leave it to the scheduler to reserve claims for pods."""
    node_local: bool = False
    """True if each node has resources of its own, rather than the cluster."""
    nodes: tuple[str, ...] = ()
    """The nodes that have resources; () means all, where they are the cluster's."""
    max_allocations: int = 0
    """Number of claims at a time, on each node or in the cluster. 0 is no limit."""
    shareable: bool = False
    """True if an allocated claim serves any number of pods."""

    def available_on(self, node: str) -> NodeSelector | None:
        """Return the nodes that can use a claim that was allocated on ``node``, or in the cluster (""). None means
        all."""
        names = (node,) if node else self.nodes
        if not names:
            return None
        requirement = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=names)
        return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))

    def allocation(self, driver: str, node: str, data: str) -> v1alpha2.AllocationResult:
        """Return the allocation of a claim."""
        return v1alpha2.AllocationResult(
            resource_handles=(v1alpha2.ResourceHandle(driver_name=driver, data=data),),
            available_on_nodes=self.available_on(node),
            shareable=self.shareable,
        )


@dataclass(frozen=True, slots=True)
class HandleData:
    """Data for the node plugin, as JSON in the claim's handle."""

    env: dict[str, str]
    node: str

    def encode(self) -> str:
        """As the Go programs write it."""
        return msgspec.json.encode({"EnvVars": self.env, "NodeName": self.node}).decode()

    @staticmethod
    def decode(data: str) -> HandleData:
        """From a handle; an empty one has no data.

        Raises:
            ValueError: it is no handle of this driver.
        """
        if not data:
            return HandleData({}, "")
        try:
            wire = decode(_Wire, data)
        except msgspec.MsgspecError as error:
            raise ValueError(f"resource handle {data!r}: {error}") from error
        return HandleData(wire.env_vars, wire.node_name)


class _Wire(msgspec.Struct, rename="pascal"):
    env_vars: dict[str, str] = {}
    node_name: str = ""


def read_resources(path: Path) -> TestResources:
    """Return the resources that a file describes.

    Raises:
        InvalidResources: it cannot be read or understood.
    """
    try:
        return decode(TestResources, path.read_bytes())
    except OSError as error:
        raise InvalidResources(f"--resource-config {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidResources(f"--resource-config {path}: {error}") from error


CLASS = "test"


class WrongNode(Exception):
    """The claim was allocated for another node."""


class TestNodeDriver(NodeDriver):
    """Writes one CDI document for each prepared claim."""

    __test__ = False

    def __init__(self, name: str, node: str, *, cdi_dir: Path, files: Files) -> None:
        """``node`` is where the plugin runs; "" if it must not check that."""
        self._node = node
        vendor = name.partition(".")[2] or name
        self._specs = ClaimSpecs(files, cdi_dir, vendor, CLASS)
        self.prepared: dict[str, tuple[str, ...]] = {}
        """Claims by UID, and their devices."""

    async def prepare(self, claim: NodeClaim) -> tuple[str, ...]:
        """Write the claim's document."""
        handle = HandleData.decode(claim.handle)
        if handle.node and self._node and handle.node != self._node:
            raise WrongNode(f"claim {claim.name} was allocated for node {handle.node}, this is {self._node}")
        device = f"claim-{claim.uid}"
        document = self._specs.document({device: Edits(env=handle.env | _structured(claim))})
        if document is None:
            devices: tuple[str, ...] = ()
        else:
            self._specs.ensure(claim.uid, document)
            devices = (self._specs.device_id(device),)
        self.prepared[claim.uid] = devices
        return devices

    async def unprepare(self, claim: NodeClaim) -> None:
        """Remove the claim's document."""
        self._specs.remove(claim.uid)
        self.prepared.pop(claim.uid, None)


def _structured(claim: NodeClaim) -> dict[str, str]:
    """Return the variables of a claim that the scheduler allocated: parameters are objects with texts.

    Raises:
        ValueError: some are not.
    """
    structured = claim.structured
    if structured is None:
        return {}
    sources = [("admin", structured.class_parameters), ("user", structured.claim_parameters)]
    sources += [("user", parameters) for parameters in structured.request_parameters]
    env: dict[str, str] = {}
    for prefix, text in sources:
        if not text:
            continue
        try:
            values = decode(dict[str, str], text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{prefix} parameters {text.decode()!r}: {error}") from error
        env |= {f"{prefix}_{key.lower()}": value for key, value in values.items()}
    return env
