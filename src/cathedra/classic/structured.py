"""Structured parameters of 1.30: the scheduler allocates named instances that drivers publish in slices.

A reference in a claim or class names the parameters themselves, or an object of the driver's own kind from which
exactly one object of parameters has been generated. Selectors are CEL over the attributes of one instance, a map for
each type of value: ``attributes.quantity["memory"].isGreaterThan(quantity("16Gi"))`` (docs/spec/cel.md §11). Each
request gets the first instance that is free and selected, and never gives it up for a later request
(docs/spec/scheduling.md §18.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeVar

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.core_v1 import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from cathedra.api.struct import RawJSON
from cathedra.cel import program
from cathedra.cel.checking import types
from cathedra.cel.environment import Environment
from cathedra.cel.errors import CompileError, EvaluationError
from cathedra.cel.library.quantity import QuantityValue
from cathedra.cel.library.semver import Semver
from cathedra.cel.program import Program
from cathedra.client.store import Store
from cathedra.remembering import remembered


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance, as claims hold it."""

    node: str
    driver: str
    name: str


def taken_by(claim: v1alpha2.ResourceClaim) -> Iterable[Instance]:
    """Yield the instances that a claim holds."""
    allocation = claim.status.allocation
    for handle in allocation.resource_handles if allocation is not None else ():
        structured = handle.structured_data
        for result in structured.results if structured is not None else ():
            if structured is not None and result.named_resources is not None:
                driver = handle.driver_name or claim.status.driver_name
                yield Instance(structured.node_name, driver, result.named_resources.name)


class Stock:
    """Resources of slices that no claim holds."""

    def __init__(self, slices: Iterable[v1alpha2.ResourceSlice], claims: Iterable[v1alpha2.ResourceClaim]) -> None:
        self._offered: dict[tuple[str, str], list[v1alpha2.NamedResourcesInstance]] = {}
        for piece in slices:
            # Slices of models that 1.30 does not know offer nothing.
            if piece.named_resources is not None:
                offered = self._offered.setdefault((piece.node_name, piece.driver_name), [])
                offered.extend(piece.named_resources.instances)
        self._taken = {instance for claim in claims for instance in taken_by(claim)}

    def free(self, node: str, driver: str) -> list[v1alpha2.NamedResourcesInstance]:
        """Return the free resources of a driver on a node, in the order of its slices."""
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
        """Allocate the claim on the node and enter it in ``held``. Return None if the node has too few resources.

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


_GROUP: Final = "resource.k8s.io"


class MissingParameters(Exception):
    """Parameters are not there (yet)."""


class AmbiguousParameters(Exception):
    """Several objects were generated from one."""


def default_claim_parameters(driver: str) -> v1alpha2.ResourceClaimParameters:
    """Return the parameters of a claim without a reference: any one instance of its class's driver, shareable."""
    request = v1alpha2.ResourceRequest(named_resources=v1alpha2.NamedResourcesRequest(selector="true"))
    return v1alpha2.ResourceClaimParameters(
        shareable=True, driver_requests=(v1alpha2.DriverRequests(driver_name=driver, requests=(request,)),)
    )


