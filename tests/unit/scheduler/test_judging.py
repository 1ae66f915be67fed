"""The verdict of the scheduler's filters on a pod, over a state that does not change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar, cast

import pytest

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.api.undecodable import Undecodable
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.transport import Transport
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from cathedra.scheduler.judging import (
    DEVICES,
    Filters,
    Judgement,
    SimulatedScheduler,
    device_error,
    device_refusal,
    requests_of,
    simulated_configuration,
)
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_

T = TypeVar("T", bound=KubeObject)


@dataclass
class Objects:
    """The objects of a cluster, as a tool has read them."""

    objects: Sequence[Any]
    gates: FeatureGates = field(default_factory=FeatureGates.for_release)
    undecodable: Sequence[Undecodable] = ()

    @property
    def nodes(self) -> Sequence[Node]:
        return self.all(Node)

    @property
    def pods(self) -> Sequence[Pod]:
        return self.all(Pod)

    def all(self, kind: type[T]) -> Sequence[T]:
        return [one for one in self.objects if isinstance(one, kind)]

    def is_known(self, kind: type[Any]) -> bool:
        return True


def reasons(judgement: Judgement, name: str) -> list[str]:
    return [reason for status in judgement.outside[name] for reason in status.reasons]


def test_every_filter_is_called_for_every_node() -> None:
    taint = {"key": "maintenance", "effect": "NoSchedule"}
    filters = Filters.over(Objects([node("a"), node("b", unschedulable=True, taints=[taint], cpu="1")]))
    judgement = filters.judge(pod("p", requests={"cpu": "2"}))
    assert judgement.fitting == ("a",)
    assert [status.plugin for status in judgement.outside["b"]] == [
        "NodeUnschedulable",
        "TaintToleration",
        "NodeResourcesFit",
    ]


def test_only_the_nodes_in_question_are_judged() -> None:
    filters = Filters.over(Objects([node("a"), node("b"), node("c")]))
    assert filters.judge(pod("p"), only=frozenset(("b", "c"))).passing == ("b", "c")


def test_a_node_that_affinity_excludes_before_filtering_is_refused_by_name() -> None:
    required = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [required]}}}
    judgement = Filters.over(Objects([node("a"), node("b")])).judge(pod("p", affinity=affinity))
    assert judgement.passing == ("a",)
    assert "node(s) didn't satisfy plugin(s) [NodeAffinity]" in reasons(judgement, "b")


def test_a_missing_claim_keeps_the_pod_out_of_the_queue() -> None:
    entry = {"name": "gpu", "resourceClaimName": "none"}
    judgement = Filters.over(Objects([node("a")])).judge(pod("p", resourceClaims=[entry]))
    assert judgement.waiting is not None
    assert judgement.waiting.plugin == DEVICES
    assert judgement.passing == ()


def test_devices_refuse_a_node_beside_other_filters() -> None:
    entry = {"name": "gpu", "resourceClaimName": "c"}
    objects = [node("a"), node("b"), device_class(), slice_("a"), claim("c", exactly())]
    judgement = Filters.over(Objects(objects)).judge(pod("p", resourceClaims=[entry]))
    assert judgement.fitting == ("a",)
    assert judgement.devices["b"].message == "cannot allocate all claims"
    assert judgement.cycle is not None
    assert [one.metadata.name for one in judgement.cycle.unallocated if isinstance(one, ResourceClaim)] == ["c"]
    without = Filters.over(Objects(objects)).judge(pod("p", resourceClaims=[entry]), devices=False)
    assert without.passing == ("a", "b")


@pytest.mark.parametrize("only", [None, frozenset("ab")])
def test_without_devices_a_missing_claim_keeps_no_other_filter_from_its_verdict(only: frozenset[str] | None) -> None:
    entry = {"name": "gpu", "resourceClaimName": "none"}
    filters = Filters.over(Objects([node("a"), node("b", unschedulable=True), node("c")]))
    judgement = filters.judge(pod("p", resourceClaims=[entry]), only=only, devices=False)
    assert judgement.passing == (("a", "c") if only is None else ("a",))
    assert [status.plugin for status in judgement.outside["b"]] == ["NodeUnschedulable"]


def test_an_error_on_one_node_ends_the_attempt_for_all_nodes() -> None:
    judgement = Judgement(devices={"b": device_error("broken")}, nodes=("a", "b"))
    assert judgement.passing == ("a",)
    assert judgement.fitting == ()
    refused = Judgement(devices={"b": device_refusal("cannot allocate all claims")}, nodes=("a", "b"))
    assert refused.fitting == ("a",)


def test_the_largest_free_amount_is_what_the_pods_of_a_node_leave() -> None:
    filters = Filters.over(Objects([node("a"), node("b", cpu="8"), pod("p", requests={"cpu": "5"}, nodeName="b")]))
    assert filters.most_free("cpu", ["a", "b"]) == 4000
    assert filters.most_free("cpu", ["b"]) == 3000
    assert filters.most_free("cpu", ["no-such-node"]) == 0


def test_requests_are_those_that_the_scheduler_counts() -> None:
    assert requests_of(pod("p", requests={"cpu": "1500m", "memory": "1Gi"}))["cpu"] == 1500


def simulated(*objects: Any) -> tuple[SimulatedScheduler, Objects]:
    """A scheduler that does not run, and a state."""
    state = Objects(list(objects))
    clock = SystemClock()
    client = Client(cast(Transport, None), clock=clock)
    scheduler = SimulatedScheduler(
        client,
        SharedInformers(client, clock),
        clock=clock,
        random=Random(0),
        gates=state.gates,
        configuration=simulated_configuration(volumes=True),
    )
    return scheduler, state


def test_filters_over_the_state_of_a_scheduler_that_has_decided_nothing() -> None:
    scheduler, state = simulated(node("a"))
    assert scheduler.filters(state) is not None


def test_a_scheduler_with_an_assumed_pod_has_no_filters_over_the_stored_state() -> None:
    scheduler, state = simulated(node("a"))
    scheduler.state.cache.assume(PodInfo(pod("p", nodeName="a")))
    assert scheduler.filters(state) is None


def test_a_scheduler_with_an_unwritten_decision_has_no_filters_over_the_stored_state() -> None:
    scheduler, state = simulated(node("a"))
    scheduler.state.devices.take(claim("c", exactly()), AllocationResult(), "p")
    assert scheduler.filters(state) is None


def test_a_scheduler_with_a_nomination_that_is_not_stored_has_no_filters_over_the_stored_state() -> None:
    scheduler, state = simulated(node("a"), pod("p"))
    scheduler.state.nominations.set(PodInfo(pod("p")), "a")
    assert scheduler.filters(state) is None
