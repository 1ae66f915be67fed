"""Devices of device plugins: counted, given to containers, remembered, released."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import Container, Pod
from cathedra.api.struct import from_dict
from cathedra.clock import LoopClock, run_virtual
from cathedra.node.deviceplugins.manager import KEPT_SECONDS, DeviceManager, DevicesUnavailable, PluginOptions
from cathedra.node.metrics import NodeMetrics
from cathedra.node.runtime.runtime import RuntimeFailure
from tests.running import beside, run_with
from tests.unit.node.deviceplugins.fakeplugin import RESOURCE, FakePlugin

Body = Callable[[DeviceManager, FakePlugin], Awaitable[None]]


def play(body: Body, *devices: str, options: PluginOptions | None = None, directory: Path | None = None) -> None:
    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        manager = DeviceManager(clock, NodeMetrics(clock), directory)
        plugin = FakePlugin(*devices, options=options)
        async with beside(manager.run()):
            manager.register(RESOURCE, plugin)
            await asyncio.sleep(0.1)
            await body(manager, plugin)

    run_virtual(main())


def wanting(count: int, name: str = "c") -> dict[str, object]:
    return {"name": name, "resources": {"limits": {RESOURCE: str(count)}}}


def pod(uid: str, *containers: dict[str, object], init: tuple[dict[str, object], ...] = ()) -> Pod:
    body = {"metadata": {"uid": uid}, "spec": {"containers": list(containers), "initContainers": list(init)}}
    return from_dict(Pod, body)


def given(manager: DeviceManager, of: Pod) -> dict[str, str]:
    every: tuple[Container, ...] = (*of.spec.init_containers, *of.spec.containers)
    return {one.name: grant.environment["RESOURCE_DEVICES"] for one in every for grant in manager.grants(of, one)}


@run_with(lambda test: play(test, "a", "b"))
async def test_healthy_devices_are_allocatable_and_a_plugin_that_goes_leaves_none(
    manager: DeviceManager, plugin: FakePlugin
) -> None:
    assert manager.capacity() == {RESOURCE: (2, 2)}
    plugin.set_health("a", healthy=False)
    await manager.wait_changed()
    assert manager.capacity() == {RESOURCE: (2, 1)}
    plugin.stop()
    await manager.wait_changed()
    assert manager.capacity() == {RESOURCE: (2, 0)}
    await asyncio.sleep(KEPT_SECONDS + 1)
    assert manager.capacity() == {RESOURCE: (0, 0)}
    manager.register(RESOURCE, FakePlugin("x"))
    await asyncio.sleep(1)
    assert manager.capacity() == {RESOURCE: (1, 1)}


@run_with(lambda test: play(test, "a", "b", "c"))
async def test_each_pod_gets_devices_of_its_own_until_there_are_too_few(
    manager: DeviceManager, plugin: FakePlugin
) -> None:
    first, second = pod("1", wanting(2)), pod("2", wanting(2))
    await manager.admit(first)
    assert given(manager, first) == {"c": "a,b"}
    with pytest.raises(DevicesUnavailable) as refused:
        await manager.admit(second)
    assert str(refused.value) == (
        f"Allocate failed due to requested number of devices unavailable for {RESOURCE}. "
        "Requested: 2, Available: 1, which is unexpected"
    )
    manager.release("1")
    await manager.admit(second)
    assert given(manager, second) == {"c": "a,b"}


@run_with(lambda test: play(test, "a", "b", "c"))
async def test_init_containers_hand_their_devices_on_and_containers_share_none(
    manager: DeviceManager, plugin: FakePlugin
) -> None:
    made = pod("1", wanting(1, "c1"), wanting(1, "c2"), init=(wanting(2, "i1"), wanting(1, "i2")))
    await manager.admit(made)
    assert given(manager, made) == {"i1": "a,b", "i2": "a", "c1": "b", "c2": "a"}


@run_with(lambda test: play(test, "a", "b", "c", options=PluginOptions(preferred=True)))
async def test_the_plugin_chooses_where_it_wants_to(manager: DeviceManager, plugin: FakePlugin) -> None:
    made = pod("1", wanting(2))
    await manager.admit(made)
    assert plugin.calls == [("preferred", ("a", "b", "c")), ("allocate", ("c", "b"))]


@run_with(lambda test: play(test, "a", "b"))
async def test_a_plugin_that_refuses_leaves_the_pod_without_devices(manager: DeviceManager, plugin: FakePlugin) -> None:
    plugin.failing = "no"
    with pytest.raises(DevicesUnavailable, match="rpc error: code = Unknown desc = no, which is unexpected"):
        await manager.admit(pod("1", wanting(2)))
    plugin.failing = ""
    await manager.admit(pod("2", wanting(2)))


@run_with(lambda test: play(test, "a", options=PluginOptions(pre_start=True)))
async def test_a_plugin_that_wants_to_is_told_before_each_start_and_may_prevent_it(
    manager: DeviceManager, plugin: FakePlugin
) -> None:
    made = pod("1", wanting(1))
    await manager.admit(made)
    (container,) = made.spec.containers
    await manager.before_start(made, container)
    assert plugin.calls[-1] == ("pre_start", ("a",))
    plugin.failing = "broken"
    with pytest.raises(RuntimeFailure, match=r"device plugin PreStartContainer rpc failed with err: .* broken"):
        await manager.before_start(made, container)


@run_with(lambda test: play(test, "a"))
async def test_what_a_claim_stands_for_is_no_business_of_the_plugin(manager: DeviceManager, plugin: FakePlugin) -> None:
    mapping = {"containerName": "c", "resourceName": RESOURCE, "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": [mapping]}}
    made = from_dict(Pod, {"spec": {"containers": [wanting(1)]}, "status": status})
    await manager.admit(made)
    assert plugin.calls == []


def test_another_agent_knows_who_has_what(tmp_path: Path) -> None:
    made = pod("1", wanting(1))

    async def before(manager: DeviceManager, plugin: FakePlugin) -> None:
        await manager.admit(made)

    async def after(manager: DeviceManager, plugin: FakePlugin) -> None:
        (container,) = made.spec.containers
        (grant,) = manager.grants(made, container)
        assert (grant.environment, grant.nodes[0].path) == ({"RESOURCE_DEVICES": "a"}, "/dev/a")
        await manager.admit(made)
        assert plugin.calls == []
        with pytest.raises(DevicesUnavailable):
            await manager.admit(pod("2", wanting(1)))

    play(before, "a", directory=tmp_path)
    play(after, "a", directory=tmp_path)
    (tmp_path / "allocations.json").write_text("{")
    play(before, "a", directory=tmp_path)
