"""A disruption that did not come is taken back."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod, PodCondition
from cathedra.api.struct import Time, from_dict, replace
from cathedra.client.resources import PODS
from cathedra.controllers.administration.disruptions import DisruptionController
from cathedra.semantics.conditions import find_condition
from tests.unit.controllers.world import World, play


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


def test_a_pod_that_was_not_deleted_is_no_target_after_two_minutes() -> None:
    async def story(world: World) -> None:
        await make_target(world)
        await world.clock.sleep(110)
        assert await target(world) == ("True", "EvictionByEvictionAPI")
        await world.clock.sleep(15)
        assert await target(world) == ("False", "EvictionByEvictionAPI")

    play(DisruptionController, story)


@pytest.mark.parametrize("changes", [{"reason": "TerminationByKubelet"}, {"phase": "Failed"}])
def test_what_the_kubelet_says_and_what_ended_stays(changes: dict[str, str]) -> None:
    async def story(world: World) -> None:
        await make_target(world, **changes)
        await world.clock.sleep(150)
        assert (await target(world))[0] == "True"

    play(DisruptionController, story)
