"""Interface of a driver that allocates: it checks parameters and nodes, and allocates claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import Pod
from cathedra.classic.anyclaim import C

Allocation = v1alpha2.AllocationResult
"""Allocation of a claim: handles for node plugins, the nodes that can use it, and whether pods may share it."""


@dataclass(slots=True)
class WantedClaim(Generic[C]):
    """One claim on its way to its allocation; the driver fills in the last three fields."""

    claim: C
    pod_claim_name: str = field(default="", kw_only=True)
    """Name of the pod's entry, or "" without a pod."""
    unsuitable_nodes: list[str] = field(default_factory=list, kw_only=True)
    allocation: Any = field(default=None, kw_only=True)
    error: Exception | None = field(default=None, kw_only=True)


W = TypeVar("W", bound=WantedClaim[Any])


class AllocatingDriver(ABC, Generic[C, W]):
    """Decides for one kind of resources. All methods may be called again with what they were called with before."""

    @abstractmethod
    async def allocate(self, claims: Sequence[W], selected_node: str) -> None:
        """Give each claim an allocation that can be used on the node, or an error.

        ``selected_node`` is "" for claims that are allocated at once: then the driver chooses.
        """

    @abstractmethod
    async def deallocate(self, claim: C) -> None:
        """Take back what the claim has, if it has anything, and end an allocation that is under way."""

    @abstractmethod
    async def unsuitable_nodes(self, pod: Pod, claims: Sequence[W], potential_nodes: list[str]) -> None:
        """Enter, for each claim, the nodes where it cannot be allocated together with the pod's others."""


@dataclass(slots=True)
class ClaimAllocation(WantedClaim[v1alpha2.ResourceClaim]):
    """A claim of 1.26 to 1.30, with its class and parameters."""

    resource_class: v1alpha2.ResourceClass
    claim_parameters: Any = None
    """Result of `ClassicDriver.get_claim_parameters` for the claim."""
    class_parameters: Any = None
    """Result of `ClassicDriver.get_class_parameters` for its class."""


class ClassicDriver(AllocatingDriver[v1alpha2.ResourceClaim, ClaimAllocation]):
    """A driver of 1.26 to 1.30: classes and claims may refer to parameters in kinds of its own."""

    async def get_class_parameters(self, resource_class: v1alpha2.ResourceClass) -> Any:
        """The class's parameters, fetched and checked; whatever is raised is shown to the user."""
        return None

    async def get_claim_parameters(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass, class_parameters: Any
    ) -> Any:
        """The claim's parameters, fetched and checked; whatever is raised is shown to the user."""
        return None
