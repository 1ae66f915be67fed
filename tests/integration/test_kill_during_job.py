"""The whole cluster is killed in the middle of a job, again and again; the job must not notice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cathedra.node.claims.checkpoint import FileCheckpoint
from tests.integration.conftest import Kubectl, RunningCluster

COMPLETIONS = 8

HOLD = """
for gpu in $(env | sed -n 's/^GPU_DEVICE_[0-9]*=//p'); do
  exec 9>{folder}/$gpu.lock
  flock -n 9 || {{ echo held twice > {folder}/$HOSTNAME.conflict; exit 7; }}
  sleep 0.4
  echo $gpu >> {folder}/held
done
"""


def manifests(folder: Path) -> str:
    """A job whose containers lock the devices they got, so that a second holder is noticed by the kernel."""
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "any-gpu"}}]
    container = {
        "name": "main",
        "image": "host",
        "command": ["sh", "-c", HOLD.format(folder=folder)],
        "resources": {"claims": [{"name": "gpu"}]},
        "volumeMounts": [{"name": "locks", "mountPath": str(folder)}],
    }
    pod = {
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "containers": [container],
        "volumes": [{"name": "locks", "hostPath": {"path": str(folder)}}],
    }
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "any-gpu"},
            "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "one-gpu"},
            "spec": {"spec": {"devices": {"requests": requests}}},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "train"},
            "spec": {"completions": COMPLETIONS, "parallelism": 3, "template": {"spec": pod}},
        },
    ]
    return yaml.safe_dump_all(documents)


@pytest.fixture
def cluster(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """Fewer devices than pods that want one."""
    return start_cluster("--nodes=1", "--gpus=2")


def kill(cluster: RunningCluster) -> None:
    """SIGKILL for the process that is the whole cluster."""
    holder = cluster.data.holder()
    assert holder is not None
    os.kill(holder, signal.SIGKILL)
    while cluster.data.holder() is not None:
        time.sleep(0.01)


def claims(kubectl: Kubectl) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(kubectl("get", "resourceclaims", "-o", "json"))["items"]
    return found


def assert_every_device_has_one_claim(kubectl: Kubectl) -> None:
    held = Counter(
        (result["driver"], result["pool"], result["device"])
        for claim in claims(kubectl)
        for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    )
    assert all(count == 1 for count in held.values()), held


def succeeded(kubectl: Kubectl) -> int:
    job = json.loads(kubectl("get", "job", "train", "-o", "json"))
    return int(job["status"].get("succeeded", 0))


def has_succeeded(kubectl: Kubectl, wanted: int) -> bool:
    return succeeded(kubectl) >= wanted


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_a_job_completes_although_the_cluster_is_killed_three_times(cluster: RunningCluster, tmp_path: Path) -> None:
    kubectl = Kubectl(cluster)
    kubectl("apply", "-f", "-", stdin=manifests(tmp_path))
    for done in (0, 2, 5):
        wait_for(partial(has_succeeded, kubectl, done), f"{done} pods succeed")
        wait_for(lambda: bool(claims(kubectl)), "a claim exists")
        kill(cluster)
        cluster.up()
        assert_every_device_has_one_claim(kubectl)
    wait_for(lambda: succeeded(kubectl) == COMPLETIONS, "the job completes")
    assert not list(tmp_path.glob("*.conflict")), "a device was held twice"
    assert len((tmp_path / "held").read_text().split()) >= COMPLETIONS

    # Finished pods give their claims back; nothing stays prepared on the node.
    wait_for(lambda: not claims(kubectl), "the claims go")
    node = cluster.data.path / "nodes" / "node-0"
    wait_for(lambda: not list((node / "cdi").glob("*claim*")), "no CDI document is left")
    assert not FileCheckpoint(node / "dra_manager_state").load()
