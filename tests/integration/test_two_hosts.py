"""Two hosts: a control plane in one network namespace, a node with its driver in another; a cable between them.

Every part has a kubeconfig of its own, and the scheduler is started before its API server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.test_parts_alone import CLAIMING, Parts
from tests.requirements import kubectl_path, root

CONTROL, WORKER = "10.231.77.1", "10.231.77.2"
CATHEDRA = (sys.executable, "-m", "cathedra.cli.main")


@dataclass(frozen=True)
class Host:
    """A network namespace with an address on the cable."""

    namespace: str
    address: str

    def words(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *words]

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*words), capture_output=True, text=True, timeout=150, check=False)


class HostParts(Parts):
    """Processes of parts, each on its host."""

    def start_on(self, host: Host, part: str, *options: str) -> None:
        self.run_command(part, host.words(*CATHEDRA, part, *options))


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=150, check=False)
    if done.returncode != 0:
        pytest.skip(f"network namespaces cannot be made here: ip {' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    root()
    mark = f"{os.getpid() % 100_000}"
    found = (Host(f"cathedra-a-{mark}", CONTROL), Host(f"cathedra-b-{mark}", WORKER))
    ends = (f"cta{mark}", f"ctb{mark}")
    with ExitStack() as stack:
        for host in found:
            ip("netns", "add", host.namespace)
            stack.callback(subprocess.run, ["ip", "netns", "delete", host.namespace], check=False)
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in zip(found, ends, strict=True):
            ip("link", "set", end, "netns", host.namespace)
            ip("-n", host.namespace, "address", "add", f"{host.address}/24", "dev", end)
            ip("-n", host.namespace, "link", "set", end, "up")
            ip("-n", host.namespace, "link", "set", "lo", "up")
        yield found


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hosts-") as name:
        yield Path(name)


def test_a_pod_gets_its_device_on_another_host(hosts: tuple[Host, Host], folder: Path) -> None:
    control, worker = hosts
    with ExitStack() as stack:
        parts = HostParts(folder, stack)
        serve = (f"--data-dir={folder}", "--bind-address=0.0.0.0", f"--advertise-address={CONTROL}")
        parts.start_on(control, "apiserver", *serve, "--tls-san=api.test")
        parts.wait_for("apiserver", f"API server https://{CONTROL}:")
        parts.wait_for("apiserver", "export KUBECONFIG=")

        def kubeconfig(part: str) -> str:
            file = folder / f"{part.partition(':')[0]}.kubeconfig"
            words = (*CATHEDRA, "kubeconfig", f"--data-dir={folder}", f"--for={part}")
            file.write_text(subprocess.run(control.words(*words), capture_output=True, text=True, check=True).stdout)
            return f"--kubeconfig={file}"

        scheduler, controllers = kubeconfig("scheduler"), kubeconfig("controller-manager")
        assert parts.stop("apiserver") == 0
        parts.start_on(control, "scheduler", scheduler)
        parts.wait_for("scheduler", f"waiting for the API server at https://{CONTROL}:")
        parts.start_on(control, "apiserver", *serve, "--tls-san=api.test")
        parts.wait_for("scheduler", f"the API server at https://{CONTROL}:")
        parts.start_on(control, "controller-manager", controllers, "--use-service-account-credentials")

        files = folder / "files"
        enrol = (*CATHEDRA, "enrol", f"--data-dir={folder}", "--node-name=far", f"--address={WORKER}", f"--to={files}")
        assert control.run(*enrol).returncode == 0
        node = ("--node-name=far", f"--root-dir={folder / 'n'}")
        parts.start_on(
            worker,
            "node",
            *node,
            f"--kubeconfig={files / 'kubeconfig'}",
            "--address=0.0.0.0",
            f"--node-ip={WORKER}",
            f"--tls-cert-file={files / 'kubelet.crt'}",
            f"--tls-private-key-file={files / 'kubelet.key'}",
            f"--client-ca-file={files / 'client-ca.crt'}",
            "--healthz-port=10248",
            "--rotate-certificates",
            "--rotate-server-certificates",
        )
        parts.wait_for("node", "node far is Ready")
        driver = kubeconfig("driver:gpu.example.com@far")
        parts.start_on(worker, "driver", driver, *node, "--gpus=2", "--http-endpoint=127.0.0.1:8080")
        parts.wait_for("driver", "published 2 devices")
        parts.wait_for("driver", "registered with the kubelet at")

        admin = kubeconfig("admin").removeprefix("--kubeconfig=")

        def kubectl(*words: str) -> str:
            done = control.run(kubectl_path(), f"--kubeconfig={admin}", *words)
            assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
            return done.stdout

        manifest = folder / "claiming.yaml"
        manifest.write_text(CLAIMING.replace("env | grep GPU_DEVICE", "env | grep GPU_DEVICE; sleep 600"))
        kubectl("apply", "-f", str(manifest))
        kubectl("wait", "pod/user", "--for=condition=Ready", "--timeout=120s")
        # From the control plane to the node: the API server checks the node's certificate and shows its own.
        assert "GPU_DEVICE" in kubectl("logs", "user")
        assert kubectl("exec", "user", "--", "echo", "over the cable") == "over the cable\n"
        assert kubectl("get", "node", "far", "-o", "jsonpath={.status.addresses[0].address}") == WORKER

        def fetch(url: str) -> str:
            program = f"import urllib.request; print(urllib.request.urlopen('{url}').read().decode())"
            return worker.run(sys.executable, "-c", program).stdout

        assert fetch("http://127.0.0.1:10248/healthz") == "ok\n"
        assert fetch("http://127.0.0.1:8080/readyz") == "ok\n"
        assert 'dra_driver_prepare_claims_total{result="success"} 1' in fetch("http://127.0.0.1:8080/metrics")
        kubectl("delete", "pod", "user", "--now")
        for part in ("driver", "node", "scheduler", "controller-manager", "apiserver"):
            assert parts.stop(part) == 0, parts.log(part)
            assert "Traceback" not in parts.log(part), parts.log(part)
