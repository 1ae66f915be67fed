"""A node with real processes: containers, logs, exec, volumes, and an agent that comes back.

docs/spec/node.md §17. Runs on plain processes everywhere, and on crun and runc where this machine can.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    Capabilities,
    ConfigMap,
    ConfigMapVolumeSource,
    Container,
    EmptyDirVolumeSource,
    EnvVar,
    EnvVarSource,
    ExecAction,
    Lifecycle,
    LifecycleHandler,
    ObjectFieldSelector,
    Probe,
    ResourceRequirements,
    SeccompProfile,
    SecurityContext,
    Volume,
    VolumeMount,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.cdi.spec import CDIDevice, ContainerEdits, DeviceNode, Hook, Mount, Spec
from cathedra.client.resources import CONFIGMAPS, PODS, RESOURCECLAIMS
from cathedra.node.shim import kernel
from tests.integration.real_node import FOREVER, RealNode, read_all, running
from tests.requirements import container_runtime
from tests.unit.cdi.documents import write_document
from tests.unit.node.driver_server import DriverServer
from tests.unit.node.fakes import DRIVER, make_claim, make_pod

RUNTIMES = ("process", "crun", "runc")


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short path: a socket's address has room for 107 characters."""
    directory = Path(tempfile.mkdtemp(prefix="node-"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=RUNTIMES)
async def node(request: pytest.FixtureRequest, place: Path) -> AsyncIterator[RealNode]:
    found = RealNode(place / "node", container_runtime(request.param))
    async with running(found.agent):
        yield found


contained = pytest.mark.parametrize("node", RUNTIMES[1:], indirect=True)
"""For what plain processes do not have: hooks, groups and limits of their own."""


async def test_a_pod_runs_to_its_end_with_environment_volumes_and_logs(node: RealNode) -> None:
    await node.client.resource(CONFIGMAPS, "default").create(
        ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "blue"})
    )
    # Where nothing can be mounted, the mounts are laid out below $CATHEDRA_MOUNTS.
    script = (
        'echo "$NAME $GREETING"; cat $CATHEDRA_MOUNTS/etc/settings/colour; echo; echo oops >&2; '
        "echo shared > $CATHEDRA_MOUNTS/data/file; cat $CATHEDRA_MOUNTS/data/file; exit 3"
    )
    container = Container(
        name="c",
        image="busybox",
        command=("sh", "-c", script),
        env=(
            EnvVar(name="NAME", value_from=EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.name"))),
            EnvVar(name="GREETING", value="hello from $(NAME)"),
        ),
        volume_mounts=(
            VolumeMount(name="settings", mount_path="/etc/settings"),
            VolumeMount(name="data", mount_path="/data"),
        ),
    )
    volumes = (
        Volume(name="settings", config_map=ConfigMapVolumeSource(name="settings")),
        Volume(name="data", empty_dir=EmptyDirVolumeSource()),
    )
    await node.run_pod(make_pod("p", container, volumes=volumes))
    await node.until_phase("Failed")
    ended = node.pod().status.container_statuses[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (3, "Error")
    status, text = await node.logs()
    assert status == 200
    assert set(text.splitlines()) == {"p hello from p", "blue", "oops", "shared"}
    assert (await node.logs(tailLines="1"))[1] == text.splitlines(keepends=True)[-1]
    assert (await node.logs(stream="Stderr"))[1] == "oops\n"
    assert (await node.logs(limitBytes="4"))[1] == text[:4]
    assert (await node.logs(timestamps="true"))[1].startswith("20")
    assert (await node.logs(token="wrong"))[0] == 401
    assert (await node.logs(token="powerless"))[0] == 403
    assert (await node.logs(container="x"))[0] == 400
    assert (await node.logs(pod="x"))[0] == 404


async def test_logs_are_followed_to_the_end_and_previous_ones_are_kept(node: RealNode) -> None:
    script = "echo one; sleep 0.4; echo two; exit 1"
    await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script)), restart_policy="OnFailure"))
    await node.until_phase("Running")
    assert await node.logs(follow="true") == (200, "one\ntwo\n")
    await node.until(lambda: node.pod().status.container_statuses[0].restart_count == 1)
    assert await node.logs(previous="true") == (200, "one\ntwo\n")
    await node.client.resource(PODS, "default").delete("p")


