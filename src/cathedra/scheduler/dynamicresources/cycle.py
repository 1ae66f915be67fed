"""What the plugin remembers of one pod's cycle, and how it judges claims that are allocated already."""

from __future__ import annotations

from dataclasses import dataclass, field

from cathedra.allocation import PreparedRequests
from cathedra.api.core.core_v1 import Node, NodeSelector
from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.api.selectors import node_selector_matches
from cathedra.scheduler.dynamicresources.extended_resources import Demand

__all__ = ["ClaimCycle", "Found", "Placement"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a claim that is allocated already can be used."""

    selector: NodeSelector | None
    needs_optional_operations: bool
    broken: bool
    """Its binding conditions failed or timed out: no node will do."""

    def allows(self, node: Node) -> bool:
        """Whether the claim can be used on ``node``."""
        if self.broken:
            return False
        if self.selector is not None and not node_selector_matches(self.selector, node):
            return False
        return not self.needs_optional_operations or "DRAOptionalNodeOperations" in node.status.declared_features


@dataclass(frozen=True, slots=True)
class Found:
    """What the allocator gave on one node: allocations for the unallocated claims in order, the special one last."""

    allocations: tuple[AllocationResult, ...]
    resources: frozenset[str] = frozenset()
    """The extended resources that the special claim would provide there."""


@dataclass(slots=True)
class ClaimCycle:
    """One pod's claims in one cycle."""

    claims: list[ResourceClaim]
    """The user's claims in the order of the pod's spec."""
    demand: Demand | None = None
    """Extended resources that devices may provide."""
    placements: dict[int, Placement] = field(default_factory=dict)
    """Index → where that claim can be used; the others have no allocation yet."""
    unavailable: set[int] = field(default_factory=set)
    """Claims that were unusable on some node."""
    prepared: dict[frozenset[str], PreparedRequests] = field(default_factory=dict)
    """Extended resources to be had from devices → the allocator's work for them and the unallocated claims."""
    results: dict[str, Found] = field(default_factory=dict)
    """Node → what was found there."""
    chosen: dict[str, AllocationResult] = field(default_factory=dict)
    """Claim UID → the allocation to be written, after Reserve."""
    special: ResourceClaim | None = None
    """The claim for extended resources, after Reserve; in memory until PreBind creates it."""
    special_resources: frozenset[str] = frozenset()
    """The extended resources that the special claim provides."""
    special_created: bool = False
    """Whether the special claim exists in the API."""

    @property
    def unallocated(self) -> list[ResourceClaim]:
        """The user's claims that need devices."""
        return [claim for index, claim in enumerate(self.claims) if index not in self.placements]

    @property
    def all_claims(self) -> list[ResourceClaim]:
        """The user's claims, and the special one if there is one."""
        return [*self.claims, self.special] if self.special is not None else self.claims
