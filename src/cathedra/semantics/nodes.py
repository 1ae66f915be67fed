"""Readiness of nodes: their condition Ready."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Node
from cathedra.semantics.conditions import find_condition, is_true


def is_node_ready(node: Node) -> bool:
    """Return True if condition Ready is True. Source: ``pkg/util/node/node.go`` (IsNodeReady)."""
    return is_true(node.status.conditions, "Ready")


def ready_status(node: Node) -> str:
    """Return the status of condition Ready; a node without one is Unknown (docs/spec/controllers.md §9.2)."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready.status if ready is not None else "Unknown"
