"""Five processes that know each other only through the API and the plugin sockets: together they are a cluster."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cathedra.client import kubeconfig
from cathedra.cluster.data.datadir import DataDir
from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.etcd import running_etcd

CLAIMING = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec: {selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimName: one}]
  containers:
  - {name: main, image: host, command: [sh, -c, 'env | grep GPU_DEVICE'], resources: {claims: [{name: gpu}]}}
"""


class Parts:
    """Processes of ``cathedra PART``, each with its log."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder, self._stack = folder, stack
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, part: str, *options: str) -> None:
        self.start_as(part, part, *options)

    def start_as(self, name: str, part: str, *options: str) -> None:
        """Start a part of which another runs already, under a name of its own."""
        self.run_command(name, [sys.executable, "-m", "cathedra.cli.main", part, *options])

    def run_command(self, name: str, command: list[str]) -> None:
        """Start a program under a name."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._running[name] = process
        self._stack.callback(self._end, process)

    def wait_for(self, part: str, text: str, seconds: float = 120) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log(part):
            assert self._running[part].poll() is None, self.log(part)
            assert time.monotonic() < deadline, self.log(part)
            time.sleep(0.05)

    def apiserver(self) -> Kubectl:
        """Start an API server on the folder; return a kubectl for it."""
        self.start("apiserver", f"--data-dir={self.folder}")
        self.wait_for("apiserver", "export KUBECONFIG=")
        return Kubectl(RunningCluster(DataDir(self.folder), ()))

    def is_running(self, part: str) -> bool:
        return self._running[part].poll() is None

    def log(self, part: str) -> str:
        return (self.folder / f"{part}.log").read_text()

    def stop(self, part: str) -> int:
        process = self._running.pop(part)
        process.send_signal(signal.SIGTERM)
        return process.wait(120)

    def kill(self, part: str) -> None:
        """End it as a crash does."""
        process = self._running.pop(part)
        process.kill()
        process.wait(120)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            process.terminate()
            process.wait(120)


def enrolled(data: Path, node: str) -> list[str]:
    """The options with which a node starts on the files that an administrator made for it."""
    files = data / "files"
    command = [sys.executable, "-m", "cathedra.cli.main", "enrol", f"--data-dir={data}", f"--node-name={node}"]
    done = subprocess.run([*command, f"--to={files}"], capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    assert f"--tls-cert-file {files / 'kubelet.crt'}" in done.stdout
    return node_options(files)


def node_options(files: Path) -> list[str]:
    """The options of a node that has such files."""
    return [
        f"--kubeconfig={files / 'kubeconfig'}",
        f"--tls-cert-file={files / 'kubelet.crt'}",
        f"--tls-private-key-file={files / 'kubelet.key'}",
        f"--client-ca-file={files / 'client-ca.crt'}",
    ]


def written(command: str, *options: str) -> str:
    """The output of a command that succeeds."""
    called = [sys.executable, "-m", "cathedra.cli.main", command, *options]
    done = subprocess.run(called, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder() -> Iterator[Path]:
    # Unix sockets leave no room for the long names of pytest's own folders.
    with tempfile.TemporaryDirectory(prefix="parts-") as name:
        yield Path(name)


@pytest.mark.parametrize("control", ["kubeconfig", "local.kubeconfig"])
def test_a_pod_gets_its_device_from_five_processes(folder: Path, control: str) -> None:
    """Scheduler and controllers by TLS, or by the socket of an API server on the same machine."""
    with ExitStack() as stack:
        parts = Parts(folder, stack)
        kubectl = parts.apiserver()
        where = f"--kubeconfig={folder / 'kubeconfig'}"
        node = ("--node-name=alone", f"--root-dir={folder / 'n'}")
        # So long that no lease is lost while the API server is away, however busy the machine is.
        elected = (
            f"--kubeconfig={folder / control}",
            "--leader-elect",
            "--leader-elect-lease-duration=10m",
            "--leader-elect-renew-deadline=9m",
        )
        parts.start("controller-manager", *elected)
        parts.start("scheduler", *elected)
        parts.start("node", *node, *enrolled(folder, "alone"))
        parts.wait_for("node", "node alone is Ready")
        parts.start("driver", where, *node, "--gpus=2")
        parts.wait_for("driver", "published 2 devices")

        kubectl("apply", "-f", "-", stdin=CLAIMING)
        kubectl("wait", "pod/user", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
        assert "GPU_DEVICE" in kubectl("logs", "user")
        holders = kubectl("get", "leases", "-n", "kube-system", "-o", "jsonpath={.items[*].metadata.name}").split()
        assert {"kube-controller-manager", "kube-scheduler"} <= set(holders)

        # The scheduler goes, another one takes over without waiting for the lease to run out.
        assert parts.stop("scheduler") == 0
        parts.start("scheduler", *elected)
        # And the API server is killed; the parts go on with the next one.
        parts.kill("apiserver")
        parts.start_as("second apiserver", "apiserver", f"--data-dir={folder}")
        parts.wait_for("second apiserver", "export KUBECONFIG=")
        kubectl("delete", "pod", "user")
        kubectl("apply", "-f", "-", stdin=CLAIMING)
        kubectl("wait", "pod/user", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
        for part in ("driver", "node", "scheduler", "controller-manager", "second apiserver"):
            assert parts.stop(part) == 0, parts.log(part)
            assert "Traceback" not in parts.log(part), parts.log(part)


def test_a_node_joins_and_a_driver_gets_its_token_while_the_first_of_two_servers_is_down(folder: Path) -> None:
    with ExitStack() as stack:
        etcd = stack.enter_context(running_etcd(folder / "etcd"))
        parts = Parts(folder, stack)
        first, second = folder / "first", folder / "second"
        for data in (first, second):
            parts.start_as(data.name, "apiserver", f"--data-dir={data}", f"--store={etcd.url}")
            parts.wait_for(data.name, "export KUBECONFIG=")
            if data is first:
                shutil.copytree(first / "pki", second / "pki")
        servers = [f"--server={kubeconfig.load(data / 'kubeconfig').server}" for data in (first, second)]
        parts.kill("first")

        # From the files of either server.
        for data in (first, second):
            written("enrol", f"--data-dir={data}", "--node-name=n1", f"--to={folder / 'files'}", *servers)
        node = ("--node-name=n1", f"--root-dir={folder / 'n'}")
        parts.start("node", *node, *node_options(folder / "files"))
        parts.wait_for("node", "node n1 is Ready")

        # The data directory's own server is the one that is down.
        made = written("kubeconfig", f"--data-dir={first}", "--for=driver:gpu.example.com@n1", *servers)
        (folder / "driver.kubeconfig").write_text(made)
        parts.start("driver", f"--kubeconfig={folder / 'driver.kubeconfig'}", *node, "--gpus=2")
        parts.wait_for("driver", "published 2 devices")
