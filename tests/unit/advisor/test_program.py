"""Metrics of the advisor: the figures of a small cluster, and the bounds of labels."""

from __future__ import annotations

import re

from prometheus_client import CollectorRegistry

from cathedra.advisor.advisor import Advisor
from cathedra.advisor.program import METRICS, AdvisorMetrics, bounded
from cathedra.exposition import text_of
from tests.running import run_with
from tests.unit.advisor.test_devices import held
from tests.unit.advisor.world import World, waiting, with_world


def scraped(advisor: Advisor) -> str:
    registry = CollectorRegistry()
    registry.register(AdvisorMetrics(advisor))
    return text_of(registry.collect()).decode()


@run_with(with_world)
async def test_the_figures_are_those_of_the_cluster(world: World) -> None:
    await world.create(held("gpu-0"), *waiting("a", 4), *waiting("b", 1))
    advisor = world.advise()
    assert scraped(advisor) == ""
    await world.clock.sleep(70)
    text = scraped(advisor)
    for line in (
        'cathedra_devices{device_class="gpu",driver="gpu.example.com",state="free"} 1',
        'cathedra_devices{device_class="gpu",driver="gpu.example.com",state="tainted"} 0',
        'cathedra_node_devices{driver="gpu.example.com",node="n1",state="held"} 1',
        'cathedra_largest_request{device_class="gpu"} 1',
        'cathedra_waiting_pods{obstacle="reach"} 1',
        'cathedra_waiting_pods{obstacle=""} 1',
        'cathedra_pods_that_would_fit{kind="unseen",scheduler="default-scheduler"} 1',
        'cathedra_findings{kind="claim"} 1',
        'cathedra_allocated_claims{device_class="gpu",namespace="default"} 1',
        'cathedra_held_devices{device_class="gpu",namespace="default"} 1',
        'cathedra_devices_held_for{device_class="gpu",seconds="60"} 1',
        'cathedra_advisor_reports_total{outcome="written"} 3',
    ):
        assert f"{line}\n" in text
    (seconds,) = re.findall(r"cathedra_device_seconds_total\{.*\} (\d+)", text)
    assert 65 <= int(seconds) <= 70


@run_with(with_world)
async def test_all_families_are_in_the_contract(world: World) -> None:
    advisor = world.advise()
    await world.clock.sleep(12)
    names = {one.name: tuple(sorted(one.labels)) for one in METRICS}
    for family in AdvisorMetrics(advisor).collect():
        assert family.name in names
        assert all(tuple(sorted(sample.labels)) == names[family.name] for sample in family.samples)


def test_values_beyond_a_bound_are_summed_and_counted() -> None:
    figures = {("a", "x"): 5.0, ("b", "x"): 1.0, ("c", "x"): 1.0, ("c", "y"): 3.0}
    assert bounded(figures, 0, 2) == ({("a", "x"): 5.0, ("other", "x"): 1.0, ("c", "x"): 1.0, ("c", "y"): 3.0}, 1)
    assert bounded(figures, 0, 3) == (figures, 0)
