"""Pods wait while their claims would exceed what their namespace may hold."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod, ResourceQuota
from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from cathedra.cluster.identity.permissions import install_scheduler_permissions
from cathedra.scheduler.configuration.reading import read_configuration
from tests.running import run_with
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
from tests.unit.scheduler.test_unitcycle import GATES, gang, make_group
from tests.unit.scheduler.world import World, play

CONFIGURATION = read_configuration(
    """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled: [{name: DeviceQuota}, {name: JointPlacement}]
"""
)
HELD = "gpu.deviceclass.scheduling.cathedra.dev"


def quota(name: str = "gpus", **hard: str) -> ResourceQuota:
    limits = {f"{HELD}/{what}": value for what, value in hard.items()}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"hard": limits}}
    return from_dict(ResourceQuota, body)


def using(name: str, **spec: Any) -> Pod:
    return pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}], **spec)


async def refusal(world: World, name: str) -> str:
    return (await world.condition(name))[1]


async def cluster(world: World) -> None:
    # The scheduler is an ordinary user here: it has kube-scheduler's role and these permissions, as in a cluster.
    await install_scheduler_permissions(world.client)
    memory = {"memory": {"value": "40Gi"}}
    await world.create(node("n"), slice_("n", 8, capacity=memory), device_class())


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_a_pod_waits_for_devices_that_its_namespace_may_hold(world: World) -> None:
    await cluster(world)
    await world.create(quota(devices="3"), claim("a", exactly(count=2)), claim("b", exactly(count=2)))
    await world.create(using("a"))
    await world.bound("a")
    await world.create(using("b"))
    await world.elapse(3)
    name = f"{HELD}/devices"
    text = f"exceeded quota: gpus, requested: {name}=2, used: {name}=2, limited: {name}=3"
    assert text in await refusal(world, "b")
    # More is allowed: the pod is tried again at once.
    stored = await world.api(ResourceQuota).get("gpus")
    await world.api(ResourceQuota).update(replace(stored, spec=quota(devices="4").spec))
    await world.bound("b")


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_capacity_counts_once_the_devices_are_chosen(world: World) -> None:
    await cluster(world)
    await world.create(quota(memory="100Gi"), claim("a", exactly(count=2)), claim("b"))
    await world.create(using("a"))
    await world.bound("a")
    await world.create(using("b"))
    await world.elapse(3)
    name = f"{HELD}/memory"
    assert f"requested: {name}=40Gi, used: {name}=80Gi, limited: {name}=100Gi" in await refusal(world, "b")
    held = world.scheduler.statistics()
    assert (held["assumed"], held["claims_in_flight"]) == (0, 0)
    # The claim of the first pod is freed.
    stored = await world.api(ResourceClaim).get("a")
    await world.api(Pod).delete("a", grace_period_seconds=0)
    freed = replace(stored, status=replace(stored.status, allocation=None, reserved_for=()))
    await world.api(ResourceClaim).update_status(freed)
    await world.bound("b")


@run_with(lambda test: play(test, gates=GATES, configuration=CONFIGURATION))
async def test_a_gang_over_a_quota_waits_as_a_whole(world: World) -> None:
    await cluster(world)
    await make_group(world, "g", gang(2))
    await world.create(quota(devices="3"), claim("a", exactly(count=2)), claim("b", exactly(count=2)))
    group = {"schedulingGroup": {"podGroupName": "g"}}
    await world.create(using("a", **group), using("b", **group))
    await world.elapse(3)
    assert [await world.node_of("a"), await world.node_of("b")] == ["", ""]


@run_with(lambda test: play(test, configuration=CONFIGURATION))
async def test_other_namespaces_and_other_names_of_quotas_limit_nothing(world: World) -> None:
    await cluster(world)
    other = from_dict(
        ResourceQuota, {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "9"}}}
    )
    await world.create(other, claim("a", exactly(count=8)), using("a"))
    await world.bound("a")