async def test_exec_carries_input_output_and_exit_code(node: RealNode) -> None:
    await node.run_pod(make_pod("p", Container(name="c", command=FOREVER)))
    await node.until_phase("Running")
    async with node.exec("sh", "-c", "cat; echo bad >&2; exit 7", stdin="true", stdout="true", stderr="true") as socket:
        await socket.send_bytes(b"\x00hello")
        await socket.send_bytes(b"\xff\x00")
        channels = await read_all(socket)
    assert channels[1] == b"hello"
    assert channels[2] == b"bad\n"
    status = json.loads(channels[3])
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]
    async with node.exec("true", stdout="true") as socket:
        assert json.loads((await read_all(socket))[3]) == {"metadata": {}, "status": "Success"}
    # runc passes input on before it sets a size, so that the command has to wait for the size.
    script = 'read x; until [ "$(stty size)" = "27 91" ]; do sleep 0.05; done; stty size; tty'
    async with node.exec("sh", "-c", script, tty="true", stdin="true", stdout="true") as socket:
        await socket.send_bytes(b'\x04{"Width":91,"Height":27}')
        await socket.send_bytes(b"\x00\n")
        channels = await read_all(socket)
    assert b"27 91\r\n" in channels[1]
    assert b"/dev/pts/" in channels[1]


async def test_attaching_reaches_the_first_process_and_ends_its_input(node: RealNode) -> None:
    script = "read line; echo got $line; cat >&2; exit 4"
    container = Container(name="c", command=("sh", "-c", script), stdin=True, stdin_once=True)
    await node.run_pod(make_pod("p", container))
    await node.until_phase("Running")
    async with node.attach(stdin="true", stdout="true", stderr="true") as socket:
        await socket.send_bytes(b"\x00hello\n" + b"x" * 200_000)
        await socket.send_bytes(b"\xff\x00")
        channels = await read_all(socket)
    assert channels[1] == b"got hello\n"
    assert channels[2] == b"x" * 200_000
    assert json.loads(channels[3])["status"] == "Success"
    await node.until_phase("Failed")
    assert "got hello" in (await node.logs())[1]


async def test_a_container_may_have_a_terminal_and_attaching_leaves_it_running(node: RealNode) -> None:
    script = "while read line; do stty size; tty; echo got $line; done"
    await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script), stdin=True, tty=True)))
    await node.until_phase("Running")
    for word in (b"one", b"two"):
        async with node.attach(stdin="true", stdout="true", tty="true") as socket:
            await socket.send_bytes(b'\x04{"Width":91,"Height":27}')
            await socket.send_bytes(b"\x00" + word + b"\n")
            seen = b""
            while b"got " + word not in seen:
                seen += (await socket.receive_bytes())[1:]
        assert b"27 91\r\n" in seen
        assert b"not a tty" not in seen
    assert node.pod().status.container_statuses[0].state.running is not None


async def test_deleting_a_pod_gives_it_time_to_say_goodbye(node: RealNode) -> None:
    await node.run_pod(make_pod("p", Container(name="c", command=FOREVER)))
    await node.until_phase("Running")
    await node.until(lambda: b"up" in b"".join(p.read_bytes() for p in node.root.glob("pods/*/c/0.log")))
    following = asyncio.ensure_future(node.logs(follow="true"))
    await asyncio.sleep(0.1)
    await node.client.resource(PODS, "default").delete("p")
    await node.until(lambda: ("pods", "default", "p") not in node.server.objects)
    assert await following == (200, "up\nbye\n")
    await node.until(lambda: list((node.root / "pods").iterdir()) == [])


