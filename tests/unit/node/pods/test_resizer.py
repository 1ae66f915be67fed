"""Giving a pod that runs other resources: granted, put off, refused, failed (KEP-1287)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import Container, Pod, ResourceRequirements
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict, replace
from cathedra.client.resources import PODS
from cathedra.node.containers.records import ContainerTable, records_for
from cathedra.node.pods.resizer import (
    RETRY_SECONDS,
    PodResizer,
    Postponement,
    ResourceGrants,
    granted_pod,
    must_restart,
    postponement,
    requests_resize,
)
from cathedra.node.resources import NodeFacts
from cathedra.node.runtime.runtime import ContainerRun, ContainerSpec, ResourceLimits, RuntimeFailure
from cathedra.node.runtime.simulated import SimulatedRuntime
from cathedra.node.setup.launch import identity_of
from tests.running import on_virtual_clock, run_with
from tests.unit.node.fakes import GATES, Setting, make_pod
from tests.unit.node.pods.onepod import OnePod
from tests.unit.node.pods.onepod import play as play_one

NODE = {"cpu": Quantity("8"), "memory": Quantity("8Gi"), "pods": Quantity("110")}


def asking(cpu: str, name: str = "p", **container: Any) -> Pod:
    resources = from_dict(ResourceRequirements, {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}})
    pod = make_pod(name, Container(name="c", image="i", resources=resources, **container))
    return replace(pod, status=replace(pod.status, qos_class="Burstable"))


class Stubborn(SimulatedRuntime):
    """Refuses other limits while ``refuses`` is set."""

    refuses = True

    async def update(self, container_id: str, limits: ResourceLimits) -> None:
        if self.refuses:
            raise RuntimeFailure("UpdateContainerError", "no")
        await super().update(container_id, limits)


Story = Callable[[OnePod, PodResizer, ContainerTable], Awaitable[None]]


def play(story: Story, pod: Pod, *others: Pod, runtime: type[SimulatedRuntime] = SimulatedRuntime) -> None:
    """The pod's container runs when the story begins."""

    async def body(one: OnePod) -> None:
        one.runtime = runtime(one.clock)
        one.context = msgspec.structs.replace(
            one.context, runtime=one.runtime, facts=NodeFacts("127.0.0.1", NODE, GATES)
        )
        table = ContainerTable(records_for(pod).values())
        spec = ContainerSpec("id", identity_of(pod), "c", 0, ("true",), limits=ResourceLimits(cpu_milli=1000))
        run: ContainerRun = await one.runtime.start(spec)
        table.put(table["c"].begin(run, 0.0))
        await story(one, one.resizer(table, ResourceGrants(pod), *others), table)

    play_one(body, pod)


def change(one: OnePod, pod: Pod) -> None:
    version = int(one.object.pod.metadata.resource_version or 0) + 1
    one.object.offer(replace(pod, metadata=replace(pod.metadata, resource_version=str(version), generation=version)))


@run_with(lambda test: play(test, asking("1")))
async def test_what_fits_is_granted_and_put_into_effect_while_the_container_runs(
    one: OnePod, resizer: PodResizer, table: ContainerTable
) -> None:
    change(one, asking("3"))
    await resizer.step()
    assert one.runtime.specs["id"].limits.cpu_milli == 3000
    assert (resizer.conditions, one.restarted, len(one.freed)) == ((), [], 1)
    details = '{"containers":[{"name":"c","resources":{"limits":{"cpu":"3"},"requests":{"cpu":"3"}}}],"generation":1}'
    assert one.events.messages("ResizeStarted") == [f"Pod resize started: {details}"]
    assert one.events.messages("ResizeCompleted") == [f"Pod resize completed: {details}"]


def test_a_container_that_asks_for_it_is_restarted() -> None:
    policy = ({"resourceName": "cpu", "restartPolicy": "RestartContainer"},)
    resize_policy = tuple(from_dict(Container, {"resizePolicy": list(policy)}).resize_policy)

    async def story(one: OnePod, resizer: PodResizer, table: ContainerTable) -> None:
        change(one, asking("3", resize_policy=resize_policy))
        await resizer.step()
        assert one.restarted == ["c"]
        assert one.runtime.specs["id"].limits.cpu_milli == 1000
        assert resizer.conditions == ()

    play(story, asking("1", resize_policy=resize_policy))


@run_with(lambda test: play(test, asking("1"), asking("4", "other")))
async def test_what_does_not_fit_now_waits_and_says_so_once(
    one: OnePod, resizer: PodResizer, table: ContainerTable
) -> None:
    change(one, asking("5"))
    for _ in range(3):
        await resizer.step()
    (condition,) = resizer.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodResizePending", "True", "Deferred")
    assert condition.message == "Node didn't have enough resource: cpu, requested: 5000, used: 4000, capacity: 8000"
    (told,) = one.events.messages("ResizeDeferred")
    assert told.startswith("Pod resize Deferred: {")
    assert told.endswith(f'"error":"{condition.message}"}}')
    assert resizer.waits_for_room
    assert one.runtime.specs["id"].limits.cpu_milli == 1000
    change(one, asking("1"))
    await resizer.step()
    assert resizer.conditions == ()


