"""Scores by devices in use."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import ResourceClaim, ResourceClaimStatus, ResourceSlice
from cathedra.api.struct import from_dict, replace
from cathedra.scheduler.configuration.reading import (
    DEFAULT_CONFIGURATION,
    ConfigurationError,
    SchedulerConfiguration,
    read_configuration,
)
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.test_unitcycle import GATES, gang, make_group, member
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


@run_with(lambda test: play(test, configuration=scoring("BestFit")))
async def test_nodes_without_devices_and_pods_without_claims_are_scored_as_before(world: World) -> None:
    await world.create(node("a"), node("b", cpu="8"), pod("new", requests={"cpu": "2"}))
    await world.bound("new")
    assert await world.node_of("new") == "b"


def test_an_unknown_strategy_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="strategy: Unsupported value"):
        scoring("Random")


@run_with(lambda test: play(test, configuration=scoring("LeastFragmentation")))
async def test_least_fragmentation_leaves_nodes_whole(world: World) -> None:
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


@run_with(lambda test: play(test, configuration=scoring("Spread, attribute: gpu.example.com/fabric")))
async def test_spread_prefers_the_domain_with_the_largest_free_share(world: World) -> None:
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


@pytest.mark.parametrize("arguments", ["Spread", "Spread, attribute: fabric", "BestFit, attribute: a.example/b"])
def test_the_attribute_belongs_to_spread(arguments: str) -> None:
    with pytest.raises(ConfigurationError, match="attribute: "):
        scoring(arguments)


def half(name: str, kind: str = "mig") -> ResourceClaim:
    expression = f'device.attributes["gpu.example.com"].type == "{kind}"'
    exact = {**exactly()["exactly"], "selectors": [{"cel": {"expression": expression}}]}
    return claim(name, {"name": "gpu", "exactly": exact})


def gpus_in_halves(name: str, number: int) -> list[ResourceSlice]:
    """GPUs that are used as a whole or in halves."""
    pool = {"name": name, "generation": 1, "resourceSliceCount": 2}
    sets = [{"name": f"gpu-{at}", "counters": {"slices": {"value": "2"}}} for at in range(number)]
    devices = [
        {
            "name": f"{at}-{part}",
            "attributes": {"type": {"string": "gpu" if part == "whole" else "mig"}},
            "consumesCounters": [{"counterSet": f"gpu-{at}", "counters": {"slices": {"value": value}}}],
        }
        for at in range(number)
        for part, value in (("whole", "2"), ("half-0", "1"), ("half-1", "1"))
    ]
    common = {"driver": "gpu.example.com", "nodeName": name, "pool": pool}
    return [
        from_dict(ResourceSlice, {"metadata": {"name": f"{name}-{key}"}, "spec": {**common, field: value}})
        for key, field, value in (("counters", "sharedCounters", sets), ("devices", "devices", devices))
    ]


async def used_in_turn(world: World, *names: str) -> list[str]:
    """Create pods one after the other, each with the claim of its name, and return the devices."""
    for name in names:
        await world.create(half(name), pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
        await world.bound(name)
    return [device for name in names for _, device in await world.devices(name)]


@pytest.mark.parametrize("strategy", ["", "BestFit", "LeastFragmentation", "LeastAllocated", "MostAllocated"])
def test_partitions_are_taken_of_what_is_in_use_by_packing_strategies_alone(strategy: str) -> None:
    async def body(world: World) -> None:
        await world.create(device_class(), node("n"), *gpus_in_halves("n", 3))
        # While the first pod comes, only the last GPU is free.
        wholes = ["w0", "w1"]
        for name in wholes:
            user = pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}])
            await world.create(half(name, "gpu"), user)
            await world.bound(name)
        assert await used_in_turn(world, "a") == ["2-half-0"]
        for name in wholes:
            await world.api(Pod).delete(name, grace_period_seconds=0)
            stored = await world.claim(name)
            await world.api(ResourceClaim).update_status(replace(stored, status=ResourceClaimStatus()))
        packs = strategy in ("BestFit", "LeastFragmentation")
        assert await used_in_turn(world, "b") == ["2-half-1" if packs else "0-half-0"]

    configuration = scoring(strategy) if strategy else DEFAULT_CONFIGURATION
    play(body, gates={"DRAPartitionableDevices": True}, configuration=configuration)


@run_with(lambda test: play(test, gates={"DRAPartitionableDevices": True}, configuration=scoring("BestFit")))
async def test_nodes_are_compared_by_the_parts_of_their_devices_that_are_free(world: World) -> None:
    # Free: one and a half GPUs, and two. Counted by partitions, more would be free on the first.
    await world.create(device_class(), node("begun"), *gpus_in_halves("begun", 2), node("plain"), slice_("plain", 2))
    on = {"kubernetes.io/hostname": "begun"}
    await world.create(half("old"))
    await world.create(pod("old", resourceClaims=[{"name": "c", "resourceClaimName": "old"}], nodeSelector=on))
    await world.bound("old")
    await world.create(claim("any"), pod("any", resourceClaims=[{"name": "c", "resourceClaimName": "any"}]))
    await world.bound("any")
    assert await world.node_of("any") == "begun"


def test_pods_of_a_gang_are_packed() -> None:
    async def body(world: World) -> None:
        await make_group(world, "g", gang(2))
        await world.create(device_class(), node("n"), *gpus_in_halves("n", 2))
        names = ("a", "b")
        for name in names:
            await world.create(half(name), member(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
        await world.bound(*names)
        found = sorted([device for name in names for _, device in await world.devices(name)])
        assert found == ["0-half-0", "0-half-1"]
        assert world.scheduler.statistics()["claims_in_flight"] == 0

    text = TEXT.replace("enabled: [", "enabled: [{name: JointPlacement}, ").replace("STRATEGY", "BestFit")
    play(body, gates=GATES, configuration=read_configuration(text))
