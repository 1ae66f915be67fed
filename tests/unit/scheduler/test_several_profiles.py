"""One scheduler works for several names; each has its plugins, and what is allocated is common to all."""

from __future__ import annotations

from cathedra.exposition import text_of
from cathedra.scheduler.configuration.reading import read_configuration
from cathedra.scheduler.metrics import SchedulerMetrics
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

CONFIGURATION = read_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  plugins:
    multiPoint: {disabled: [{name: NodeResourcesBalancedAllocation}, {name: PodTopologySpread}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: careless
  plugins:
    multiPoint: {disabled: [{name: TaintToleration}]}
"""
)


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_each_name_scores_in_its_own_way(world: World) -> None:
    await world.create(node("full"), node("empty"), pod("there", requests={"cpu": "2"}, nodeName="full"))
    packing = pod("packed", requests={"cpu": "1"}, schedulerName="packing")
    await world.create(packing, pod("spread", requests={"cpu": "1"}))
    await world.bound("packed", "spread")
    assert await world.node_of("packed") == "full"
    assert await world.node_of("spread") == "empty"


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_a_disabled_filter_refuses_nothing_and_other_names_are_left_alone(world: World) -> None:
    taint = {"key": "reserved", "effect": "NoSchedule"}
    await world.create(node("n", taints=[taint]))
    await world.create(pod("careless", schedulerName="careless"), pod("careful"), pod("other", schedulerName="x"))
    await world.bound("careless")
    await world.quiet()
    assert (await world.condition("careful"))[0] == "Unschedulable"
    assert await world.condition("other") == ("", "")


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_a_device_goes_to_one_pod_whichever_profile_asks(world: World) -> None:
    await world.create(node("n"), device_class("gpu"), slice_("n", 1))
    for name, scheduler in (("a", "default-scheduler"), ("b", "packing")):
        await world.create(claim(f"claim-{name}", exactly()))
        claims = [{"name": "gpu", "resourceClaimName": f"claim-{name}"}]
        await world.create(pod(name, schedulerName=scheduler, resourceClaims=claims))
    await world.quiet()
    assert sorted([await world.node_of("a"), await world.node_of("b")]) == ["", "n"]


def test_attempts_are_counted_by_profile_and_outcome_under_kubernetes_names() -> None:
    metrics = SchedulerMetrics()

    async def body(world: World) -> None:
        metrics.show(world.scheduler.statistics)
        await world.create(node("n", cpu="1"), pod("p"), pod("big", requests={"cpu": "2"}, schedulerName="packing"))
        await world.bound("p")
        await world.quiet()
        text = text_of(metrics.registry.collect()).decode()
        assert 'scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1' in text
        assert 'scheduler_schedule_attempts_total{profile="packing",result="unschedulable"} 1' in text
        assert 'scheduler_pending_pods{queue="unschedulable"} 1' in text
        assert 'scheduler_cache_size{type="nodes"} 1' in text

    play(body, configuration=CONFIGURATION, metrics=metrics)
