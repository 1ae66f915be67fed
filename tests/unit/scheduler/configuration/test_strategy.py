"""Scores of nodes by strategy, in kube-scheduler's whole numbers."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Container, Pod, PodSpec, ResourceRequirements
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.scheduler.configuration.document import (
    RatioParameters,
    ResourceWeight,
    ScoringStrategy,
    UtilizationPoint,
)
from cathedra.scheduler.configuration.strategy import LEAST_ALLOCATED, fit_scoring
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.nodes import node_info

GPU = "example.com/gpu"


def pod(**requests: str) -> PodInfo:
    named = {name.replace("_", "/").replace("example/", "example.com/"): Quantity(v) for name, v in requests.items()}
    container = Container(name="main", resources=ResourceRequirements(requests=named))
    return PodInfo(Pod(metadata=ObjectMeta(name="p", uid="u"), spec=PodSpec(containers=(container,))))


def line(*points: tuple[int, int]) -> ScoringStrategy:
    shape = [UtilizationPoint(utilization, score) for utilization, score in points]
    return ScoringStrategy(type="RequestedToCapacityRatio", requested_to_capacity_ratio=RatioParameters(shape=shape))


@pytest.mark.parametrize(
    ("strategy", "score"),
    [
        (None, 62),
        (ScoringStrategy(), 62),
        (ScoringStrategy(type="MostAllocated"), 37),
        (ScoringStrategy(resources=[ResourceWeight("cpu", 3), ResourceWeight("memory", 1)]), 56),
        (line((0, 0), (100, 10)), 38),
        (line((0, 10), (100, 0)), 63),
        (line((0, 0), (50, 10), (100, 0)), 75),
    ],
)
def test_half_the_cpu_and_a_quarter_of_the_memory(strategy: ScoringStrategy | None, score: int) -> None:
    node = node_info(cpu="4", memory="8Gi")
    assert fit_scoring(strategy).score(pod(cpu="2", memory="2Gi"), node) == score


def test_extended_resources_count_for_pods_that_ask_for_them() -> None:
    node = node_info(cpu="4", memory="8Gi", **{GPU: "8"})
    strategy = fit_scoring(ScoringStrategy(type="MostAllocated", resources=[ResourceWeight(GPU, 5)]))
    assert strategy.score(pod(cpu="1", example_gpu="6"), node) == 75
    assert strategy.score(pod(cpu="1"), node) == 0


def test_what_the_node_does_not_have_is_counted_in_devices() -> None:
    strategy = fit_scoring(ScoringStrategy(type="MostAllocated", resources=[ResourceWeight(GPU, 5)]))
    wanted, node = pod(example_gpu="2"), node_info(cpu="4", memory="8Gi", **{GPU: "0"})
    assert strategy.score(wanted, node, lambda resource, _: (8, 4) if resource == GPU else (0, 0)) == 75
    assert strategy.score(wanted, node) == 0
    plugged = node_info(cpu="4", memory="8Gi", **{GPU: "4"})
    assert strategy.score(wanted, plugged, lambda *_: (100, 0)) == 50
    assert strategy.score(pod(cpu="1"), node, lambda *_: (8, 4)) == 0


def test_a_full_node_is_worst_for_spreading_and_best_for_packing() -> None:
    node = node_info(cpu="1", memory="1Gi")
    wanted = pod(cpu="2", memory="2Gi")
    assert LEAST_ALLOCATED.score(wanted, node) == 0
    assert fit_scoring(ScoringStrategy(type="MostAllocated")).score(wanted, node) == 100
