"""Small builders with meaningful defaults: devices, slices, classes, claims, and a cluster of one node."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cathedra.allocation import Allocation, Allocator, Budget, Features, Inventory, Ledger, Refusal
from cathedra.allocation.allocator import PreparedRequests
from cathedra.allocation.claims.problem import Problem, expand
from cathedra.allocation.supply.pools import NodeSupplyCache
from cathedra.api.core import core_v1
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict

DRIVER = "drv"


def attribute(value: Any) -> dict[str, Any]:
    """An attribute of the type that the Python value has."""
    if isinstance(value, bool):
        return {"bool": value}
    if isinstance(value, int):
        return {"int": value}
    if isinstance(value, list):
        return {"ints" if isinstance(value[0], int) else "strings": value}
    return {"version": value[1:]} if value.startswith("=") else {"string": value}


def device(name: str, **more: Any) -> dict[str, Any]:
    """A device; ``attributes`` in plain values, ``consumes`` as set → counter → amount, ``capacity`` as name →
    amount."""
    made: dict[str, Any] = {"name": name}
    for key, value in more.items():
        match key:
            case "attributes":
                made["attributes"] = {one: attribute(plain) for one, plain in value.items()}
            case "consumes":
                made["consumesCounters"] = [
                    {"counterSet": one, "counters": {name: {"value": str(amount)} for name, amount in of.items()}}
                    for one, of in value.items()
                ]
            case "capacity":
                made["capacity"] = {
                    one: of if isinstance(of, dict) else {"value": str(of)} for one, of in value.items()
                }
            case "shareable":
                made["allowMultipleAllocations"] = value
            case "taints":
                made["taints"] = [{"key": one, "effect": effect} for one, effect in value.items()]
            case _:
                made[key] = value
    return made


def resource_slice(
    *devices: dict[str, Any] | str,
    name: str = "s",
    pool: str = "p",
    driver: str = DRIVER,
    node: str | None = "alder",
    generation: int = 1,
    count: int = 1,
    counters: Mapping[str, Mapping[str, Any]] | None = None,
    **spec: Any,
) -> ResourceSlice:
    """Return a slice of ``node``; «alder» by default."""
    body: dict[str, Any] = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [device(one) if isinstance(one, str) else one for one in devices],
        **spec,
    }
    if node:
        body["nodeName"] = node
    if counters:
        body["sharedCounters"] = [
            {"name": one, "counters": {name: {"value": str(amount)} for name, amount in of.items()}}
            for one, of in counters.items()
        ]
    return from_dict(ResourceSlice, {"metadata": {"name": name}, "spec": body})


def exactly(name: str = "r", count: int = 1, *selectors: str, **more: Any) -> dict[str, Any]:
    """A request for ``count`` devices; ``count=0`` with ``allocationMode="All"`` for all."""
    return {"name": name, "exactly": _body(count, selectors, more)}


def first_available(name: str, **subs: dict[str, Any]) -> dict[str, Any]:
    """A request with alternatives, in order."""
    return {"name": name, "firstAvailable": [{"name": sub, **of["exactly"]} for sub, of in subs.items()]}


def _body(count: int, selectors: Iterable[str], more: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"deviceClassName": "c", "allocationMode": "ExactCount", "count": count, **more}
    if body["allocationMode"] == "All":
        del body["count"]
    if "capacity" in body:
        body["capacity"] = {"requests": {one: str(amount) for one, amount in body["capacity"].items()}}
    if chosen := [{"cel": {"expression": one}} for one in selectors]:
        body["selectors"] = chosen
    return body


def claim(*requests: dict[str, Any], name: str = "k", **devices: Any) -> ResourceClaim:
    """A claim in namespace «ns»."""
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "spec": {"devices": {"requests": list(requests), **devices}},
        },
    )


def held(
    *devices: str, name: str = "holder", pool: str = "p", shares: Mapping[str, Any] | None = None
) -> ResourceClaim:
    """A claim that holds devices, and shares of others: device → capacity → amount."""
    results: list[dict[str, Any]] = [{"request": "r", "driver": DRIVER, "pool": pool, "device": one} for one in devices]
    for number, (one, consumed) in enumerate((shares or {}).items()):
        results.append(
            {
                "request": "r",
                "driver": DRIVER,
                "pool": pool,
                "device": one,
                "shareID": f"{name}-{number}",
                "consumedCapacity": {key: str(amount) for key, amount in consumed.items()},
            }
        )
    return from_dict(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}"},
            "status": {"allocation": {"devices": {"results": results}}},
        },
    )


def rule(name: str = "rule", effect: str = "NoSchedule", **selector: str) -> DeviceTaintRule:
    """A taint rule with key «broken»."""
    spec: dict[str, Any] = {"taint": {"key": "broken", "effect": effect}}
    if selector:
        spec["deviceSelector"] = selector
    return from_dict(DeviceTaintRule, {"metadata": {"name": name}, "spec": spec})


def node(name: str = "alder", **labels: str) -> core_v1.Node:
    """A node with labels."""
    return from_dict(core_v1.Node, {"metadata": {"name": name, "labels": labels}})


@dataclass
class World:
    """A cluster in which class «c» selects everything."""

    slices: Iterable[ResourceSlice] = ()
    allocated: Iterable[ResourceClaim] = ()
    rules: Iterable[DeviceTaintRule] = ()
    features: Features = field(default_factory=Features)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        self.inventory = Inventory(self.slices, self.rules)
        self.ledger = Ledger()
        for one in self.allocated:
            self.ledger.add(one)
        self.classes = {"c": from_dict(DeviceClass, {"metadata": {"name": "c"}})}

    def allocator(self) -> Allocator:
        """An allocator for this moment."""
        return Allocator(
            self.features, self.classes, self.inventory.snapshot(), self.ledger.snapshot(), budget=self.budget
        )

    def allocate(self, *claims: ResourceClaim, on: str = "alder") -> Allocation | Refusal:
        """Compute the answer of a node."""
        return self.allocator().allocate(node(on), claims)

    def devices(self, *claims: ResourceClaim, on: str = "alder") -> list[str] | None:
        """«request→device» in order, or None if they do not fit."""
        outcome = self.allocate(*claims, on=on)
        if isinstance(outcome, Refusal):
            return None
        return list(
            itertools.chain.from_iterable(
                (f"{one.request}→{one.device}" for one in result.devices.results) for result in outcome.results
            )
        )


def problem_of(world: World, asked: list[ResourceClaim]) -> tuple[PreparedRequests, Problem]:
    """The claims on the node, expanded."""
    allocator = world.allocator()
    prepared = allocator.prepare(asked)
    supply = NodeSupplyCache(allocator.inventory, world.features).of(node())
    states = supply.states(allocator.ledger, shares=world.features.consumable_capacity)
    problem = Problem(prepared.plans, node(), supply, states, world.features)
    expand(problem)
    return prepared, problem
