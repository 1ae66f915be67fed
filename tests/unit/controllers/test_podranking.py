"""The order in which surplus pods are given up."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.controllers.podranking import DELETION_COST, surplus_first


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: str = "1970-01-01T00:01:40Z",
    cost: str = "",
    restarts: int = 0,
    created: str = "1970-01-01T00:00:00Z",
) -> Pod:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    metadata: dict[str, Any] = {"name": name, "creationTimestamp": created}
    if cost:
        metadata["annotations"] = {DELETION_COST: cost}
    containers = [{"name": "c", "restartCount": restarts}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    return from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (pod("a", node=""), pod("b", phase="Pending", ready="")),
        (pod("a", phase="Pending", ready=""), pod("b", ready="")),
        (pod("a", ready=""), pod("b", cost="-5")),
        (pod("a", cost="-5"), pod("b", cost="not a number")),
        (pod("a", ready="1970-01-01T00:03:20Z"), pod("b")),
        (pod("a", restarts=2), pod("b", restarts=1)),
        (pod("a", created="1970-01-01T00:00:09Z"), pod("b")),
    ],
)
def test_what_matters_most_is_asked_first(goes: Pod, stays: Pod) -> None:
    assert [one.metadata.name for one in surplus_first([stays, goes])] == ["a", "b"]


def test_pods_that_share_their_node_with_many_go_first() -> None:
    pods = [pod("alone", node="n2"), pod("x", node="n1"), pod("y", node="n1")]
    assert surplus_first(pods)[-1].metadata.name == "alone"


def test_the_order_does_not_depend_on_that_of_the_list() -> None:
    pods = [pod(f"p{n}", cost=str(n)) for n in range(10)]
    shuffled = random.Random(1).sample(pods, len(pods))
    assert surplus_first(shuffled) == surplus_first(pods)
