"""Classic device plugins beside DRA: the scenarios B12 and J8 of docs/spec/driver-sdk.md §20."""

from __future__ import annotations

from cathedra.client.resources import NODES
from cathedra.drivers.example.controls import PREPARE
from tests.simulation.actors import Actors, play
from tests.simulation.demos import NODE
from tests.unit.node.deviceplugins.fakeplugin import RESOURCE, FakePlugin


async def allocatable(on: Actors) -> str:
    node = await on.stage.client.resource(NODES).get(NODE)
    return str(node.status.allocatable[RESOURCE])


def test_b12_a_pod_has_a_claim_and_a_device_of_a_plugin() -> None:
    plugin = FakePlugin("plain-0", "plain-1")

    async def scene(on: Actors) -> None:
        await on.settle()
        assert await allocatable(on) == "2"
        await on.a_class()
        await on.a_claim()
        await on.a_pod("tester", "claim", limits={RESOURCE: "1"})
        await on.settle()
        pod = await on.pod("tester")
        assert pod.status.phase == "Running"
        assert pod.status.extended_resource_claim_status is None
        assert on.calls(PREPARE) == ["default/claim"]
        assert plugin.calls == [("allocate", ("plain-0",))]
        spec = on.container(pod, "with-resource")
        ((_, _, device),) = await on.results("claim")
        assert len(spec.cdi_devices) >= 2, (spec.cdi_devices, device)
        assert "example.com/resource=plain-0" in spec.cdi_devices
        assert dict(spec.environment)["RESOURCE_DEVICES"] == "plain-0"
        assert [node.path for node in spec.device_nodes] == ["/dev/plain-0"]
        await on.a_pod("greedy", containers={"c": []}, limits={RESOURCE: "2"})
        await on.settle()
        assert await on.phase("greedy") == "Pending"
        await on.finish("tester")
        await on.settle(200)
        assert await on.phase("greedy") == "Running"

    play(scene, device_plugins={RESOURCE: plugin})


def test_j8_a_device_plugin_goes_before_claims_for_the_same_resource_until_it_is_gone() -> None:
    plugin = FakePlugin("plain-0", "plain-1")

    async def scene(on: Actors) -> None:
        await on.a_class(extendedResourceName=RESOURCE)
        await on.settle()
        await on.a_pod("first", containers={"c": []}, limits={RESOURCE: "1"})
        await on.settle()
        assert await on.phase("first") == "Running"
        assert await on.claims() == []
        assert plugin.calls == [("allocate", ("plain-0",))]
        plugin.stop()
        await on.settle()
        assert await allocatable(on) == "0"
        await on.a_pod("second", containers={"c": []}, limits={RESOURCE: "1"})
        await on.settle()
        second = await on.pod("second")
        assert second.status.phase == "Running"
        status = second.status.extended_resource_claim_status
        assert status is not None
        assert [claim.metadata.name for claim in await on.claims()] == [status.resource_claim_name]
        assert await on.phase("first") == "Running"

    play(scene, device_plugins={RESOURCE: plugin})
