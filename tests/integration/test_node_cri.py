"""A node whose containers containerd runs: images, sandboxes, devices, streams, and agents that start again.

docs/spec/node.md §17 and §18. containerd runs as a daemon of its own, with images that are made here.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from cathedra.api.core.core_v1 import (
    Container,
    ContainerStatus,
    EmptyDirVolumeSource,
    EnvVar,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    Probe,
    ResourceRequirements,
    SecurityContext,
    Volume,
    VolumeMount,
)
from cathedra.api.quantity import Quantity
from cathedra.cdi.spec import CDIDevice, ContainerEdits, DeviceNode, Hook, Mount, Spec
from cathedra.client.resources import PODS, RESOURCECLAIMS
from tests.integration.containerd import IMAGE, MISSING, USER_IMAGE, Containerd, containerd
from tests.integration.real_node import RealNode, read_all, running
from tests.unit.cdi.documents import write_document
from tests.unit.node.driver_server import DriverServer
from tests.unit.node.fakes import DRIVER, make_claim, make_pod

FOREVER = ("sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 1 & wait; done")


@pytest.fixture(scope="module")
def daemon() -> Iterator[Containerd]:
    with containerd() as found:
        yield found


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path: a socket's address has room for 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="node-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def node(daemon: Containerd, place: Path) -> AsyncIterator[RealNode]:
    found = RealNode(place / "node", "cri", daemon.socket)
    async with running(found.agent):
        yield found
    assert daemon.containers() == []


def tools(*command: str, **settings: object) -> Container:
    """A container of the image with busybox."""
    return Container(name="c", image=IMAGE, image_pull_policy="IfNotPresent", command=command, **settings)  # type: ignore[arg-type]  # fields by name


def status_of(node: RealNode) -> ContainerStatus:
    return node.pod().status.container_statuses[0]


async def test_a_pod_runs_its_image_to_the_end_and_says_what_it_ran(node: RealNode) -> None:
    script = (
        "echo \"$OF $GREETING\"; echo oops >&2; grep -o '/fast tmpfs .*size=2048k' /proc/mounts; "
        "echo so long > /dev/termination-log; exit 3"
    )
    fast = VolumeMount(name="fast", mount_path="/fast")
    container = tools("sh", "-c", script, env=(EnvVar(name="GREETING", value="hello"),), volume_mounts=(fast,))
    memory = EmptyDirVolumeSource(medium="Memory", size_limit=Quantity("2Mi"))
    await node.run_pod(make_pod("p", container, volumes=(Volume(name="fast", empty_dir=memory),)))
    await node.until_phase("Failed")
    status = status_of(node)
    assert status.state.terminated is not None
    ended = status.state.terminated
    assert (ended.exit_code, ended.reason, ended.message) == (3, "Error", "so long\n")
    assert status.container_id.startswith("containerd://")
    assert status.image == IMAGE
    assert status.image_id.startswith("sha256:")
    _, text = await node.logs()
    lines = set(text.splitlines())
    assert {"image hello", "oops"} <= lines
    assert any(line.startswith("/fast tmpfs ") for line in lines)
    [event] = node.server.events("Pulled")
    assert event.message == f'Container image "{IMAGE}" already present on machine and can be accessed by the pod'
    assert node.agent.missing == ""


async def test_an_entry_point_and_a_user_come_from_the_image(node: RealNode) -> None:
    inherits = Container(name="c", image=USER_IMAGE, image_pull_policy="IfNotPresent")
    context = SecurityContext(run_as_non_root=True)
    refused = tools("true", security_context=context)
    await node.run_pod(make_pod("p", inherits))
    await node.run_pod(make_pod("q", refused))
    await node.until_phase("Running")
    async with node.exec("id", "-u", stdout="true") as socket:
        assert (await read_all(socket))[1] == b"65534\n"
    await node.until(lambda: bool(node.pod("q").status.container_statuses))
    await node.until(lambda: node.pod("q").status.container_statuses[0].state.waiting is not None)
    await node.until(
        lambda: "image will run as root" in (node.pod("q").status.container_statuses[0].state.waiting.message or "")  # type: ignore[union-attr]  # it waits
    )


async def test_an_image_that_cannot_be_had_is_told_as_a_kubelet_tells_it(node: RealNode) -> None:
    await node.run_pod(make_pod("p", Container(name="c", image=MISSING, image_pull_policy="IfNotPresent")))
    await node.run_pod(make_pod("q", Container(name="c", image=MISSING, image_pull_policy="Never")))

    def waiting(name: str) -> str:
        statuses = node.pod(name).status.container_statuses
        return statuses[0].state.waiting.reason if statuses and statuses[0].state.waiting is not None else ""

    await node.until(lambda: waiting("p") == "ErrImagePull")
    await node.until(lambda: waiting("p") == "ImagePullBackOff")
    await node.until(lambda: waiting("q") == "ErrImageNeverPull")
    assert [event.message for event in node.server.events("Pulling")] == [f'Pulling image "{MISSING}"']
    # Events are written after the status, by a task of their own.
    expected = {"Error: ErrImagePull", "Error: ImagePullBackOff", "Error: ErrImageNeverPull"}
    await node.until(lambda: expected <= {event.message for event in node.server.events("Failed")})
    said = {event.message for event in node.server.events("Failed")}
    assert any(message.startswith(f'Failed to pull image "{MISSING}": rpc error: code = ') for message in said)
    for name in ("p", "q"):
        await node.client.resource(PODS, "default").delete(name)
        await node.until(lambda name=name: ("pods", "default", name) not in node.server.objects)


async def test_devices_reach_the_container_and_what_cannot_is_told(node: RealNode) -> None:
    facts = node.root / "facts"
    facts.write_text("found")
    edits = ContainerEdits(
        env=("GPU=7",),
        device_nodes=(DeviceNode(path="/dev/gpu7", host_path="/dev/null"),),
        mounts=(Mount(host_path=str(facts), container_path="/run/facts", options=("ro", "bind")),),
        hooks=(Hook(hook_name="createContainer", path="/bin/true"),),
        additional_gids=(4711,),
    )
    driver = DriverServer(node.root, DRIVER, cdi=f"{DRIVER}/gpu=7")
    device = CDIDevice(name="7", container_edits=edits)
    write_document(node.root / "cdi", "gpu", Spec(cdi_version="0.7.0", kind=f"{DRIVER}/gpu", devices=(device,)))
    await driver.start()
    try:
        await node.client.resource(RESOURCECLAIMS, "default").create(make_claim("gpu", "p"))
        script = "echo $GPU; cat /run/facts; echo; ls /dev/gpu7; echo x > /dev/gpu7 && echo written; id -G"
        await node.run_pod(make_pod("p", tools("sh", "-c", script), claims=("gpu",)))
        await node.until_phase("Succeeded")
        lines = (await node.logs())[1].split()
        assert lines[:4] == ["7", "found", "/dev/gpu7", "written"]
        assert "4711" in lines
        [event] = node.server.events("CDIEditsNotApplied")
        assert event.message.endswith("createContainer hook /bin/true")
    finally:
        await driver.stop()


async def test_exec_attach_and_ports_go_through_the_runtime(node: RealNode) -> None:
    container = tools("sh", "-c", "read x; echo got $x; sleep 600", stdin=True, tty=True)
    await node.run_pod(make_pod("p", container))
    await node.until_phase("Running")
    async with node.exec("sh", "-c", "cat; echo bad >&2; exit 7", stdin="true", stdout="true", stderr="true") as socket:
        await socket.send_bytes(b"\x00" + b"x" * 300_000)
        await socket.send_bytes(b"\xff\x00")
        channels = await read_all(socket)
    assert (channels[1], channels[2]) == (b"x" * 300_000, b"bad\n")
    assert json.loads(channels[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    async with node.exec("no-such-command", stdout="true", stderr="true") as socket:
        channels = await read_all(socket)
    assert b"executable file not found" in channels[2]
    assert json.loads(channels[3])["details"]["causes"] == [{"reason": "ExitCode", "message": "127"}]
    script = 'until [ "$(stty size)" = "27 91" ]; do sleep 0.05; done; stty size'
    async with node.exec("sh", "-c", script, tty="true", stdin="true", stdout="true") as socket:
        await socket.send_bytes(b'\x04{"Width":91,"Height":27}')
        assert b"27 91" in (await read_all(socket))[1]
    async with node.attach(stdin="true", stdout="true", tty="true") as socket:
        await socket.send_bytes(b"\x00one\n")
        seen = b""
        while b"got one" not in seen:
            seen += (await socket.receive_bytes())[1:]


async def test_probes_hooks_init_containers_and_restarts(node: RealNode) -> None:
    data = VolumeMount(name="data", mount_path="/data", sub_path="part")
    first = Container(
        name="first",
        image=IMAGE,
        image_pull_policy="IfNotPresent",
        command=("sh", "-c", "echo first >> /data/order"),
        volume_mounts=(data,),
    )
    main = tools(
        "sh",
        "-c",
        "echo main >> /data/order; until [ -e /data/end ]; do sleep 0.1; done; exit 1",
        volume_mounts=(data,),
        readiness_probe=Probe(exec=ExecAction(command=("ls", "/data/ready")), period_seconds=1),
        lifecycle=Lifecycle(post_start=LifecycleHandler(exec=ExecAction(command=("touch", "/data/ready")))),
        resources=ResourceRequirements(limits={"memory": Quantity("64Mi"), "cpu": Quantity("500m")}),
    )
    volumes = (Volume(name="data", empty_dir=EmptyDirVolumeSource()),)
    await node.run_pod(make_pod("p", main, init_containers=(first,), volumes=volumes, restart_policy="OnFailure"))
    await node.until(lambda: bool(node.pod().status.container_statuses) and status_of(node).ready)
    [part] = node.root.glob("pods/*/volumes/*/data/part")
    (part / "end").touch()
    await node.until(lambda: status_of(node).restart_count == 1)
    assert (part / "order").read_text().split()[:2] == ["first", "main"]
    last = status_of(node).last_state.terminated
    assert last is not None
    assert last.exit_code == 1


async def test_deleting_a_pod_gives_it_time_to_say_goodbye(node: RealNode, daemon: Containerd) -> None:
    await node.run_pod(make_pod("p", tools(*FOREVER)))
    await node.until_phase("Running")
    assert len(daemon.containers()) == 2
    await node.until(lambda: b"up" in b"".join(p.read_bytes() for p in node.root.glob("pods/*/c/0.log")))
    following = asyncio.ensure_future(node.logs(follow="true"))
    await node.client.resource(PODS, "default").delete("p")
    await node.until(lambda: ("pods", "default", "p") not in node.server.objects)
    assert (await following)[1].endswith("bye\n")
    await node.until(lambda: daemon.containers() == [])


async def test_containers_live_on_without_agent_and_without_daemon(daemon: Containerd, place: Path) -> None:
    found = RealNode(place / "node", "cri", daemon.socket)
    first = found.make_agent(stop_containers=False)
    script = "echo up; until [ -e /data/end ]; do sleep 0.1; done; exit 5"
    data = VolumeMount(name="data", mount_path="/data")
    volumes = (Volume(name="data", empty_dir=EmptyDirVolumeSource()),)
    pod = make_pod("p", tools("sh", "-c", script, volume_mounts=(data,)), volumes=volumes)
    async with running(first):
        await found.run_pod(pod)
        await found.until_phase("Running")
        began = status_of(found).container_id
    await asyncio.to_thread(daemon.stop)
    await asyncio.to_thread(daemon.start)
    async with running(found.agent):
        await found.until(lambda: found.agent.is_ready)
        await asyncio.to_thread(daemon.stop)
        await asyncio.to_thread(daemon.start)
        [volume] = found.root.glob("pods/*/volumes/*/data")
        (volume / "end").touch()
        await found.until_phase("Failed")
        ended = status_of(found).state.terminated
        assert ended is not None
        assert (ended.exit_code, ended.container_id) == (5, began)
        assert status_of(found).restart_count == 0
    assert daemon.containers() == []
