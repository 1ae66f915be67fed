"""Containers behind a socket: started in their sandbox, followed, found again by the next agent."""

from __future__ import annotations

import signal

import grpc
import pytest

from cathedra._proto import cri_v1_pb2 as api
from cathedra.node.runtime.cri.configuration import NODE
from cathedra.node.runtime.runtime import LOST_REASON, ResourceLimits, RuntimeFailure
from tests.unit.node.runtime.cri.conftest import POD, Node
from tests.unit.node.runtime.cri.fakecri import IMAGE, IMAGE_ID


async def test_a_container_runs_in_its_pods_sandbox_with_its_image(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec(image_id=IMAGE_ID, command=("a",), args=("b",)))
    assert (run.running, run.image, run.image_id, run.pod) == (True, IMAGE, IMAGE_ID, POD)
    [request] = node.fake.of("CreateContainer")
    assert (request.config.image.image, request.config.image.user_specified_image) == (IMAGE_ID, IMAGE)
    assert (list(request.config.command), list(request.config.args)) == (["a"], ["b"])
    assert request.config.log_path == "c/0.log"


async def test_the_end_of_a_container_is_noticed_by_its_event(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    node.fake.end(run.id, 137, "OOMKilled")
    await node.until(lambda: bool(node.ended))
    assert [(end.id, end.exit_code, end.reason) for end in node.ended] == [(run.id, 137, "OOMKilled")]


async def test_a_container_that_vanished_ends_as_lost(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    del node.fake.containers[run.id], node.fake.created[run.id]
    await node.until(lambda: bool(node.ended))
    assert (node.ended[0].exit_code, node.ended[0].reason) == (137, LOST_REASON)


async def test_without_a_sandbox_there_is_no_container(node: Node) -> None:
    with pytest.raises(RuntimeFailure, match="default/p has no sandbox"):
        await node.runtime.start(node.spec())


async def test_what_could_not_be_created_or_started_leaves_nothing(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    node.fake.failures["CreateContainer"] = (grpc.StatusCode.UNKNOWN, "no space left on device")
    with pytest.raises(RuntimeFailure) as created:
        await node.runtime.start(node.spec())
    assert (created.value.reason, created.value.message) == ("CreateContainerError", "no space left on device")
    node.fake.failures["StartContainer"] = (grpc.StatusCode.UNKNOWN, "failed to create containerd task")
    with pytest.raises(RuntimeFailure) as started:
        await node.runtime.start(node.spec())
    assert (started.value.reason, started.value.message) == ("RunContainerError", "failed to create containerd task")
    assert node.fake.containers == {}
    assert (await node.runtime.start(node.spec())).running


async def test_sigkill_ends_at_once_and_any_other_signal_waits(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    first, second = await node.runtime.start(node.spec("a")), await node.runtime.start(node.spec("b"))
    await node.runtime.signal(first.id, signal.SIGKILL)
    await node.runtime.signal(second.id, signal.SIGTERM)
    await node.until(lambda: len(node.ended) == 2)
    timeouts = {request.container_id: request.timeout for request in node.fake.of("StopContainer")}
    assert timeouts[first.id] == 0
    assert timeouts[second.id] > 3600
    await node.runtime.signal("unknown", signal.SIGKILL)


async def test_the_next_agent_finds_what_runs_and_what_has_ended(served: Node) -> None:
    async with served.agent():
        await served.runtime.sandboxes.run(served.sandbox())
        running, ended = await served.runtime.start(served.spec("a")), await served.runtime.start(served.spec("b"))
        created = served.fake._CreateContainer(_again(served, "never-started"))
    served.fake.end(ended.id, 3)
    async with served.agent() as found:
        states = {run.id: (run.name, run.exit_code) for run in found}
        assert states == {running.id: ("a", None), ended.id: ("b", 3)}
        assert created.container_id not in served.fake.containers
        made = await served.runtime.sandboxes.run(served.sandbox())
        assert list(served.fake.sandboxes) == [made.id]
        served.fake.end(running.id)
        await served.until(lambda: any(end.id == running.id for end in served.ended))


def _again(node: Node, name: str) -> api.CreateContainerRequest:
    request = node.fake.of("CreateContainer")[-1]
    request.config.metadata.name = name
    return request


async def test_nodes_that_share_a_runtime_leave_each_other_alone(served: Node) -> None:
    async with served.agent(name="one"):
        await served.runtime.sandboxes.run(served.sandbox())
        run = await served.runtime.start(served.spec())
        label = served.fake.created[run.id].config.labels[NODE]
        async with served.agent(name="two", stop_containers=True) as found:
            assert found == ()
        assert served.fake.containers[run.id].state == api.CONTAINER_RUNNING
        assert served.fake.created[run.id].config.labels[NODE] == label


async def test_a_lost_sandbox_ends_its_containers_and_is_made_again(node: Node) -> None:
    made = await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    node.fake.lose_sandbox(made.id)
    await node.until(lambda: bool(node.ended))
    assert node.ended[0].id == run.id
    await node.runtime.remove(run.id)
    again = await node.runtime.sandboxes.run(node.sandbox())
    assert again.id != made.id
    assert list(node.fake.sandboxes) == [again.id]
    assert node.fake.sandboxes[again.id].metadata.attempt == 1
    assert (await node.runtime.start(node.spec(attempt=1))).running


async def test_closing_with_the_containers_leaves_nothing_of_the_node(served: Node) -> None:
    async with served.agent(stop_containers=True):
        await served.runtime.sandboxes.run(served.sandbox())
        await served.runtime.start(served.spec())
    assert (served.fake.containers, served.fake.sandboxes) == ({}, {})


async def test_a_command_to_the_end_has_its_code_and_output(node: Node) -> None:
    assert await node.runtime.exec_sync("c", ("x", "y"), 0.2) == (2, b"x y")
    [request] = node.fake.of("ExecSync")
    assert request.timeout == 1
    node.fake.failures["ExecSync"] = (grpc.StatusCode.DEADLINE_EXCEEDED, "timeout 1s exceeded")
    with pytest.raises(TimeoutError):
        await node.runtime.exec_sync("c", ("x",), 1)
    node.fake.failures["ExecSync"] = (grpc.StatusCode.UNKNOWN, "container is in CONTAINER_EXITED state")
    with pytest.raises(RuntimeFailure, match="CONTAINER_EXITED"):
        await node.runtime.exec_sync("c", ("x",), 1)


async def test_a_runtime_that_does_not_answer_is_asked_again(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    node.fake.failures["ListContainers"] = (grpc.StatusCode.UNAVAILABLE, "away")
    node.fake.end(run.id)
    await node.until(lambda: bool(node.ended))


async def test_devices_that_cannot_be_had_keep_the_container_waiting(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    with pytest.raises(RuntimeFailure) as raised:
        await node.runtime.start(node.spec(cdi_devices=("example.com/gpu=0",)))
    assert raised.value.reason == "CreateContainerError"
    assert raised.value.message == "CDI device injection failed: unresolvable CDI devices example.com/gpu=0"


@pytest.mark.parametrize("networks", [True, False])
async def test_conditions_of_the_runtime_that_do_not_hold_are_told_as_a_kubelet_tells_them(
    served: Node, networks: bool
) -> None:
    good = [api.RuntimeCondition(type=name, status=True) for name in ("RuntimeReady", "NetworkReady")[: 1 + networks]]
    served.fake.conditions = tuple(good)
    async with served.agent():
        assert await served.runtime.status() == ()
        served.fake.conditions = (
            api.RuntimeCondition(type="RuntimeReady", status=False, reason="Starting", message="wait"),
            api.RuntimeCondition(
                type="NetworkReady", status=False, reason="NetworkPluginNotReady", message="no config"
            ),
        )
        wanted = (
            "container runtime not ready: RuntimeReady=false reason:Starting message:wait",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no config",
        )
        assert await served.runtime.status() == wanted[: 1 + networks]
        served.fake.failures["Status"] = (grpc.StatusCode.UNAVAILABLE, "gone")
        with pytest.raises(RuntimeFailure, match="gone"):
            await served.runtime.status()


async def test_other_limits_are_handed_on_while_the_container_runs(node: Node) -> None:
    await node.runtime.sandboxes.run(node.sandbox())
    run = await node.runtime.start(node.spec())
    await node.runtime.update(run.id, ResourceLimits(cpu_shares=512, cpu_milli=500, memory=2**20))
    [request] = node.fake.of("UpdateContainerResources")
    assert (request.container_id, request.linux.cpu_quota, request.linux.memory_limit_in_bytes) == (
        run.id,
        50_000,
        2**20,
    )
    node.fake.failures["UpdateContainerResources"] = (grpc.StatusCode.UNKNOWN, "no such cgroup")
    with pytest.raises(RuntimeFailure, match="no such cgroup"):
        await node.runtime.update(run.id, ResourceLimits())
