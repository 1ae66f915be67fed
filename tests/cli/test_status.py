"""``cathedra status`` at the widths at which people see it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Shell
from tests.requirements import kubectl_path

FAULTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec:
  deviceSelector: {driver: gpu.example.com, pool: node-0, device: gpu-1}
  taint: {key: example.com/broken, effect: NoSchedule}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: by-hand}
spec:
  driver: other.example.com
  nodeName: node-0
  pool: {name: other, generation: 1, resourceSliceCount: 1}
  devices: [{name: dev-0}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: unregistered}
spec: {selectors: [{cel: {expression: device.driver == "other.example.com"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: unpublished}
spec: {selectors: [{cel: {expression: device.driver == "absent.example.com"}}]}
"""
"""A device that a rule taints, one whose driver no node knows, and a class whose driver has no devices at all."""
CONSUMER = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {{name: {name}}}
spec: {{spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: {name}}}}}]}}}}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  resourceClaims: [{{name: c, resourceClaimTemplateName: {name}}}]
  containers: [{{name: c, image: debian, command: [sleep, "600"], resources: {{claims: [{{name: c}}]}}}}]
"""
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A cluster on which some pods run and some wait."""
    kubectl = kubectl_path()  # without it the tests are skipped before anything is started
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell("up", "--detach", "--nodes=1", "--gpus=2", "--runtime=process")
    faults = shell.home / "faults.yaml"
    names = ("unregistered", "unpublished", "misspelt")
    faults.write_text(FAULTS + "".join(CONSUMER.format(name=name) for name in names))
    folders = (EXAMPLES / "pending-pods", EXAMPLES / "shared-claim", faults)
    command = [kubectl, "apply", *(word for folder in folders for word in ("-f", str(folder)))]
    subprocess.run(command, env=shell.environment, check=True, capture_output=True)
    deadline = time.monotonic() + 120
    while "not registered" not in reasons(shell).get("unregistered", "") or "2 Running" not in shell("status"):
        assert time.monotonic() < deadline, shell("status")
        time.sleep(0.2)
    yield shell
    shell("delete")


def reasons(shell: Shell) -> dict[str, str]:
    """Pod → why it waits."""
    rows = json.loads(shell("status", "-o", "json"))["pods"]
    return {row["name"]: row["why"] for row in rows if row["why"]}


@pytest.mark.parametrize("columns", [80, 160])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(waiting: Shell, columns: int) -> None:
    lines = waiting.on_a_terminal(columns, "status").lines
    body = lines[next(i for i, line in enumerate(lines) if line.startswith("Nodes")) :]
    assert max(map(len, map(str.rstrip, body))) <= columns
    text = "\n".join(body)
    for word in ("bypasses-the-scheduler", "unsatisfiable-claim", "never-allocated", "gpu.example.com/node-0/gpu-0"):
        assert word in text


def test_each_pending_pod_has_its_cause(waiting: Shell) -> None:
    said = reasons(waiting)
    assert said["missing-claim"] == "claim 'nobody-made-this' does not exist in namespace 'default'"
    assert said["unsatisfiable-claim"] == "request 'gpu' needs 1 device: 0 of 2 devices match its selectors"
    assert said["bypasses-the-scheduler"].startswith(
        "claim 'never-allocated' is not allocated: only the scheduler allocates claims"
    )
    assert said["unregistered"].endswith("DRA driver other.example.com is not registered")
    assert said["unpublished"].startswith(
        "no devices of driver 'absent.example.com' (class 'unpublished') are published"
    )
    assert said["misspelt"].startswith("device class 'misspelt' of template 'misspelt' does not exist; known: gpu.")
    piped = waiting("status")
    assert all(f"    {why}\n" in piped for why in said.values())
    assert "\x1b" not in piped
    assert [line for line in piped.splitlines() if line != line.rstrip()] == []


def test_a_device_that_only_a_rule_taints_is_not_shown_as_free(waiting: Shell) -> None:
    shown = json.loads(waiting("status", "-o", "json"))
    states = {row["name"]: row["state"] for row in shown["devices"]}
    assert states == {"gpu-0": "allocated", "gpu-1": "tainted", "dev-0": "allocated"}
    assert (shown["nodes"][0]["tainted"], shown["nodes"][0]["free"]) == (1, 0)
    assert "  node-0/gpu-1: tainted: example.com/broken:NoSchedule" in waiting.on_a_terminal(80, "status").lines


def test_a_namespace_narrows_claims_and_pods_only(waiting: Shell) -> None:
    shown = json.loads(waiting("status", "-n", "kube-system", "-o", "json"))
    assert (shown["claims"], shown["pods"], len(shown["devices"])) == ([], [], 3)


def test_watching_shows_what_changes(waiting: Shell) -> None:
    command = [sys.executable, "-m", "cathedra.cli.main", "status", "-w", "-o", "json", "-n", "watched"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, env=waiting.environment, text=True)
    assert following.stdout is not None
    try:
        assert json.loads(following.stdout.readline())["claims"] == []
        kubectl = [kubectl_path(), "--namespace=watched"]
        subprocess.run([kubectl_path(), "create", "namespace", "watched"], env=waiting.environment, check=True)
        manifest = str(EXAMPLES / "shared-claim" / "resourceclaim.yaml")
        subprocess.run([*kubectl, "apply", "-f", manifest], env=waiting.environment, check=True)
        assert [row["name"] for row in json.loads(following.stdout.readline())["claims"]] == ["shared-gpu"]
    finally:
        following.terminate()
        following.communicate(timeout=150)


def test_watching_ends_with_the_cluster(cathedra: Shell) -> None:
    cathedra("up", "dev", "--detach", "--nodes=1", "--gpus=1", "--runtime=process")
    command = [sys.executable, "-m", "cathedra.cli.main", "status", "dev", "-w", "-o", "json"]
    following = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=cathedra.environment, text=True
    )
    assert following.stdout is not None
    assert json.loads(following.stdout.readline())["nodes"]
    cathedra("down", "dev")
    _, error = following.communicate(timeout=150)
    assert (following.returncode, error.count("\n")) == (1, 1), error
    assert error.endswith(" has stopped\n")
