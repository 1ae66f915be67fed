"""Logs, exec, attach, cp, port-forward and run, with the real kubectl; streams with Python's clients too."""

from __future__ import annotations

import asyncio
import base64
import os
import pty
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import aiohttp
import kr8s
import kubernetes
import kubernetes.stream
import pytest

from tests.integration.conftest import Kubectl, RunningCluster
from tests.requirements import oldest_kubectl

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: debian
    command: [sh, -c, "trap 'exit 0' TERM; for i in 1 2 3; do echo line $i; done; echo oops >&2; sleep 600 & wait"]
  - name: crash
    image: debian
    command: [sh, -c, "echo run; exit 1"]
  - name: web
    image: python
    command: [python3, -m, http.server, --bind, 127.0.0.1, --directory, /, "{port}"]
"""


@pytest.fixture(scope="module")
def port() -> int:
    """A port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found: int = probe.getsockname()[1]
        return found


@pytest.fixture(scope="module")
def kubectl(start_cluster: Callable[..., RunningCluster], port: int) -> Iterator[Kubectl]:
    """A cluster with one pod that runs."""
    found = Kubectl(start_cluster("--nodes=1", "--gpus=1"))
    found("apply", "-f", "-", stdin=POD.format(port=port))
    found("wait", "--for=jsonpath={.status.containerStatuses[0].ready}=true", "pod/p", "--timeout=120s")
    yield found
    found("delete", "pod", "p", "--now")


