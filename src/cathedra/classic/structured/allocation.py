"""Which named instances a claim gets on a node: for each request the first that is free and selected.

There is no going back: a request never gives its instance up for a later one (docs/spec/scheduling.md §18.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from cathedra.api.struct import RawJSON
from cathedra.classic.structured.selectors import matches

__all__ = ["Instance", "Stock", "StructuredClaim", "taken_by"]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, as claims hold it."""

    node: str
    driver: str
    name: str


def taken_by(claim: v1alpha2.ResourceClaim) -> Iterable[Instance]:
    """The instances that a claim holds."""
    allocation = claim.status.allocation
    for handle in allocation.resource_handles if allocation is not None else ():
        structured = handle.structured_data
        for result in structured.results if structured is not None else ():
            if structured is not None and result.named_resources is not None:
                driver = handle.driver_name or claim.status.driver_name
                yield Instance(structured.node_name, driver, result.named_resources.name)


class Stock:
    """What slices offer, less what claims hold."""

    def __init__(self, slices: Iterable[v1alpha2.ResourceSlice], claims: Iterable[v1alpha2.ResourceClaim]) -> None:
        self._offered: dict[tuple[str, str], list[v1alpha2.NamedResourcesInstance]] = {}
        for piece in slices:
            if piece.named_resources is not None:
                offered = self._offered.setdefault((piece.node_name, piece.driver_name), [])
                offered.extend(piece.named_resources.instances)
        self._taken = {instance for claim in claims for instance in taken_by(claim)}

    def free(self, node: str, driver: str) -> list[v1alpha2.NamedResourcesInstance]:
        """What a driver has left on a node, in the order of its slices."""
        return [
            instance
            for instance in self._offered.get((node, driver), ())
            if Instance(node, driver, instance.name) not in self._taken
        ]


@dataclass(frozen=True, slots=True)
class StructuredClaim:
    """A claim that the scheduler allocates, with all that decides what it gets."""

    claim: v1alpha2.ResourceClaim
    resource_class: v1alpha2.ResourceClass
    class_parameters: v1alpha2.ResourceClassParameters | None
    parameters: v1alpha2.ResourceClaimParameters

    def allocate(self, stock: Stock, node: str, held: set[Instance]) -> v1alpha2.AllocationResult | None:
        """What the claim gets on the node; None if that is not enough. What it gets is entered in ``held``.

        Raises:
            CompileError, EvaluationError: a selector cannot be used.
        """
        handles: list[v1alpha2.ResourceHandle] = []
        mine: set[Instance] = set()
        for requests in self.parameters.driver_requests:
            driver = requests.driver_name
            results: list[v1alpha2.DriverAllocationResult] = []
            for request in requests.requests:
                name = self._pick(stock, node, driver, request, held | mine)
                if name is None:
                    return None
                mine.add(Instance(node, driver, name))
                results.append(
                    v1alpha2.DriverAllocationResult(
                        named_resources=v1alpha2.NamedResourcesAllocationResult(name=name),
                        vendor_request_parameters=request.vendor_parameters,
                    )
                )
            structured = v1alpha2.StructuredResourceHandle(
                vendor_class_parameters=self._vendor_parameters(driver),
                vendor_claim_parameters=requests.vendor_parameters,
                node_name=node,
                results=tuple(results),
            )
            handles.append(v1alpha2.ResourceHandle(driver_name=driver, structured_data=structured))
        held |= mine
        requirement = NodeSelectorRequirement(key="kubernetes.io/hostname", operator="In", values=(node,))
        term = NodeSelectorTerm(match_expressions=(requirement,))
        return v1alpha2.AllocationResult(
            resource_handles=tuple(handles),
            available_on_nodes=NodeSelector(node_selector_terms=(term,)),
            shareable=self.parameters.shareable,
        )

    def _pick(
        self, stock: Stock, node: str, driver: str, request: v1alpha2.ResourceRequest, held: set[Instance]
    ) -> str | None:
        wanted = request.named_resources
        if wanted is None:
            return None
        selectors = [*self._filters(driver), wanted.selector]
        for instance in stock.free(node, driver):
            if Instance(node, driver, instance.name) in held:
                continue
            if all(matches(selector, instance) for selector in selectors):
                return instance.name
        return None

    def _filters(self, driver: str) -> list[str]:
        filters = self.class_parameters.filters if self.class_parameters is not None else ()
        return [one.named_resources.selector for one in filters if one.driver_name == driver and one.named_resources]

    def _vendor_parameters(self, driver: str) -> RawJSON | None:
        vendor = self.class_parameters.vendor_parameters if self.class_parameters is not None else ()
        return next((one.parameters for one in vendor if one.driver_name == driver), None)
