"""Devices behind a switch in a cluster of processes: attached, kept over a crash of the controller, detached."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from cathedra.cluster.data.datadir import short_root
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster
from tests.integration.test_parts_alone import Parts

SWITCH = "switch.example.com"
SLOW = "600"
"""Seconds that attaching takes where it is to be interrupted."""


def test_a_device_that_was_being_attached_when_its_controller_died_is_attached_by_the_next(
    start_cluster: Callable[..., RunningCluster], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = start_cluster("--nodes=1", "--gpus=0")
    kubectl = Kubectl(cluster)
    connected = tmp_path / "switch.json"
    monkeypatch.chdir(EXAMPLES / "drivers")
    monkeypatch.setenv("SWITCH", str(connected))
    api = f"--kubeconfig={cluster.kubeconfig}"
    with ExitStack() as stack:
        parts = Parts(tmp_path, stack)
        root = short_root(cluster.data.path) / "nodes" / "node-0"
        parts.start("driver", api, "--module=switch:Switch", "--node-name=node-0", f"--root-dir={root}")
        monkeypatch.setenv("SWITCH_SECONDS", SLOW)
        parts.start_as("first", "driver-fabric", "switch:Switch", api)
        parts.wait_for("first", "leading, published 4 devices in 1 slice")
        monkeypatch.setenv("SWITCH_SECONDS", "0")
        parts.start_as("second", "driver-fabric", "switch:Switch", api)
        parts.wait_for("second", "waiting to lead")

        kubectl("apply", "-f", str(EXAMPLES / "drivers" / "switch-pod.yaml"))
        finalizers = ("get", "resourceclaims", "-o", "jsonpath={.items[*].metadata.finalizers}")
        deadline = time.monotonic() + 120
        while f"{SWITCH}/attached" not in kubectl(*finalizers):
            assert time.monotonic() < deadline, parts.log("first")
        assert not connected.exists()
        parts.kill("first")

        kubectl("wait", "--for=condition=Ready", "pod/training", "--timeout=120s")
        assert kubectl("logs", "training") == "gpu-0@node-0\n"
        assert json.loads(connected.read_text()) == {"gpu-0": "node-0"}
        assert "leading, published 4 devices in 1 slice" in parts.log("second")

        kubectl("delete", "pod", "training", "--grace-period=1")
        kubectl("wait", "--for=delete", "resourceclaim", "--all", "--timeout=60s")
        assert json.loads(connected.read_text()) == {}
