"""Where a pod is going stands in its status while it is on its way (KEP-5278)."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.struct import to_dict
from cathedra.client.resources import PODS
from cathedra.scheduler.nominating import write_nomination
from tests.unit.inprocess import API, with_api
from tests.unit.scheduler.objects import claim, device_class, exactly, node, pod, slice_
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
    """What is written into the status of three pods on their way: one waits for its device, one has another claim."""
    seen: list[Any] = []
    slow = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Broken"]}

    async def body(world: World) -> None:
        await world.create(device_class(), device_class("slow", driver="slow.example.com"), node("n1"))
        await world.create(slice_("n1", 1), slice_("n1", 1, driver="slow.example.com", **slow))
        await world.create(claim("c"), claim("s", exactly(class_name="slow")))
        for name in ("c", "s"):
            await world.create(pod(name, resourceClaims=[{"name": "c", "resourceClaimName": name}]))
        await world.create(pod("without"))
        await world.bound("c", "without")

    gates = {"DRADeviceBindingConditions": True, "DRAResourceClaimDeviceStatus": True}
    play(body, release=release, gates=gates, transport=lambda inner: Patches(inner, seen))
    return seen


@pytest.mark.parametrize("release", ["1.35", "1.36", "1.37"])
def test_a_pod_says_to_which_node_it_goes_while_its_devices_are_made_ready(release: str) -> None:
    assert nominations(release) == [("s", {"nominatedNodeName": "n1"})]


def test_up_to_1_34_only_preemption_nominates() -> None:
    assert nominations("1.34") == []


def test_a_nomination_is_written_and_taken_back() -> None:
    async def body(api: API) -> None:
        pods = api.client.resource(PODS, "default")
        made = await pods.create(pod("p"))
        await write_nomination(api.client, made, "n1")
        assert (await pods.get("p")).status.nominated_node_name == "n1"
        await write_nomination(api.client, made, "")
        assert "nominatedNodeName" not in to_dict((await pods.get("p")).status)

    with_api(body)


def test_a_nomination_of_a_pod_that_is_gone_is_no_failure(caplog: pytest.LogCaptureFixture) -> None:
    async def body(api: API) -> None:
        await write_nomination(api.client, pod("gone"), "n1")

    with_api(body)
    assert "default/gone: nomination not written" in caplog.text
