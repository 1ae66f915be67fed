"""Nodes with so much of each resource."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Node, NodeStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.scheduler.state.node_info import NodeInfo

__all__ = ["node_info"]


def node_info(**allocatable: str) -> NodeInfo:
    """A node without pods."""
    status = NodeStatus(allocatable={name: Quantity(value) for name, value in allocatable.items()})
    return NodeInfo(Node(metadata=ObjectMeta(name="n"), status=status))
