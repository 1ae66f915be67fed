"""Nodes."""

from __future__ import annotations

from cathedra.api.core import core_v1
from cathedra.api.struct import from_dict
from tests.unit.kinds.objects import row


def test_a_node_says_whether_it_is_ready_and_cordoned() -> None:
    values = {"spec": {"unschedulable": True}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    assert row("nodes", from_dict(core_v1.Node, values))["Status"] == "Ready,SchedulingDisabled"
