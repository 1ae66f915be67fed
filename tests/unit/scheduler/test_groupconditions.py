"""Conditions of pod groups are named as each release names them."""

from __future__ import annotations

import pytest

from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.struct import from_dict
from tests.unit.scheduler.objects import node, pod
from tests.unit.scheduler.world import World, play


@pytest.mark.parametrize(
    ("release", "gates", "wanted"),
    [
        ("1.36", {"GenericWorkload": True, "GangScheduling": True}, "PodGroupScheduled"),
        ("1.37", {"GenericWorkload": True}, "PodGroupInitiallyScheduled"),
        ("1.38", {"GenericWorkload": True}, "PodGroupInitiallyScheduled"),
    ],
)
def test_a_group_says_that_it_was_scheduled(release: str, gates: dict[str, bool], wanted: str) -> None:
    async def body(world: World) -> None:
        group = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
        await world.create(from_dict(PodGroup, group), node("n"))
        await world.create(pod("a", schedulingGroup={"podGroupName": "g"}))
        await world.bound("a")
        await world.quiet()
        (condition,) = (await world.api(PodGroup).get("g")).status.conditions
        assert (condition.type, condition.status, condition.reason) == (wanted, "True", "Scheduled")

    play(body, gates=gates, release=release)
