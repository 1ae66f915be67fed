"""What is left on a node, and how evenly it is used."""

from __future__ import annotations

import pytest

from cathedra.scheduler.framework.events import Action, ClusterEvent, EventResource
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.outcome import on, outcome


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ({"cpu": "5"}, "1 Insufficient cpu"),
        ({"cpu": "5", "memory": "33Gi"}, "1 Insufficient cpu, 1 Insufficient memory"),
        ({"a.test/b": "1"}, "1 Insufficient a.test/b"),
    ],
)
def test_every_resource_of_which_there_is_not_enough_is_named(requests: dict[str, str], why: str) -> None:
    assert outcome(pod("p", requests=requests), [node("n")]) == f"0/1 nodes are available: {why}."


def test_a_node_takes_so_many_pods_as_it_says() -> None:
    assert outcome(pod("p"), [node("n", pods="0")]) == "0/1 nodes are available: 1 Too many pods."


def test_equal_use_of_cpu_and_memory_scores_higher() -> None:
    cache = Cache()
    cache.set_node(node("even"))
    cache.set_node(node("uneven"))
    cache.add_pod(on("uneven", pod("there", requests={"cpu": "2"})))
    incoming = PodInfo(pod("p", requests={"cpu": "1", "memory": "8Gi"}))
    snapshot = cache.snapshot()
    scores = NodeResourcesBalancedAllocation().score(CycleState(snapshot), incoming, snapshot.nodes)
    assert scores is not None
    by_node = dict(zip((info.name for info in snapshot.nodes), scores, strict=True))
    assert by_node["even"] == 100 > by_node["uneven"]


def test_a_node_that_would_be_too_small_even_if_empty_wakes_no_pod() -> None:
    plugin = NodeResourcesFit(lambda _: False)
    hint = next(one.hint for one in plugin.events() if one.resource is EventResource.NODE)
    assert hint is not None
    waiting = pod("p", requests={"cpu": "8"})
    assert not hint(waiting, ClusterEvent(EventResource.NODE, Action.ADD, None, node("n", cpu="4")))
    assert hint(waiting, ClusterEvent(EventResource.NODE, Action.ADD, None, node("n", cpu="8")))


def test_resources_of_pods_already_there_count() -> None:
    there = on("n", pod("there", requests={"cpu": "3"}))
    assert "1 Insufficient cpu" in outcome(pod("p", requests={"cpu": "2"}), [node("n")], [there])


def test_a_resource_with_a_device_class_is_left_to_dynamic_resources() -> None:
    assert outcome(pod("p", requests={"acme.test/fpga": "1"}), [node("n")]) == "n"


def test_the_emptier_node_is_chosen() -> None:
    there = on("full", pod("there", requests={"cpu": "2", "memory": "16Gi"}))
    assert outcome(pod("p", requests={"cpu": "1"}), [node("full"), node("empty")], [there]) == "empty"
