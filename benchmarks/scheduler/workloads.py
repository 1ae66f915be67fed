"""The workloads: clusters, what is in them already, and the pods that are measured (docs/spec/scheduling.md §19)."""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["WORKLOADS", "Shape", "Workload"]


class Shape(enum.Enum):
    """What the slices offer and the claims ask for."""

    BASIC = "one device of a node's slice"
    MATCH = "five devices of a node's slice on one PCI root of two"
    PARTITIONS = "two partitions of one pool that all nodes reach, under shared counters"
    CONSUMABLE = "two shares of the capacity of devices that all nodes reach"
    NONE = "no claim, but processor and memory"


@dataclass(frozen=True, slots=True)
class Workload:
    """One row."""

    name: str
    nodes: int
    pods: int
    """In a burst: so many are measured. In a steady stream: so many wait at any time."""
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


_TEMPLATE = "SchedulingWithResourceClaimTemplate"
_STEADY = "SteadyStateClusterResourceClaimTemplate"

WORKLOADS: tuple[Workload, ...] = (
    Workload(f"{_TEMPLATE}/2000pods_100nodes", 100, 2000, 41, 820, devices=20),
    Workload(f"{_TEMPLATE}/5000pods_500nodes", 500, 2500, 49, 980, init_claims=2500),
    Workload(f"{_STEADY}/empty_100nodes", 100, 10, 18.6, 372, steady=True),
    Workload(f"{_STEADY}/empty_500nodes", 500, 10, None, None, steady=True),
    Workload(f"{_STEADY}/half_500nodes", 500, 10, 39, 390, steady=True, init_claims=2500),
    Workload(f"{_STEADY}/full_500nodes", 500, 10, None, None, steady=True, init_claims=4990),
    Workload(f"{_STEADY}/match_empty_500nodes", 500, 10, 34, 340, steady=True, shape=Shape.MATCH),
    Workload("SchedulingWithResourceClaim/2000pods_200nodes", 200, 1000, devices=2, init_claims=200, pods_per_claim=5),
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
    Workload("SchedulingBasic/500Nodes", 500, 1000, shape=Shape.NONE),
)