class StructuredParameters:
    """The parameters that are known."""

    def __init__(
        self, classes: Store[v1alpha2.ResourceClassParameters], claims: Store[v1alpha2.ResourceClaimParameters]
    ) -> None:
        self._classes = classes
        self._claims = claims

    def of_class(self, resource_class: v1alpha2.ResourceClass) -> v1alpha2.ResourceClassParameters | None:
        """Return the parameters of a class. Return None if it refers to none.

        Raises:
            MissingParameters: they are not there.
            AmbiguousParameters: the reference is ambiguous.
        """
        reference = resource_class.parameters_ref
        if reference is None:
            return None
        if (reference.api_group, reference.kind) == (_GROUP, "ResourceClassParameters"):
            found = self._classes.get(reference.namespace, reference.name)
            if found is None:
                raise MissingParameters(f"class parameters {reference.namespace}/{reference.name} not found")
            return found
        generated = [one for one in self._classes.list() if one.generated_from == reference]
        what = f"{reference.kind}.{reference.api_group} {reference.namespace}/{reference.name}"
        return _only(generated, "class", what)

    def of_claim(
        self, claim: v1alpha2.ResourceClaim, resource_class: v1alpha2.ResourceClass
    ) -> v1alpha2.ResourceClaimParameters:
        """Return the parameters of a claim, or the default ones.

        Raises:
            MissingParameters: they are not there.
            AmbiguousParameters: the reference is ambiguous.
        """
        reference, namespace = claim.spec.parameters_ref, claim.metadata.namespace
        if reference is None:
            return default_claim_parameters(resource_class.driver_name)
        if (reference.api_group, reference.kind) == (_GROUP, "ResourceClaimParameters"):
            found = self._claims.get(namespace, reference.name)
            if found is None:
                raise MissingParameters(f"claim parameters {namespace}/{reference.name} not found")
            return found
        generated = [
            one
            for one in self._claims.list()
            if one.metadata.namespace == namespace and one.generated_from == reference
        ]
        return _only(generated, "claim", f"{reference.kind}.{reference.api_group} {namespace}/{reference.name}")


K = TypeVar("K", v1alpha2.ResourceClassParameters, v1alpha2.ResourceClaimParameters)


def _only(generated: Sequence[K], what: str, whose: str) -> K:
    if not generated:
        raise MissingParameters(f"generated {what} parameters for {whose} not found")
    if len(generated) > 1:
        names = ", ".join(f"{one.metadata.namespace}/{one.metadata.name}" for one in generated)
        raise AmbiguousParameters(f"multiple generated {what} parameters for {whose} found: {names}")
    return generated[0]


_TYPES: Final = {
    "quantity": types.QUANTITY,
    "bool": types.BOOL,
    "int": types.INT,
    "intslice": types.list_of(types.INT),
    "string": types.STRING,
    "stringslice": types.list_of(types.STRING),
    "version": types.SEMVER,
}
_LIMIT: Final = 1_000_000
"""Of the cost of one evaluation."""


@cache
def _environment() -> Environment:
    return Environment({f"attributes.{name}": types.map_of(types.STRING, kind) for name, kind in _TYPES.items()})


@remembered("classic.structured.compile_selector", size=4096)
def compile_selector(expression: str) -> Program:
    """Return the compiled selector.

    Raises:
        CompileError: it is refused, with Kubernetes' text.
    """
    compiled = program.compile_expression(expression, _environment())
    if compiled.type is not types.BOOL:
        raise CompileError("RuleInvalid", "must evaluate to bool")
    compiled.instantiate()
    return compiled


def matches(expression: str, instance: v1alpha2.NamedResourcesInstance) -> bool:
    """Return True if the instance is selected.

    Raises:
        CompileError: the expression is refused.
        EvaluationError: it has no value for this instance, as for an attribute that it has not.
    """
    found = compile_selector(expression).evaluate(_variables(instance), _LIMIT)
    if found.error is not None:
        raise EvaluationError(found.error)
    return bool(found.value)


def _variables(instance: v1alpha2.NamedResourcesInstance) -> dict[str, dict[str, Any]]:
    maps: dict[str, dict[str, Any]] = {f"attributes.{name}": {} for name in _TYPES}
    for attribute in instance.attributes:
        kind, value = _value(attribute)
        maps[f"attributes.{kind}"][attribute.name] = value
    return maps


def _value(attribute: v1alpha2.NamedResourcesAttribute) -> tuple[str, Any]:
    if attribute.quantity is not None:
        return "quantity", QuantityValue.of(attribute.quantity)
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.int_slice is not None:
        return "intslice", list(attribute.int_slice.ints)
    if attribute.string_slice is not None:
        return "stringslice", list(attribute.string_slice.strings)
    if attribute.version is not None:
        return "version", Semver.parse(attribute.version)
    return "string", attribute.string or ""
