"""The number of pods of a budget that may be evicted."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.core.policy_v1 import PodDisruptionBudget
from cathedra.api.struct import Time, from_dict, replace
from cathedra.client.resources import PODDISRUPTIONBUDGETS, PODS, REPLICASETS
from cathedra.controllers.administration.disruptions import DisruptionController
from cathedra.semantics.conditions import find_condition
from tests.running import run_with
from tests.unit.controllers.world import World, play


async def make_budget(world: World, name: str = "b", **spec: Any) -> None:
    body = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, **spec},
    }
    await world.create(PODDISRUPTIONBUDGETS, from_dict(PodDisruptionBudget, body))


async def make_pod(world: World, name: str, owner: dict[str, Any] | None = None) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": {"a": "b"}}
    if owner is not None:
        metadata["ownerReferences"] = [owner]
    made = from_dict(Pod, {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    await world.create(PODS, made)
    await ready(world, name, "True")


async def ready(world: World, name: str, status: str) -> None:
    condition = PodCondition(type="Ready", status=status)

    def change(pod: Pod) -> Pod:
        return replace(pod, status=replace(pod.status, phase="Running", conditions=(condition,)))

    await world.change(PODS, name, change, status=True)


async def numbers(world: World) -> tuple[int, int, int, int, str]:
    status = (await world.of(PODDISRUPTIONBUDGETS).get("b")).status
    [condition] = status.conditions
    return (
        status.expected_pods,
        status.desired_healthy,
        status.current_healthy,
        status.disruptions_allowed,
        condition.reason,
    )


@run_with(lambda test: play(DisruptionController, test))
async def test_healthy_pods_above_the_minimum_may_go(world: World) -> None:
    await make_budget(world, minAvailable=2)
    for name in ("p1", "p2", "p3"):
        await make_pod(world, name)
    await world.quiet()
    assert await numbers(world) == (3, 2, 3, 1, "SufficientPods")
    await ready(world, "p1", "False")
    await world.quiet()
    assert await numbers(world) == (3, 2, 2, 0, "InsufficientPods")


@run_with(lambda test: play(DisruptionController, test))
async def test_a_share_is_counted_of_what_the_controller_is_to_keep(world: World) -> None:
    body = {
        "metadata": {"name": "r", "namespace": "default"},
        "spec": {
            "replicas": 5,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }
    made = await world.of(REPLICASETS).create(from_dict(REPLICASETS.type, body))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "r",
        "uid": made.metadata.uid,
        "controller": True,
    }
    await make_budget(world, maxUnavailable="30%")
    for number in range(4):
        await make_pod(world, f"p{number}", owner)
    await world.quiet()
    assert await numbers(world) == (5, 3, 4, 1, "SufficientPods")


@run_with(lambda test: play(DisruptionController, test))
async def test_a_pod_whose_controller_is_unknown_stops_all_evictions(world: World) -> None:
    await make_budget(world, minAvailable="50%")
    owner = {"apiVersion": "x.y/v1", "kind": "Z", "name": "z", "uid": "u", "controller": True}
    await make_pod(world, "p", owner)
    await world.quiet()
    status = (await world.of(PODDISRUPTIONBUDGETS).get("b")).status
    assert [(c.reason, c.message) for c in status.conditions] == [("SyncFailed", 'found no controllers for pod "p"')]
    assert status.disruptions_allowed == 0


@run_with(lambda test: play(DisruptionController, test))
async def test_an_evicted_pod_counts_as_gone_for_two_minutes(world: World) -> None:
    await make_budget(world, minAvailable=1)
    for name in ("p1", "p2"):
        await make_pod(world, name)
    await world.quiet()

    def evicted(budget: PodDisruptionBudget) -> PodDisruptionBudget:
        gone = {"p1": Time(world.clock.now())}
        return replace(budget, status=replace(budget.status, disruptions_allowed=0, disrupted_pods=gone))

    await world.change(PODDISRUPTIONBUDGETS, "b", evicted, status=True)
    await world.quiet()
    assert await numbers(world) == (2, 1, 1, 0, "InsufficientPods")
    await world.clock.sleep(130)
    assert await numbers(world) == (2, 1, 2, 1, "SufficientPods")
    assert any(reason == "NotDeleted" for _, reason, _ in await world.events())


@run_with(lambda test: play(DisruptionController, test))
async def test_without_pods_nothing_is_allowed(world: World) -> None:
    await make_budget(world, minAvailable=0)
    await world.quiet()
    assert await numbers(world) == (0, 0, 0, 0, "InsufficientPods")
    assert ("Normal", "NoPods", "No matching pods found") in await world.events()


UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{MatchLabels:map[string]string{a: b,},"
    "MatchExpressions:[]LabelSelectorRequirement{},}) were found to be unmanaged. As a result, the status of the PDB "
    "cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set "
    '".spec.minAvailable" field of the PDB to an integer value.'
)


@pytest.mark.parametrize(
    ("spec", "told"),
    [({"maxUnavailable": 1}, True), ({"minAvailable": "50%"}, True), ({"minAvailable": 1}, False)],
)
@run_with(lambda test: play(DisruptionController, test))
async def test_a_share_of_pods_without_a_controller_is_told_as_impossible(
    world: World, *, spec: dict[str, Any], told: bool
) -> None:
    await make_budget(world, **spec)
    await make_pod(world, "p")
    await world.quiet()
    assert (("Warning", "UnmanagedPods", UNMANAGED) in await world.events()) == told


@run_with(lambda test: play(DisruptionController, test))
async def test_a_pod_of_several_budgets_is_told_and_counts_in_each(world: World) -> None:
    for name in ("b", "c"):
        await make_budget(world, name, minAvailable=1)
    await make_pod(world, "p")
    await world.quiet()
    message = 'Pod "default"/"p" matches multiple PodDisruptionBudgets.  Chose "b" arbitrarily.'
    assert ("Warning", "MultiplePodDisruptionBudgets", message) in await world.events()
    for name in ("b", "c"):
        assert (await world.of(PODDISRUPTIONBUDGETS).get(name)).status.current_healthy == 1


async def make_target(world: World, **changes: Any) -> None:
    body = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await world.create(PODS, from_dict(Pod, body))
    condition = PodCondition(
        type="DisruptionTarget",
        status="True",
        reason=changes.pop("reason", "EvictionByEvictionAPI"),
        message="m",
        last_transition_time=Time(world.clock.now()),
    )

    def change(pod: Pod) -> Pod:
        return replace(pod, status=replace(pod.status, conditions=(condition,), **changes))

    await world.change(PODS, "p", change, status=True)


async def target(world: World) -> tuple[str, str]:
    pod = await world.of(PODS).get("p")
    found = find_condition(pod.status.conditions, "DisruptionTarget")
    assert found is not None
    return found.status, found.reason


@run_with(lambda test: play(DisruptionController, test))
async def test_a_pod_that_was_not_deleted_is_no_target_after_two_minutes(world: World) -> None:
    await make_target(world)
    await world.clock.sleep(110)
    assert await target(world) == ("True", "EvictionByEvictionAPI")
    await world.clock.sleep(15)
    assert await target(world) == ("False", "EvictionByEvictionAPI")


@pytest.mark.parametrize("changes", [{"reason": "TerminationByKubelet"}, {"phase": "Failed"}])
@run_with(lambda test: play(DisruptionController, test))
async def test_what_the_kubelet_says_and_what_ended_stays(world: World, *, changes: dict[str, str]) -> None:
    await make_target(world, **changes)
    await world.clock.sleep(150)
    assert (await target(world))[0] == "True"
