"""An operator written with kopf, unchanged: it watches custom resources, keeps its finalizer, patches, adopts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Kubectl, RunningCluster

OPERATOR = textwrap.dedent(
    """
    import kopf

    @kopf.on.startup()
    def quiet(settings, **_):
        settings.posting.level = 30
        settings.watching.server_timeout = 60

    @kopf.on.create("d.example.com", "v1", "boxes")
    def created(spec, name, namespace, patch, **_):
        child = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-child", "namespace": namespace},
            "data": {"size": str(spec["size"])},
        }
        kopf.adopt(child)
        patch.status["child"] = child["metadata"]["name"]
        patch.metadata.annotations["example.com/child"] = json_of(child)
        return {"size": spec["size"]}

    @kopf.on.update("d.example.com", "v1", "boxes", field="spec.size")
    def resized(old, new, patch, **_):
        patch.status["resized"] = f"{old} to {new}"

    @kopf.on.delete("d.example.com", "v1", "boxes")
    def deleted(name, **_):
        print(f"farewell {name}", flush=True)

    def json_of(value):
        import json

        return json.dumps(value["metadata"]["ownerReferences"][0]["kind"])
    """
)
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boxes.d.example.com"},
    "spec": {
        "group": "d.example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """A cluster without nodes."""
    return start_cluster("--nodes=0")


@pytest.fixture
def operator(cluster: RunningCluster, tmp_path: Path) -> Iterator[Path]:
    """The operator at work; what it prints is in the file."""
    (tmp_path / "operator.py").write_text(OPERATOR)
    log = tmp_path / "log"
    command = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--namespace=default",
        "--standalone",
        str(tmp_path / "operator.py"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
        )
    yield log
    process.terminate()
    process.wait(120)


def box(size: int) -> str:
    return json.dumps(
        {"apiVersion": "d.example.com/v1", "kind": "Box", "metadata": {"name": "b"}, "spec": {"size": size}}
    )


def eventually(what: Callable[[], bool], log: Path, seconds: float = 120) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def test_an_operator_follows_its_resources(cluster: RunningCluster, operator: Path) -> None:
    kubectl = Kubectl(cluster)
    kubectl("apply", "-f", "-", stdin=json.dumps(CRD))
    kubectl("wait", "--for=condition=Established", "crd/boxes.d.example.com", "--timeout=120s")
    kubectl("apply", "-f", "-", stdin=box(1))

    def found() -> Any:
        return json.loads(kubectl("get", "box", "b", "-o", "json"))

    eventually(lambda: found().get("status", {}).get("created") == {"size": 1}, operator)
    made = found()
    assert made["status"]["child"] == "b-child"
    assert made["metadata"]["annotations"]["example.com/child"] == '"Box"'
    assert made["metadata"]["finalizers"] == ["kopf.zalando.org/KopfFinalizerMarker"]
    kubectl("apply", "-f", "-", stdin=box(2))
    eventually(lambda: found()["status"].get("resized") == "1 to 2", operator)
    kubectl("delete", "box", "b", "--timeout=120s")
    assert "farewell b" in operator.read_text()