@run_with(lambda test: play(test, asking("1")))
async def test_what_the_node_never_has_is_infeasible(one: OnePod, resizer: PodResizer, table: ContainerTable) -> None:
    change(one, asking("9"))
    await resizer.step()
    (condition,) = resizer.conditions
    assert (condition.reason, condition.observed_generation) == ("Infeasible", 1)
    assert condition.message == "Node didn't have enough capacity: cpu, requested: 9000, capacity: 8000"
    assert not resizer.waits_for_room


@run_with(lambda test: play(test, asking("1"), runtime=Stubborn))
async def test_limits_that_cannot_be_put_into_effect_are_tried_again(
    one: OnePod, resizer: PodResizer, table: ContainerTable
) -> None:
    change(one, asking("3"))
    await resizer.step()
    (condition,) = resizer.conditions
    assert (condition.type, condition.reason, condition.message) == ("PodResizeInProgress", "Error", "no")
    assert resizer.applied["c"].limits == {"cpu": Quantity("1")}
    assert resizer.look_again is not None
    one.runtime.refuses = False  # type: ignore[attr-defined]  # a Stubborn
    await resizer.step()
    assert resizer.conditions != ()
    await one.clock.sleep(RETRY_SECONDS)
    await resizer.step()
    assert (resizer.conditions, dict(resizer.applied)) == ((), {})
    assert len(one.events.messages("ResizeCompleted")) == 1


def test_another_agent_goes_on_from_what_is_in_effect() -> None:
    before = asking("1")
    status = {"name": "c", "state": {"running": {}}, "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}
    pod = replace(before, status=from_dict(Pod, {"status": {"containerStatuses": [status]}}).status)
    grants = ResourceGrants(pod)
    grants.recover(pod)
    (container,) = grants.of(pod).spec.containers
    assert container.resources.limits == {"cpu": Quantity("2")}


@on_virtual_clock
async def test_a_pod_grows_as_soon_as_another_is_gone() -> None:
    async with Setting() as s:
        half = {"requests": {"cpu": "20"}, "limits": {"cpu": "20"}}
        resources = from_dict(ResourceRequirements, half)
        for name in ("p", "q"):
            small = replace(resources, requests={"cpu": Quantity("10")}, limits={"cpu": Quantity("10")})
            chosen = small if name == "p" else resources
            await s.create(make_pod(name, Container(name="c", image="i", resources=chosen)))
        await asyncio.sleep(1)
        pods = s.client.resource(PODS, "default")
        pod = await pods.get("p")
        (container,) = pod.spec.containers
        await pods.update(replace(pod, spec=replace(pod.spec, containers=(replace(container, resources=resources),))))
        await asyncio.sleep(1)
        (pending,) = (one for one in s.pod("p").status.conditions if one.type == "PodResizePending")
        assert pending.reason == "Deferred"
        await pods.delete("q")
        await asyncio.sleep(1)
        assert not [one for one in s.pod("p").status.conditions if one.type == "PodResizePending"]
        (status,) = s.pod("p").status.container_statuses
        assert status.allocated_resources == {"cpu": Quantity("20")}


ALLOCATABLE = {"cpu": Quantity("8"), "memory": Quantity("8Gi")}


def pod(cpu: str, memory: str = "1Gi", **container: Any) -> Pod:
    made = {"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **container}
    return from_dict(Pod, {"spec": {"containers": [made]}})


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        (pod("4"), None),
        (pod("6"), ("Deferred", "resource: cpu, requested: 6000, used: 3950, capacity: 8000")),
        (pod("9"), ("Infeasible", "capacity: cpu, requested: 9000, capacity: 8000")),
        (
            pod("1", "9Gi"),
            ("Infeasible", f"capacity: memory, requested: {9 * 2**30}, capacity: {8 * 2**30}"),
        ),
    ],
)
def test_more_than_there_is_comes_later_or_never(wanted: Pod, refusal: tuple[str, str] | None) -> None:
    found = postponement(wanted, ALLOCATABLE, [pod("3950m")], GATES)
    expected = None if refusal is None else Postponement(refusal[0], f"Node didn't have enough {refusal[1]}")
    assert found == expected


def test_what_was_granted_is_held_to_whatever_the_spec_asks_for() -> None:
    before, after = pod("1"), pod("2")
    granted = {one.name: one.resources for one in before.spec.containers}
    held = granted_pod(after, granted, None)
    assert held.spec.containers == before.spec.containers
    assert requests_resize(after, held)
    assert not requests_resize(before, held)


def test_a_container_restarts_for_the_resources_that_it_names() -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    (container,) = pod("2", resizePolicy=policy).spec.containers
    other_cpu = from_dict(ResourceRequirements, {"requests": {"cpu": "1", "memory": "1Gi"}})
    other_memory = from_dict(ResourceRequirements, {"requests": {"cpu": "2", "memory": "2Gi"}})
    assert not must_restart(container, other_cpu)
    assert must_restart(container, other_memory)
