"""The driver of the kustomize base, with the base's rights and options."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cathedra.cluster.data.datadir import DataDir
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster
from tests.integration.test_beside_kubernetes import as_account, until
from tests.integration.test_parts_alone import Parts, enrolled

BASE = EXAMPLES.parent / "deploy" / "kustomize" / "driver"
DRIVER, NODE, SPACE = "gpu.example.com", "alone", "dra-drivers"
CLAIMING = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers:
  - {name: main, image: host, command: [sh, -c, 'env | grep GPU_DEVICE'], resources: {claims: [{name: gpu}]}}
"""
STRAY = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "stray"},
    "spec": {
        "driver": DRIVER,
        "nodeName": NODE,
        "pool": {"name": "stray", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "stray"}],
    },
}


@dataclass
class Stand:
    """A cluster of one node with the base applied."""

    parts: Parts
    kubectl: Kubectl
    folder: Path
    started: int = 0

    def start(self, *more: str) -> str:
        """Start the driver with the base's options; return its name among the parts."""
        self.started += 1
        name = f"driver-{self.started}"
        places = {"$(NODE_NAME)": NODE, "$(POD_UID)": f"uid-{self.started}", "/var/lib/kubelet": f"{self.folder}/n"}
        options = [*command()[2:], *more]
        for there, here in (
            *places.items(),
            ("/var/run/cdi", f"{self.folder}/n/cdi"),
            ("0.0.0.0:51515", "127.0.0.1:0"),
        ):
            options = [word.replace(there, here) for word in options]
        account = as_account(
            self.kubectl, self.folder, DRIVER, SPACE, "--bound-object-kind=Node", f"--bound-object-name={NODE}"
        )
        self.parts.start_as(name, "driver", account, *options)
        return name

    def stop(self, name: str) -> None:
        assert self.parts.stop(name) == 0, self.parts.log(name)
        assert "Traceback" not in self.parts.log(name), self.parts.log(name)
        self.kubectl("delete", "pod", "user", "--ignore-not-found", "--force")
        self.kubectl("delete", "resourceslices", "--all")


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((BASE / "driver.yaml").read_text()))


def command() -> list[str]:
    daemons = next(one for one in documents() if one["kind"] == "DaemonSet")
    words: list[str] = daemons["spec"]["template"]["spec"]["containers"][0]["command"]
    return words


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="base-") as name, ExitStack() as stack:
        folder = Path(name)
        parts = Parts(folder, stack)
        parts.start("apiserver", f"--data-dir={folder}")
        parts.wait_for("apiserver", "export KUBECONFIG=")
        kubectl = Kubectl(RunningCluster(DataDir(folder), ()))
        kubectl("apply", "-k", str(BASE))
        # Without the controller of DaemonSets: the test runs the driver itself.
        controllers = "--controllers=*,-daemonset-controller"
        parts.start("controller-manager", f"--kubeconfig={folder / 'kubeconfig'}", controllers)
        parts.start("scheduler", f"--kubeconfig={folder / 'kubeconfig'}")
        parts.start("node", f"--node-name={NODE}", f"--root-dir={folder / 'n'}", *enrolled(folder, NODE))
        parts.wait_for("node", f"node {NODE} is Ready")
        yield Stand(parts, kubectl, folder)


def test_the_bases_rights_and_options_are_enough(stand: Stand) -> None:
    stand.kubectl("create", "-f", "-", stdin=json.dumps(STRAY))
    driver = stand.start()
    stand.parts.wait_for(driver, "published 8 devices")
    stand.kubectl("apply", "-f", "-", stdin=CLAIMING)
    stand.kubectl("wait", "pod/user", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    assert "GPU_DEVICE" in stand.kubectl("logs", "user")
    until(lambda: "stray" not in stand.kubectl("get", "resourceslices", "-o", "name"), "the stray slice is left")
    assert "forbidden" not in stand.parts.log(driver)
    stand.stop(driver)
