"""Sandboxes: one ready sandbox for each pod, in the network that there is."""

from __future__ import annotations

import grpc
import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.runtime import RuntimeFailure
from tests.unit.node.runtime.cri.conftest import POD, Node
from tests.unit.node.runtime.cri.fakecri import NETWORK


async def test_a_pod_shares_the_nodes_network_where_there_is_no_other(node: Node) -> None:
    made = await node.runtime.sandboxes.run(node.sandbox())
    assert made.address == ""
    [request] = node.fake.of("RunPodSandbox")
    assert request.config.linux.security_context.namespace_options.network == api.NODE


async def test_a_pod_has_an_address_of_its_own_where_there_are_pod_networks(served: Node) -> None:
    served.fake.conditions = (NETWORK,)
    async with served.agent():
        made = await served.runtime.sandboxes.run(served.sandbox())
        assert made.address == "10.0.0.9"
        await served.runtime.sandboxes.remove(POD.uid)
        assert (await served.runtime.sandboxes.run(served.sandbox(host_network=True))).address == ""


async def test_a_ready_sandbox_is_taken_again(node: Node) -> None:
    first = await node.runtime.sandboxes.run(node.sandbox())
    assert await node.runtime.sandboxes.run(node.sandbox()) == first
    assert len(node.fake.of("RunPodSandbox")) == 1
    assert await node.runtime.sandboxes.pods() == (POD,)


async def test_a_sandbox_that_cannot_be_made_says_why(node: Node) -> None:
    node.fake.failures["RunPodSandbox"] = (grpc.StatusCode.UNKNOWN, "no pause image")
    with pytest.raises(RuntimeFailure) as raised:
        await node.runtime.sandboxes.run(node.sandbox())
    assert raised.value.message == "Failed to create pod sandbox: rpc error: code = Unknown desc = no pause image"
    assert node.runtime.sandboxes.of(POD.uid) is None


async def test_stopping_and_removing_may_be_repeated(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    for _ in range(2):
        await node.runtime.sandboxes.stop(POD.uid)
    for _ in range(2):
        await node.runtime.sandboxes.remove(POD.uid)
    assert node.fake.sandboxes == {}
    assert await node.runtime.sandboxes.pods() == ()


async def test_a_sandbox_that_cannot_be_stopped_is_a_failure_and_one_that_cannot_be_removed_is_not(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    node.fake.failures["StopPodSandbox"] = (grpc.StatusCode.UNKNOWN, "stuck")
    with pytest.raises(RuntimeFailure, match="stuck"):
        await node.runtime.sandboxes.stop(POD.uid)
    node.fake.failures["RemovePodSandbox"] = (grpc.StatusCode.UNKNOWN, "stuck")
    await node.runtime.sandboxes.remove(POD.uid)
    assert await node.runtime.sandboxes.pods() == (POD,)


async def test_a_sandbox_is_removed_once_the_removal_of_its_container_has_ended(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    node.fake.failures["RemovePodSandbox"] = (grpc.StatusCode.UNKNOWN, "container is already in removing state")
    await node.runtime.sandboxes.remove(POD.uid)
    assert len(node.fake.of("RemovePodSandbox")) == 2
    assert node.fake.sandboxes == {}


async def test_ports_are_asked_for_by_sandbox(node: Node) -> None:
    with pytest.raises(OSError, match="has no sandbox"):
        await node.runtime.sandboxes.connect(POD.uid, 80)
    made = await node.runtime.sandboxes.run(node.sandbox())
    node.fake.url = "http://127.0.0.1:1/x"
    with pytest.raises(OSError, match="cannot stream from"):
        await node.runtime.sandboxes.connect(POD.uid, 80)
    [request] = node.fake.of("PortForward")
    assert (request.pod_sandbox_id, list(request.port)) == (made.id, [80])
