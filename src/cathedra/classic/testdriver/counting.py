"""Count of a test driver's allocations, made from the claims themselves, so that its controller may be killed at any
time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.classic.controller.driver import WantedClaim
from cathedra.classic.testdriver.resources import TestResources
from cathedra.client.client import ResourceClient

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