async def test_a_command_that_does_not_exist_is_a_start_error(node: RealNode) -> None:
    await node.run_pod(make_pod("p", Container(name="c", command=("no-such-command",))))
    await node.until_phase("Failed")
    ended = node.pod().status.container_statuses[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (128, "StartError")
    assert "no-such-command" in ended.message


async def test_a_container_without_command_waits_until_it_is_stopped(node: RealNode) -> None:
    await node.run_pod(make_pod("p", Container(name="c", image="nginx")))
    await node.until_phase("Running")
    await node.until(lambda: b"waiting" in b"".join(p.read_bytes() for p in node.root.glob("pods/*/c/0.log")))
    await node.client.resource(PODS, "default").delete("p")
    await node.until(lambda: ("pods", "default", "p") not in node.server.objects)


async def test_the_termination_message_is_reported(node: RealNode) -> None:
    script = "echo so long > $CATHEDRA_MOUNTS/dev/termination-log"
    await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script))))
    await node.until_phase("Succeeded")
    ended = node.pod().status.container_statuses[0].state.terminated
    assert ended is not None
    assert ended.message == "so long\n"


async def test_a_claim_reaches_the_container_through_a_real_driver(node: RealNode) -> None:
    facts = node.root / "facts.json"
    facts.write_text("{}")
    edits = ContainerEdits(
        env=("GPU_DEVICE=gpu-0",),
        mounts=(Mount(host_path=str(facts), container_path="/var/run/k/facts.json", options=("ro", "bind")),),
        device_nodes=(DeviceNode(path="/dev/gpu0", type="c", major=1, minor=3),),
    )
    spec = Spec(cdi_version="0.6.0", kind=f"{DRIVER}/gpu", devices=(CDIDevice(name="gpu-0", container_edits=edits),))
    write_document(node.root / "cdi", "gpu", spec)
    driver = DriverServer(node.root, DRIVER, cdi=f"{DRIVER}/gpu=gpu-0")
    await driver.start()
    script = "echo $GPU_DEVICE; cat $CATHEDRA_MOUNTS/var/run/k/facts.json; echo; ls /dev/gpu0"
    await node.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
    await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script)), claims=["c1"]))
    await node.until_phase("Failed" if node.runtime == "process" else "Succeeded")
    text = (await node.logs())[1]
    assert text.startswith("gpu-0\n{}\n")
    if node.runtime != "process":
        assert text == "gpu-0\n{}\n/dev/gpu0\n"
    assert driver.calls == [("prepare v1", ["c1"]), ("unprepare v1", ["c1"])]
    await driver.stop()


@contained
async def test_hooks_groups_and_limits_of_devices_and_containers_reach_the_kernel(node: RealNode) -> None:
    hooked = node.root / "hooked"
    hook = Hook(hook_name="createRuntime", path="/bin/sh", args=("sh", "-c", f"cat > {hooked}"))
    edits = ContainerEdits(env=("A=1",), hooks=(hook,), additional_gids=(4242,))
    spec = Spec(cdi_version="0.7.0", kind=f"{DRIVER}/gpu", devices=(CDIDevice(name="gpu-0", container_edits=edits),))
    write_document(node.root / "cdi", "gpu", spec)
    driver = DriverServer(node.root, DRIVER, cdi=f"{DRIVER}/gpu=gpu-0")
    await driver.start()
    await node.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
    container = Container(
        name="c",
        command=("sh", "-c", "id -G; cat /proc/self/oom_score_adj; touch /written && ls /written; hostname"),
        security_context=SecurityContext(run_as_user=0),
    )
    await node.run_pod(make_pod("p", container, claims=["c1"]))
    await node.until_phase("Succeeded")
    groups, score, written, name = (await node.logs())[1].splitlines()
    assert groups.split() == ["0", "4242"]
    assert (score, written, name) == ("1000", "/written", "p")
    assert json.loads(await asyncio.to_thread(hooked.read_text))["bundle"].startswith(str(node.root))
    assert not await asyncio.to_thread(Path("/written").exists), "the host's root file system is left alone"
    await driver.stop()


@contained
async def test_system_calls_are_filtered_by_the_default_profile(node: RealNode) -> None:
    script = "grep ^Seccomp: /proc/self/status; unshare -m true 2>/dev/null || echo refused"
    context = SecurityContext(
        seccomp_profile=SeccompProfile(type="RuntimeDefault"), capabilities=Capabilities(drop=("ALL",))
    )
    await node.run_pod(make_pod("p", Container(name="c", command=("sh", "-c", script), security_context=context)))
    await node.until_phase("Succeeded")
    assert (await node.logs())[1].split() == ["Seccomp:", "2", "refused"]