@pytest.fixture(params=["websocket", "spdy", "oldest"])
def speaking(kubectl: Kubectl, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl as from 1.31 on; with the variables that turn the newer protocol off; and the oldest that is here."""
    if request.param == "websocket":
        return kubectl
    if request.param == "oldest":
        return kubectl.with_program(oldest_kubectl())
    return kubectl.with_variables(KUBECTL_REMOTE_COMMAND_WEBSOCKETS="false", KUBECTL_PORT_FORWARD_WEBSOCKETS="false")


def test_logs_show_what_is_asked_for(kubectl: Kubectl) -> None:
    assert kubectl("logs", "p", "-c", "c").splitlines()[:3] == ["line 1", "line 2", "line 3"]
    assert len(kubectl("logs", "p", "-c", "c", "--tail=2").splitlines()) == 2
    assert kubectl("logs", "p", "-c", "c", "--limit-bytes=4") == "line"
    stamped = kubectl("logs", "p", "-c", "c", "--timestamps").splitlines()[0]
    assert stamped[:2] == "20"
    assert stamped.endswith("Z line 1")
    assert kubectl("logs", "p", "-c", "c", "--since=1h").count("line") == 3
    assert kubectl("logs", "p", "-c", "c", "--since-time=2999-01-01T00:00:00Z") == ""


def test_logs_are_followed(kubectl: Kubectl) -> None:
    following = kubectl.start("logs", "-f", "p", "-c", "c")
    assert following.stdout is not None
    assert following.stdout.readline() == "line 1\n"
    following.terminate()
    following.communicate()


def test_logs_of_a_container_that_crashed_are_kept(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=jsonpath={.status.containerStatuses[1].restartCount}=1", "pod/p", "--timeout=120s")
    assert kubectl("logs", "p", "-c", "crash", "--previous") == "run\n"
    failed = kubectl.run("logs", "p", "-c", "c", "--previous")
    assert failed.returncode == 1
    assert 'previous terminated container "c" in pod "p" not found' in failed.stderr


def test_exec_in_a_container_that_does_not_run_says_so(speaking: Kubectl) -> None:
    speaking("wait", "--for=jsonpath={.status.containerStatuses[1].restartCount}=1", "pod/p", "--timeout=120s")
    # A kubectl that reads before it has made its streams drops what comes first, and prints that.
    attempts = (speaking.run("exec", "p", "-c", "crash", "--", "true") for _ in range(50))
    failed = next(attempt for attempt in attempts if "Unknown stream id" not in attempt.stderr)
    assert failed.returncode == 1
    assert 'container not found ("crash")' in failed.stderr


def test_exec_hands_on_input_output_and_exit_code(speaking: Kubectl) -> None:
    assert speaking("exec", "-i", "p", "-c", "c", "--", "cat", stdin="x" * 100_000) == "x" * 100_000
    failed = speaking.run("exec", "p", "-c", "c", "--", "sh", "-c", "echo out; echo err >&2; exit 42")
    assert (failed.returncode, failed.stdout) == (42, "out\n")
    assert failed.stderr.startswith("err\n")


def test_exec_with_a_terminal_knows_its_size(speaking: Kubectl) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(["stty", "rows", "27", "cols", "91"], stdin=theirs, check=True)
    words = ("exec", "-it", "p", "-c", "c", "--", "sh", "-c", "sleep 0.5; stty size; exit 3")
    done = subprocess.Popen(
        [speaking.program, *words], env=speaking.environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    assert done.wait(120) == 3
    assert b"27 91" in os.read(ours, 10_000)
    os.close(ours)


def test_files_are_copied_in_and_out(speaking: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(range(256)) * 1000)
    place = f"/tmp/cathedra-{os.getpid()}"
    speaking("cp", str(tmp_path / "in"), f"p:{place}", "-c", "c")
    speaking("cp", f"p:{place}", str(tmp_path / "out"), "-c", "c")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
    speaking("exec", "p", "-c", "c", "--", "rm", place)


def test_ports_are_forwarded(speaking: Kubectl, port: int) -> None:
    forwarding = speaking.start("port-forward", "p", f":{port}")
    assert forwarding.stdout is not None
    try:
        ours = forwarding.stdout.readline().split("127.0.0.1:")[1].split(" ")[0]
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{ours}/usr/bin/", timeout=150) as answer:
                assert len(answer.read()) > 1000
    finally:
        forwarding.terminate()
        forwarding.communicate()


def test_run_carries_input_to_the_first_process_and_its_exit_code_back(speaking: Kubectl) -> None:
    script = "read line; echo got $line; exit 3"
    words = ("run", "-i", "--rm", "--restart=Never", "r", "--image=debian", "--command", "--", "sh", "-c", script)
    done = speaking.run(*words, stdin="hello\n")
    assert done.returncode == 3
    assert "got hello" in done.stdout


def test_attach_shows_what_is_written_from_now_on(speaking: Kubectl) -> None:
    speaking("run", "ticker", "--image=debian", "--command", "--", "sh", "-c", "while :; do echo tick; sleep 0.1; done")
    speaking("wait", "--for=condition=Ready", "pod/ticker", "--timeout=120s")
    attached = speaking.start("attach", "ticker")
    assert attached.stdout is not None
    seen = [attached.stdout.readline() for _ in range(3)]
    assert "tick\n" in seen
    attached.terminate()
    attached.communicate()
    speaking("delete", "pod", "ticker", "--now")


def test_debug_puts_a_container_into_the_running_pod(speaking: Kubectl) -> None:
    script = "read line; echo got $line"
    done = speaking.run(
        "debug", "-i", "p", "--image=debian", "--container=dbg", "--", "sh", "-c", script, stdin="a bug\n"
    )
    assert done.returncode == 0, done.stderr
    speaking("wait", "--for=jsonpath={.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0", "pod/p")
    assert speaking("logs", "p", "-c", "dbg") == "got a bug\n"


def test_top_shows_what_the_pod_uses(kubectl: Kubectl) -> None:
    header, (node, cores, *_) = (line.split() for line in kubectl("top", "nodes").splitlines())
    assert header[:3] == ["NAME", "CPU(cores)", "CPU(%)"]
    assert f"node/{node}" == kubectl("get", "nodes", "-o", "name").strip()
    assert cores.endswith("m")
    _, *containers = (line.split() for line in kubectl("top", "pod", "p", "--containers").splitlines())
    assert {"c", "web"} <= {name for _, name, _, _ in containers}


def test_a_raw_request_reaches_the_nodes_agent(kubectl: Kubectl) -> None:
    node = kubectl("get", "nodes", "-o", "name").strip().removeprefix("node/")
    assert kubectl("get", "--raw", f"/api/v1/nodes/{node}/proxy/healthz") == "ok"


def test_the_official_client_runs_commands_and_forwards_ports(kubectl: Kubectl, port: int) -> None:
    configured = kubernetes.config.new_client_from_config(kubectl.environment["KUBECONFIG"])
    api = kubernetes.client.CoreV1Api(configured)
    command = ["sh", "-c", "echo out; exit 3"]
    stream = kubernetes.stream.stream(
        api.connect_get_namespaced_pod_exec,
        "p",
        "default",
        container="c",
        command=command,
        stdout=True,
        stderr=True,
        _preload_content=False,
    )
    stream.run_forever(timeout=120)
    assert (stream.read_stdout(), stream.returncode) == ("out\n", 3)
    forward = kubernetes.stream.portforward(api.connect_get_namespaced_pod_portforward, "p", "default", ports=str(port))
    connection = forward.socket(port)
    connection.settimeout(120)
    connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
    with connection.makefile("rb") as answer:  # to its end: the client's thread fails on a socket that was closed early
        assert answer.read().startswith(b"HTTP/1.0 200 OK")


async def test_kr8s_which_offers_no_sub_protocol_forwards_ports(kubectl: Kubectl, port: int) -> None:
    api = await kr8s.asyncio.api(kubeconfig=kubectl.environment["KUBECONFIG"])
    pod = await kr8s.asyncio.objects.Pod.get("p", namespace="default", api=api)
    async with asyncio.timeout(120), pod.portforward(port, local_port="auto") as ours:
        reader, writer = await asyncio.open_connection("127.0.0.1", ours)
        writer.write(b"HEAD / HTTP/1.0\r\n\r\n")
        assert await reader.readexactly(15) == b"HTTP/1.0 200 OK"
        writer.close()


@pytest.mark.parametrize("protocol", ["channel.k8s.io", "base64.channel.k8s.io", "v4.base64.channel.k8s.io", None])
async def test_older_sub_protocols_pass_through_the_api_server(kubectl: Kubectl, protocol: str | None) -> None:
    proxy = kubectl.start("proxy", "--port=0", "--reject-paths=^$")
    assert proxy.stdout is not None
    try:
        address = proxy.stdout.readline().split()[-1]
        url = f"ws://{address}/api/v1/namespaces/default/pods/p/exec?container=c&command=echo&command=x&stdout=1"
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(url, protocols=(protocol,) if protocol else ()) as socket,
        ):
            assert socket.protocol == protocol
            messages = [message.data async for message in socket]
    finally:
        proxy.terminate()
        proxy.communicate()
    if "base64" in (protocol or ""):
        messages = [bytes([ord(text[0]) - 48]) + base64.b64decode(text[1:]) for text in messages]
    assert messages[0] == b"\x01"
    assert b"\x01x\n" in messages
