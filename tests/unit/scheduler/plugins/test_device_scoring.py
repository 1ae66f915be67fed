"""Scores by devices in use."""

from __future__ import annotations

import pytest

from cathedra.scheduler.configuration.reading import ConfigurationError, SchedulerConfiguration, read_configuration
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.world import World, play

TEXT = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: DeviceScoring, weight: 20}]
  pluginConfig:
  - name: DeviceScoring
    args: {strategy: STRATEGY}
"""


FEWEST = {"kubernetes.io/hostname": "fewest"}


def scoring(strategy: str) -> SchedulerConfiguration:
    return read_configuration(TEXT.replace("STRATEGY", strategy))


@pytest.mark.parametrize(
    ("strategy", "chosen"), [("BestFit", "fewest"), ("MostAllocated", "fullest"), ("LeastAllocated", "empty")]
)
def test_the_strategy_decides_between_nodes_that_fit(strategy: str, chosen: str) -> None:
    async def body(world: World) -> None:
        # Free: one of two, two of eight, four of four.
        for name, devices in (("fewest", 2), ("fullest", 8), ("empty", 4)):
            await world.create(node(name), slice_(name, devices))
        await world.create(device_class(), claim("six", exactly(count=6)), claim("one"), claim("two"))
        await world.create(
            pod("old", resourceClaims=[{"name": "c", "resourceClaimName": "six"}]),
            pod("older", resourceClaims=[{"name": "c", "resourceClaimName": "two"}], nodeSelector=FEWEST),
        )
        await world.bound("old", "older")
        await world.create(pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "one"}]))
        await world.bound("new")
        assert await world.node_of("new") == chosen

    play(body, configuration=scoring(strategy))


def test_nodes_without_devices_and_pods_without_claims_are_scored_as_before() -> None:
    async def body(world: World) -> None:
        await world.create(node("a"), node("b", cpu="8"), pod("new", requests={"cpu": "2"}))
        await world.bound("new")
        assert await world.node_of("new") == "b"

    play(body, configuration=scoring("BestFit"))


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="strategy: Unsupported value"):
        scoring("Random")


def test_least_fragmentation_leaves_nodes_whole() -> None:
    async def body(world: World) -> None:
        # Free: six of eight, two of two. BestFit would take the small node.
        await world.create(node("begun"), slice_("begun", 8), node("whole"), slice_("whole", 2))
        await world.create(device_class(), claim("two", exactly(count=2)), claim("one"))
        begun = {"kubernetes.io/hostname": "begun"}
        await world.create(
            pod("old", resourceClaims=[{"name": "c", "resourceClaimName": "two"}], nodeSelector=begun),
        )
        await world.bound("old")
        await world.create(pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "one"}]))
        await world.bound("new")
        assert await world.node_of("new") == "begun"

    play(body, configuration=scoring("LeastFragmentation"))


def test_spread_prefers_the_domain_with_the_largest_free_share() -> None:
    async def body(world: World) -> None:
        for name, domain in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")):
            attributes = {"fabric": {"string": domain}}
            await world.create(node(name, cpu="8"), slice_(name, 2, attributes=attributes))
        await world.create(node("none", cpu="64"), slice_("none", 2))
        await world.create(device_class(), claim("two", exactly(count=2)), claim("one"))
        busy = {"kubernetes.io/hostname": "a1"}
        await world.create(pod("old", resourceClaims=[{"name": "c", "resourceClaimName": "two"}], nodeSelector=busy))
        await world.bound("old")
        await world.create(pod("new", resourceClaims=[{"name": "c", "resourceClaimName": "one"}]))
        await world.bound("new")
        assert (await world.node_of("new"))[0] == "b"

    play(body, configuration=scoring("Spread, attribute: gpu.example.com/fabric"))


@pytest.mark.parametrize("arguments", ["Spread", "Spread, attribute: fabric", "BestFit, attribute: a.example/b"])
def test_the_attribute_belongs_to_spread(arguments: str) -> None:
    with pytest.raises(ConfigurationError, match="attribute: "):
        scoring(arguments)
