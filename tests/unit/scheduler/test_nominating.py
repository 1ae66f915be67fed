"""Where a pod is going stands in its status while it is on its way (KEP-5278)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.api.struct import to_dict
from cathedra.client.resources import PODS
from cathedra.scheduler.nominating import write_nomination
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, device_class, node, pod, slice_
from tests.unit.scheduler.world import World, play


class Patches:
    """Remembers the changes of pods' status."""

    def __init__(self, inner: Any, seen: list[Any]) -> None:
        self._inner, self._seen = inner, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def patch(self, ref: Any, namespace: str, name: str, kind: Any, patch: Any, *args: Any, **more: Any) -> Any:
        if ref.resource == "pods":
            self._seen.append((name, patch["status"]))
        return await self._inner.patch(ref, namespace, name, kind, patch, *args, **more)


def nominations(release: str) -> list[Any]:
    """What is written into the status of two pods, one with a claim and one without, on their way to a node."""
    seen: list[Any] = []

    async def body(world: World) -> None:
        await world.create(device_class(), node("n1"), slice_("n1", 1), claim("c"))
        await world.create(pod("with", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]), pod("without"))
        await world.bound("with", "without")
        assert (await world.pod("with")).status.nominated_node_name == ""

    play(body, release=release, transport=lambda inner: Patches(inner, seen))
    return seen


@pytest.mark.parametrize("release", ["1.35", "1.36", "1.37"])
def test_a_pod_says_to_which_node_it_goes_if_something_is_written_before_the_binding(release: str) -> None:
    assert nominations(release) == [("with", {"nominatedNodeName": "n1"})]


def test_up_to_1_34_only_preemption_nominates() -> None:
    assert nominations("1.34") == []


def test_a_nomination_that_stands_already_is_not_written_again() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        made = await pods.create(pod("p"))
        await write_nomination(api.client, made, "n1")
        nominated = await pods.get("p")
        assert nominated.status.nominated_node_name == "n1"
        await write_nomination(api.client, nominated, "n1")
        assert (await pods.get("p")).metadata.resource_version == nominated.metadata.resource_version
        await write_nomination(api.client, nominated, "")
        assert "nominatedNodeName" not in to_dict((await pods.get("p")).status)

    with_api(body)


class Refused(Patches):
    """No status of a pod may be changed."""

    async def patch(self, *args: Any, **more: Any) -> Any:
        raise forbidden(GroupResource("", "pods"), "p", "no")


def test_a_pod_whose_nomination_is_refused_gets_its_node_all_the_same() -> None:
    async def body(world: World) -> None:
        await world.create(device_class(), node("n1"), slice_("n1", 1), claim("c"))
        await world.create(pod("p", resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
        await world.bound("p")
        assert await world.api(Pod).get("p")

    play(body, transport=lambda inner: Refused(inner, []))
