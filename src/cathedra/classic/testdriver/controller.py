"""The test driver's controller: counts claims, and copies parameters into their handles.

Parameters are ConfigMaps: an entry ``a: b`` of the claim's becomes ``user_a=b``, one of the class's ``admin_a=b``.
What is allocated is counted from the claims themselves when the controller starts, so that it may die at any time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.classic.controller import ClaimAllocation, ClassicDriver
from cathedra.classic.controller.driver import WantedClaim
from cathedra.classic.resources import CLAIMS, classic_client
from cathedra.classic.testdriver.resources import HandleData, TestResources
from cathedra.client.client import Client, ResourceClient
from cathedra.client.resources import CONFIGMAPS


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
        """Claims that are allocated, by node; "" counts those of the cluster."""
        return self._allocated.statistics()

    async def get_class_parameters(self, resource_class: v1alpha2.ResourceClass) -> Any:
        """The entries of the ConfigMap that the class refers to."""
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
        """The entries of the ConfigMap that the claim refers to."""
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
        """One claim after the other, as long as there is something left."""
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
        """A node does if it has room for all of the pod's claims together."""
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
        """Claims that are allocated, by node; "" counts those of the cluster."""
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