def share_mounts(place: Path) -> None:
    """What is mounted below the directory arrives in other mount namespaces, as systemd has it everywhere."""
    kernel.mount_bind(str(place), str(place))
    subprocess.run(["mount", "--make-shared", str(place)], check=True)


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
async def test_a_volume_in_memory_has_its_size_where_mounts_are_shared(place: Path, runtime: str) -> None:
    container_runtime(runtime)
    share_mounts(place)
    try:
        found = RealNode(place / "node", runtime)
        script = (
            "grep -c ' /fast tmpfs ' /proc/mounts; dd if=/dev/zero of=/fast/x bs=1M count=4 2>&- ; stat -c %s /fast/x"
        )
        mount = VolumeMount(name="fast", mount_path="/fast")
        source = EmptyDirVolumeSource(medium="Memory", size_limit=Quantity("2Mi"))
        container = Container(name="c", command=("sh", "-c", script), volume_mounts=(mount,))
        async with running(found.agent):
            await found.run_pod(make_pod("p", container, volumes=(Volume(name="fast", empty_dir=source),)))
            await found.until_phase("Succeeded")
            assert (await found.logs())[1].split() == ["1", str(2 << 20)]
    finally:
        kernel.unmount(str(place))


@contained
async def test_a_container_that_takes_more_memory_than_it_may_is_killed_for_it(node: RealNode) -> None:
    limits = ResourceRequirements(limits={"memory": Quantity("32Mi")}, requests={"memory": Quantity("32Mi")})
    greedy = Container(name="c", command=("python3", "-c", "print(len(bytearray(300_000_000)))"), resources=limits)
    await node.run_pod(make_pod("p", greedy))
    await node.until_phase("Failed")
    ended = node.pod().status.container_statuses[0].state.terminated
    assert ended is not None
    assert (ended.exit_code, ended.reason) == (137, "OOMKilled")


@contained
async def test_a_container_may_take_more_memory_after_it_was_resized(node: RealNode) -> None:
    """The container would be killed with its first limit; it continues when a file in the volume allows it."""

    def memory(amount: str) -> ResourceRequirements:
        return ResourceRequirements(limits={"memory": Quantity(amount)}, requests={"memory": Quantity("32Mi")})

    script = "while ! [ -e /data/go ]; do sleep 0.05; done; exec python3 -c 'print(len(bytearray(300_000_000)))'"
    mount = VolumeMount(name="data", mount_path="/data")
    small = Container(name="c", command=("sh", "-c", script), resources=memory("64Mi"), volume_mounts=(mount,))
    await node.run_pod(make_pod("p", small, volumes=(Volume(name="data", empty_dir=EmptyDirVolumeSource()),)))
    await node.until_phase("Running")
    pod = node.pod()
    large = replace(pod.spec.containers[0], resources=memory("1Gi"))
    await node.client.resource(PODS, "default").update(replace(pod, spec=replace(pod.spec, containers=(large,))))
    await node.until(lambda: bool(node.server.events("ResizeCompleted") or node.server.events("ResizeError")))
    assert [event.message for event in node.server.events("ResizeError")] == []
    (place,) = node.root.glob("pods/*/volumes/*/data")
    (place / "go").touch()
    await node.until_phase("Succeeded")
    assert (await node.logs())[1] == "300000000\n"
    (status,) = node.pod().status.container_statuses
    assert (status.restart_count, status.allocated_resources) == (0, {"memory": Quantity("32Mi")})


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_an_agent_that_comes_back_finds_its_containers_and_their_exit_codes(place: Path, runtime: str) -> None:
    node = RealNode(place / "node", container_runtime(runtime))
    node.agent = node.make_agent(stop_containers=False)
    counted = place / "count"
    script = f"echo $$ >> {counted}; sleep 1; exit 5"
    mount = VolumeMount(name="tmp", mount_path=str(place))
    from cathedra.api.core.core_v1 import HostPathVolumeSource

    volume = Volume(name="tmp", host_path=HostPathVolumeSource(path=str(place)))
    short = Container(name="c", command=("sh", "-c", script), volume_mounts=(mount,))
    async with running(node.agent):
        await node.run_pod(make_pod("short", short, volumes=(volume,)))
        await node.run_pod(make_pod("long", Container(name="c", command=FOREVER)))
        await node.until_phase("Running", "short")
        await node.until_phase("Running", "long")
    before = node.pod("long").status.container_statuses[0].container_id
    await asyncio.sleep(1.2)
    node.agent = node.make_agent(stop_containers=True)
    async with running(node.agent):
        await node.until_phase("Failed", "short")
        ended = node.pod("short").status.container_statuses[0].state.terminated
        assert ended is not None
        assert ended.exit_code == 5
        assert len(counted.read_text().splitlines()) == 1, "no container runs twice"
        assert node.pod("long").status.container_statuses[0].container_id == before
        assert node.pod("long").status.container_statuses[0].restart_count == 0
    await node.until(lambda: not (node.root / "containers" / "shim.sock").exists())


