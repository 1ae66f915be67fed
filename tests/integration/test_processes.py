"""A cluster in several processes: it does what one process does, and survives the loss of any of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.test_kill_during_job import kill, wait_for

USER = "cathedra.cluster.processes.child"


def children(pid: int) -> list[int]:
    """The processes of a cluster beside the first, in the order of their start."""
    listed = (Path(f"/proc/{pid}/task/{thread}/children") for thread in os.listdir(f"/proc/{pid}/task"))
    found = [int(child) for file in listed for child in file.read_text().split()]
    return [child for child in sorted(found) if USER in Path(f"/proc/{child}/cmdline").read_text()]


def first(cluster: RunningCluster) -> int:
    holder = cluster.data.holder()
    assert holder is not None
    return holder


def alive(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def run_pod(kubectl: Kubectl, name: str) -> None:
    """A pod with a claim from a template comes as far as Running."""
    kubectl("apply", "-f", "-", stdin=POD.format(name=name))
    kubectl("wait", "--for=jsonpath={.status.phase}=Running", f"pod/{name}", "--timeout=120s", timeout=150)


POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{{name: gpu, resourceClaimTemplateName: one-gpu}}]
  containers:
  - {{name: main, image: host, command: [sleep, "600"], resources: {{claims: [{{name: gpu}}]}}}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: any-gpu}}
spec: {{selectors: [{{cel: {{expression: 'device.driver == "gpu.example.com"'}}}}]}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: one-gpu}}
spec: {{spec: {{devices: {{requests: [{{name: gpu, exactly: {{deviceClassName: any-gpu}}}}]}}}}}}
"""


@pytest.mark.parametrize(("processes", "others"), [(2, 1), (3, 2)])
def test_any_process_may_be_killed(processes: int, others: int, start_cluster: Callable[..., RunningCluster]) -> None:
    cluster = start_cluster("--nodes=2", "--gpus=4", "--runtime=simulated", f"--processes={processes}")
    kubectl = Kubectl(cluster)
    started = children(first(cluster))
    assert len(started) == others
    run_pod(kubectl, "before")
    for victim in started:
        os.kill(victim, signal.SIGKILL)
    run_pod(kubectl, "after-children")
    wait_for(lambda: len(children(first(cluster))) == others, "every child is started again")
    assert "was ended by SIGKILL; it is started again" in cluster.data.log.read_text()
    running = children(first(cluster))
    kill(cluster)
    wait_for(lambda: not alive(running), "no child outlives the first process")
    cluster.up()
    run_pod(kubectl, "after-all")
    assert "before" in kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name")
    running = children(first(cluster))
    assert len(running) == others
    cluster.down()
    assert alive(running) == []
    assert not (cluster.data.path / "api.sock").exists()


def test_nodes_in_another_process_are_measured_and_leave(start_cluster: Callable[..., RunningCluster]) -> None:
    cluster = start_cluster("--nodes=2", "--gpus=4", "--runtime=simulated", "--processes=3")
    kubectl = Kubectl(cluster)
    run_pod(kubectl, "p")
    wait_for(lambda: kubectl.run("top", "pod", "p").returncode == 0, "figures come from the process of the nodes")
    cluster.down()
    fewer = RunningCluster(cluster.data, ("--nodes=1",))
    fewer.up()
    names = kubectl("get", "nodes", "-o", "name").split()
    fewer.down()
    assert names == ["node/node-0"]


def test_what_a_part_cannot_do_ends_the_start_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("a file in the way of the nodes' directories\n")
    command = [sys.executable, "-m", "cathedra.cli.main", "up", "--no-merge", "--processes=3"]
    command += ["--runtime=process", f"--data-dir={tmp_path}"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert refused.returncode == 2, refused.stderr
    assert "nodes" in refused.stderr.splitlines()[-1]
    assert "Traceback" not in refused.stderr


def test_ctrl_c_ends_all_processes_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "cathedra.cli.main", "up", "--no-merge", "--processes=3"]
    command += ["--runtime=simulated", f"--data-dir={tmp_path}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as cluster:
        assert cluster.stderr is not None
        said = []
        for line in cluster.stderr:
            said.append(line)
            if line.startswith("ready in"):
                os.killpg(cluster.pid, signal.SIGINT)  # as a terminal does
        assert cluster.wait(60) == 0, said
    assert said[-1] == "stopped\n"
    assert not (tmp_path / "api.sock").exists()
