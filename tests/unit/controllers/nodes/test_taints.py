"""Which taints a node's state asks for, and for how long pods may stay."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Node, Taint, Toleration
from cathedra.api.struct import from_dict
from cathedra.controllers.nodes.taints import (
    NOT_READY,
    UNREACHABLE,
    eviction_delay,
    no_execute_key,
    no_schedule_keys,
)


def node(*, unschedulable: bool = False, **conditions: str) -> Node:
    found = [{"type": kind, "status": status} for kind, status in conditions.items()]
    return from_dict(Node, {"spec": {"unschedulable": unschedulable}, "status": {"conditions": found}})


@pytest.mark.parametrize(
    ("made", "keys"),
    [
        (node(Ready="True"), set()),
        (node(Ready="False"), {"not-ready"}),
        (node(Ready="Unknown"), {"unreachable"}),
        (node(), {"not-ready"}),
        (node(Ready="True", unschedulable=True), {"unschedulable"}),
        (node(Ready="True", MemoryPressure="True", DiskPressure="False"), {"memory-pressure"}),
        (node(Ready="True", PIDPressure="True", NetworkUnavailable="True"), {"pid-pressure", "network-unavailable"}),
    ],
)
def test_every_bad_condition_has_its_taint(made: Node, keys: set[str]) -> None:
    assert no_schedule_keys(made) == {f"node.kubernetes.io/{key}" for key in keys}


def test_pods_leave_only_nodes_that_are_not_ready_or_silent() -> None:
    assert no_execute_key(node(Ready="True", MemoryPressure="True")) == ""
    assert no_execute_key(node(Ready="False")) == NOT_READY
    assert no_execute_key(node(Ready="Unknown")) == UNREACHABLE


def toleration(key: str, seconds: int | None) -> Toleration:
    stated: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
    return from_dict(Toleration, stated if seconds is None else {**stated, "tolerationSeconds": seconds})


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], 0.0),
        ([toleration("a", None)], 0.0),
        ([toleration("a", None), toleration("b", None)], None),
        ([toleration("a", 300), toleration("b", 60)], 60.0),
        ([toleration("a", None), toleration("b", 60)], 60.0),
        ([toleration("a", -5), toleration("b", 60)], 0.0),
    ],
)
def test_the_shortest_toleration_decides_and_each_taint_needs_one(
    tolerations: list[Toleration], expected: float | None
) -> None:
    taints = [Taint(key=key, effect="NoExecute") for key in ("a", "b")]
    assert eviction_delay(taints, tolerations) == expected