def shell(script: str) -> LifecycleHandler:
    return LifecycleHandler(exec=ExecAction(command=("sh", "-c", script)))


async def test_hooks_run_in_the_container_after_its_start_and_before_its_end(node: RealNode) -> None:
    data = "$CATHEDRA_MOUNTS/data"
    script = (
        f"trap 'cat {data}/pre; exit 0' TERM; "
        f"until [ -e {data}/post ]; do sleep 0.02; done; cat {data}/post; sleep 999 & wait"
    )
    container = Container(
        name="c",
        command=("sh", "-c", script),
        volume_mounts=(VolumeMount(name="data", mount_path="/data"),),
        lifecycle=Lifecycle(post_start=shell(f"echo post > {data}/post"), pre_stop=shell(f"echo pre > {data}/pre")),
    )
    await node.run_pod(make_pod("p", container, volumes=(Volume(name="data", empty_dir=EmptyDirVolumeSource()),)))
    await node.until_phase("Running")
    await node.until(lambda: b"post" in b"".join(p.read_bytes() for p in node.root.glob("pods/*/c/0.log")))
    following = asyncio.ensure_future(node.logs(follow="true"))
    await asyncio.sleep(0.1)
    await node.client.resource(PODS, "default").delete("p")
    await node.until(lambda: ("pods", "default", "p") not in node.server.objects)
    assert await following == (200, "post\npre\n")


async def test_probes_decide_who_is_ready_and_who_is_started_again(node: RealNode) -> None:
    data = "$CATHEDRA_MOUNTS/data"
    script = (
        f"trap 'exit 0' TERM; echo run >> {data}/runs; "
        f"[ $(wc -l < {data}/runs) = 1 ] && touch {data}/sick; sleep 999 & wait"
    )
    container = Container(
        name="c",
        command=("sh", "-c", script),
        volume_mounts=(VolumeMount(name="data", mount_path="/data"),),
        liveness_probe=Probe(
            exec=ExecAction(command=("sh", "-c", f"! rm {data}/sick")), period_seconds=1, failure_threshold=1
        ),
        readiness_probe=Probe(exec=ExecAction(command=("sh", "-c", f"[ ! -e {data}/sick ]")), period_seconds=1),
    )
    volumes = (Volume(name="data", empty_dir=EmptyDirVolumeSource()),)
    await node.run_pod(make_pod("p", container, volumes=volumes, restart_policy="Always"))
    await node.until_phase("Running")
    await node.until(lambda: node.pod().status.container_statuses[0].restart_count == 1)
    await node.until(lambda: node.pod().status.container_statuses[0].ready)
    unhealthy = [event.message for event in node.server.events("Unhealthy")]
    assert any(message.startswith("Liveness probe failed") for message in unhealthy)
    assert "Container c failed liveness probe, will be restarted" in {
        event.message for event in node.server.events("Killing")
    }
    await node.client.resource(PODS, "default").delete("p")


