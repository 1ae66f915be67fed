"""Readiness of nodes."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Node, NodeCondition, NodeStatus
from cathedra.semantics.nodes import is_node_ready, ready_status


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_a_node_is_ready_when_its_condition_is_true(status: str) -> None:
    node = Node(status=NodeStatus(conditions=(NodeCondition(type="Ready", status=status),)))
    assert is_node_ready(node) is (status == "True")
    assert ready_status(node) == status


def test_a_node_that_has_not_reported_is_unknown() -> None:
    assert ready_status(Node()) == "Unknown"
    assert not is_node_ready(Node())
