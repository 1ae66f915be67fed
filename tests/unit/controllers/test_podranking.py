"""The order in which surplus pods are given up."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict, to_dict
from cathedra.client.objects import with_metadata
from cathedra.controllers.podranking import DELETION_COST, least_done_first, surplus_first


def pod(
    name: str,
    *,
    node: str = "n1",
    phase: str = "Running",
    ready: str = "1970-01-01T00:01:40Z",
    cost: str = "",
    restarts: int = 0,
    created: str = "1970-01-01T00:00:01Z",
) -> Pod:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ready}] if ready else []
    metadata: dict[str, Any] = {"name": name, "creationTimestamp": created}
    if cost:
        metadata["annotations"] = {DELETION_COST: cost}
    containers = [{"name": "c", "restartCount": restarts}]
    status = {"phase": phase, "conditions": conditions, "containerStatuses": containers}
    return from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


NOW = 10_000.0


def names(pods: list[Pod]) -> list[str]:
    return [one.metadata.name for one in pods]


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (pod("a", node=""), pod("b", phase="Pending", ready="")),
        (pod("a", phase="Pending", ready=""), pod("b", ready="")),
        (pod("a", ready=""), pod("b", cost="-5")),
        (pod("a", cost="-5"), pod("b", cost="not a number")),
        (pod("a", ready="1970-01-01T02:00:00Z"), pod("b")),
        (pod("a", restarts=2), pod("b", restarts=1)),
        (pod("a", created="1970-01-01T02:00:00Z"), pod("b")),
    ],
)
def test_what_matters_most_is_asked_first(goes: Pod, stays: Pod) -> None:
    assert names(surplus_first([stays, goes], (), NOW)) == ["a", "b"]


def test_pods_that_share_their_node_with_many_related_ones_go_first() -> None:
    pods = [pod("alone", node="n2"), pod("x", node="n1")]
    assert names(surplus_first(pods, [*pods, pod("other", node="n1")], NOW)) == ["x", "alone"]
    assert names(surplus_first(pods, [*pods, pod("one", node="n2"), pod("two", node="n2")], NOW)) == ["alone", "x"]


def test_pods_of_about_the_same_age_are_taken_by_their_uids() -> None:
    older = with_metadata(pod("older", ready="1970-01-01T00:00:10Z"), uid="1")
    younger = with_metadata(pod("younger", ready="1970-01-01T00:05:00Z"), uid="2")
    assert names(surplus_first([younger, older], (), NOW)) == ["older", "younger"]


def test_the_order_does_not_depend_on_that_of_the_list() -> None:
    pods = [pod(f"p{n}", cost=str(n)) for n in range(10)]
    shuffled = random.Random(1).sample(pods, len(pods))
    assert surplus_first(shuffled, pods, NOW) == surplus_first(pods, pods, NOW)


@pytest.mark.parametrize(
    ("goes", "stays"),
    [
        (pod("a", node=""), pod("b")),
        (pod("a", ready=""), pod("b")),
        (pod("a", ready="1970-01-01T00:00:11Z"), pod("b", ready="1970-01-01T00:00:10Z", cost="-5")),
        (pod("a", restarts=2), pod("b", restarts=1)),
        (pod("a", created="1970-01-01T00:00:09Z"), pod("b")),
    ],
)
def test_jobs_ask_neither_for_costs_nor_for_neighbours(goes: Pod, stays: Pod) -> None:
    assert names(least_done_first([stays, goes])) == ["a", "b"]


def sidecar(restarts: int) -> Pod:
    made = pod(f"r{restarts}")
    init = {"name": "s", "restartPolicy": "Always"}
    return from_dict(
        Pod,
        {
            **to_dict(made),
            "spec": {"nodeName": "n1", "initContainers": [init]},
            "status": {**to_dict(made.status), "initContainerStatuses": [{"name": "s", "restartCount": restarts}]},
        },
    )


def test_restarts_of_sidecars_are_asked_last_of_restarts() -> None:
    assert names(surplus_first([sidecar(1), sidecar(3)], (), NOW)) == ["r3", "r1"]