async def test_the_health_of_a_device_appears_in_the_status_of_its_pod(place: Path) -> None:
    from cathedra._proto import dra_health_v1_pb2 as health

    node = RealNode(place / "node", "process")
    driver = DriverServer(node.root, DRIVER, versions=("v1.DRAPlugin", "v1.DRAResourceHealth"))
    device = health.DeviceIdentifier(pool_name="n1", device_name="gpu-0")
    report = health.DeviceHealth(device=device, health=health.UNHEALTHY, message="hot")
    driver.reports.append(health.NodeWatchResourcesResponse(devices=[report]))

    def shown() -> list[tuple[str, str, str | None]]:
        statuses = node.pod().status.container_statuses[0].allocated_resources_status
        return [(s.name, r.health or "", r.message) for s in statuses for r in s.resources]

    async with running(node.agent):
        await driver.start()
        await node.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
        await node.run_pod(make_pod("p", Container(name="c", command=FOREVER), claims=["c1"]))
        await node.until_phase("Running")
        await node.until(lambda: shown() == [("claim:c1", "Unhealthy", "hot")])
        await driver.stop()
        await node.until(lambda: shown() == [("claim:c1", "Unknown", None)])


async def test_pod_resources_tell_who_holds_what(place: Path) -> None:
    import grpc.aio

    from cathedra._proto import podresources_v1_pb2 as messages
    from cathedra._proto import podresources_v1_pb2_grpc as services

    node = RealNode(place / "node", "process")
    driver = DriverServer(node.root, DRIVER)
    async with running(node.agent):
        await driver.start()
        await node.client.resource(RESOURCECLAIMS, "default").create(make_claim("c1", "p"))
        await node.run_pod(make_pod("p", Container(name="c", command=FOREVER), claims=["c1"]))
        await node.until_phase("Running")
        async with grpc.aio.insecure_channel(f"unix:{node.root}/pod-resources/kubelet.sock") as channel:
            stub: Any = services.PodResourcesListerStub(channel)
            listed = await stub.List(messages.ListPodResourcesRequest())
            (resource,) = listed.pod_resources[0].containers[0].dynamic_resources
            assert (resource.claim_name, resource.claim_resources[0].device_name) == ("c1", "gpu-0")
            assert resource.claim_resources[0].share_id == "s1"
            with pytest.raises(grpc.aio.AioRpcError, match="pod x in namespace y not found"):
                await stub.Get(messages.GetPodResourcesRequest(pod_name="x", pod_namespace="y"))
    await driver.stop()


@contained
async def test_parts_of_a_volume_are_mounted_and_the_volume_outlives_the_container(node: RealNode) -> None:
    script = "echo new > /logs/file; cat /conf; grep -c ' /logs ' /proc/self/mountinfo"
    mounts = (
        VolumeMount(name="data", mount_path="/logs", sub_path_expr="logs/$(POD)"),
        VolumeMount(name="settings", mount_path="/conf", sub_path="colour"),
    )
    container = Container(
        name="c", command=("sh", "-c", script), volume_mounts=mounts, env=(EnvVar(name="POD", value="p"),)
    )
    await node.client.resource(CONFIGMAPS, "default").create(
        ConfigMap(metadata=ObjectMeta(name="settings"), data={"colour": "blue\n"})
    )
    volumes = (
        Volume(name="data", empty_dir=EmptyDirVolumeSource()),
        Volume(name="settings", config_map=ConfigMapVolumeSource(name="settings")),
    )
    second = Container(name="d", command=FOREVER, volume_mounts=(VolumeMount(name="data", mount_path="/data"),))
    await node.run_pod(make_pod("p", container, second, volumes=volumes))
    await node.until(lambda: any(s.state and s.state.terminated for s in node.pod().status.container_statuses))
    assert await node.logs() == (200, "blue\n1\n")
    home = node.root / "pods" / node.pod().metadata.uid / "volumes"
    assert (home / "kubernetes.io~empty-dir" / "data" / "logs" / "p" / "file").read_text() == "new\n"
    assert not list((node.root / "containers" / "pins").iterdir())
