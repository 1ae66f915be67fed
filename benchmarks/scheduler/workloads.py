"""The workloads: clusters, what is in them already, and the pods that are measured (docs/spec/scheduling.md §19)."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

__all__ = ["WORKLOADS", "Shape", "Workload"]


class Shape(enum.Enum):
    """Contents of slices and claims."""

    BASIC = "one device of a node's slice"
    SELECTOR = "one device of a node's slice whose version and memory a selector compares"
    FIRST_AVAILABLE = "one device of a node's slice, where a class without devices is preferred"
    TOLERATION = "one device of a node's slice, all of which a rule taints"
    MATCH_TWO = "two devices of a node's slice on one PCI root of two"
    MATCH = "five devices of a node's slice on one PCI root of two"
    EXTENDED = "one device of a node's slice, asked for as an extended resource of one of 25 classes"
    PARTITIONS = "two partitions of one pool that all nodes reach, under shared counters"
    CONSUMABLE = "two shares of the capacity of devices that all nodes reach"
    NONE = "no claim, but processor and memory"


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """One row."""

    name: str
    nodes: int
    pods: int
    """In a burst: number of measured pods. In a steady stream: number of pods that wait at any time."""
    kubernetes: float | None = None
    """Pods per second of kube-scheduler with its control plane on two cores of a machine of this kind."""
    goal: float | None = None
    devices: int = 10
    """Per node, or pools in all where they belong to no node."""
    steady: bool = False
    init_claims: int = 0
    """Allocated before the measurement."""
    pods_per_claim: int = 0
    """0: every pod has a claim of its own from a template."""
    shape: Shape = Shape.BASIC
    apart: bool = False
    """Also measured with the parts in processes of their own."""
    templates: int = 1
    """Number of different templates that the pods come from, each with a claim template of its own."""
    seconds: float = 10.0
    """Seconds for which a steady stream is measured."""


_TEMPLATE: Final = "SchedulingWithResourceClaimTemplate"
_STEADY: Final = "SteadyStateClusterResourceClaimTemplate"


def _steady(
    name: str,
    nodes: int,
    kubernetes: float | None = None,
    goal: float | None = None,
    *,
    claims: int = 0,
    shape: Shape = Shape.BASIC,
    apart: bool = False,
) -> Workload:
    """Ten pods wait at any time, for ten seconds."""
    return Workload(name, nodes, 10, kubernetes, goal, steady=True, init_claims=claims, shape=shape, apart=apart)


WORKLOADS: Final[tuple[Workload, ...]] = (
    Workload(f"{_TEMPLATE}/2000pods_100nodes", 100, 2000, 41, 820, devices=20, apart=True),
    Workload(f"{_TEMPLATE}/2000pods_200nodes", 200, 1000, init_claims=1000),
    Workload(f"{_TEMPLATE}/5000pods_500nodes", 500, 2500, 49, 980, init_claims=2500, apart=True),
    _steady(f"{_STEADY}/empty_100nodes", 100, 18.6, 372, apart=True),
    _steady(f"{_STEADY}/empty_200nodes", 200),
    _steady(f"{_STEADY}/empty_500nodes", 500),
    _steady(f"{_STEADY}/half_100nodes", 100, claims=500),
    _steady(f"{_STEADY}/half_200nodes", 200, claims=1000),
    _steady(f"{_STEADY}/half_500nodes", 500, 39, 390, claims=2500),
    _steady(f"{_STEADY}/full_100nodes", 100, claims=990),
    _steady(f"{_STEADY}/full_200nodes", 200, claims=1990),
    _steady(f"{_STEADY}/full_500nodes", 500, claims=4990),
    _steady(f"{_STEADY}/selector_empty_500nodes", 500, shape=Shape.SELECTOR),
    _steady(f"{_STEADY}/match_2_empty_500nodes", 500, shape=Shape.MATCH_TWO),
    _steady(f"{_STEADY}/match_empty_500nodes", 500, 34, 340, shape=Shape.MATCH),
    _steady(f"{_STEADY}FirstAvailable/empty_500nodes", 500, shape=Shape.FIRST_AVAILABLE),
    _steady(f"{_STEADY}Toleration/empty_500nodes", 500, shape=Shape.TOLERATION),
    Workload("SchedulingWithResourceClaim/2000pods_200nodes", 200, 1000, devices=2, init_claims=200, pods_per_claim=5),
    Workload("SchedulingWithResourceClaim/5000pods_500nodes", 500, 2500, devices=2, init_claims=500, pods_per_claim=5),
    Workload("SchedulingWithExtendedResource_25Classes/2000pods_200nodes", 200, 1000, shape=Shape.EXTENDED),
    Workload(
        f"{_STEADY}Partitionable/2000pods_100nodes",
        100,
        2000,
        devices=2000,
        steady=True,
        init_claims=2000,
        shape=Shape.PARTITIONS,
    ),
    Workload(
        f"{_STEADY}ConsumableCapacity/2000pods_100nodes", 100, 2000, devices=2000, steady=True, shape=Shape.CONSUMABLE
    ),
    Workload("SchedulingBasic/500Nodes", 500, 1000, 334, 1002, shape=Shape.NONE, apart=True),
    Workload("SchedulingBasic/5000Nodes", 5000, 1000, shape=Shape.NONE),
)
