"""Scheduler and controllers with the rights that the example manifests give them, and nothing beyond.

The processes get tokens of the manifests' service accounts and the manifests' own options, so the manifests are what is
tested; only the containers around them are left out.
"""

from __future__ import annotations

import json
import shlex
import ssl
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import EXAMPLES, Kubectl
from tests.integration.test_parts_alone import Parts
from tests.ports import free_port

BASES = EXAMPLES.parent / "deploy" / "kustomize"
BASE_OF = {"scheduler.yaml": BASES / "scheduler", "controller-manager.yaml": BASES / "controllers"}
CLAIMING = """
apiVersion: v1
kind: Namespace
metadata: {name: fresh}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: fresh}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user, namespace: fresh}
spec:
  schedulerName: cathedra-packing
  serviceAccountName: default
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: main, image: host}]
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="beside-") as name:
        yield Path(name)


def documents(file: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all((BASE_OF[file] / file).read_text()) if document]


def command_of(file: str) -> list[str]:
    """The options in the manifest's Deployment."""
    deployment = next(document for document in documents(file) if document["kind"] == "Deployment")
    command: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["command"]
    return command[2:]


def as_account(kubectl: Kubectl, folder: Path, account: str, space: str = "kube-system", *bound: str) -> str:
    """The option of a kubeconfig for a service account, with the options that bind its token."""
    token = kubectl("create", "token", account, "-n", space, *bound).strip()
    config = json.loads(kubectl("config", "view", "--raw", "-o", "json"))
    config["users"][0]["user"] = {"token": token}
    file = folder / f"{account}.conf"
    file.write_text(json.dumps(config))
    return f"--kubeconfig={file}"


def fetched(port: int, path: str, token: str = "") -> tuple[int, str]:
    """Status and text; the certificate is the part's own."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=150) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def until(condition: Callable[[], object], what: str, seconds: float = 120, pause: float = 0.1) -> None:
    """Wait for a condition; ``pause``: seconds between two checks, longer where each starts a program."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(pause)


def test_the_manifests_rights_and_options_are_enough(folder: Path) -> None:
    with ExitStack() as stack:
        parts = Parts(folder, stack)
        kubectl = parts.apiserver()
        for file in ("scheduler.yaml", "controller-manager.yaml"):
            kubectl("apply", "-k", str(BASE_OF[file]))
        # The other controllers, among them the one that gives new namespaces their service account.
        parts.start(
            "controller-manager",
            f"--kubeconfig={folder / 'kubeconfig'}",
            "--controllers=*,-resourceclaim-controller,-device-taint-eviction-controller",
        )
        ports = {"scheduler": free_port(), "controller-manager": free_port()}
        config = next(d for d in documents("scheduler.yaml") if d["kind"] == "ConfigMap")["data"]["config.yaml"]
        (folder / "config.yaml").write_text(config)
        for part, port in ports.items():
            options = [
                word.replace("/etc/cathedra", str(folder)).replace("0.0.0.0", "127.0.0.1")
                for word in command_of(f"{part}.yaml")
                if not word.startswith("--secure-port")
            ]
            account = as_account(kubectl, folder, f"cathedra-{part}")
            parts.start_as(f"beside-{part}", part, account, f"--secure-port={port}", *options)
            parts.wait_for(f"beside-{part}", "health and metrics at")

        kubectl("apply", "-f", "-", stdin=CLAIMING)
        said = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}"
        until(lambda: kubectl("get", "pod", "user", "-n", "fresh", "-o", said) == "Unschedulable", "not looked at")
        claims = kubectl("get", "resourceclaims", "-n", "fresh", "-o", "jsonpath={.items[*].metadata.generateName}")
        assert claims == "user-gpu-"
        leases = kubectl("get", "leases", "-n", "kube-system", "-o", "jsonpath={.items[*].metadata.name}").split()
        assert {"cathedra-scheduler", "cathedra-controller-manager"} <= set(leases)
        assert "resource-claim-controller" in kubectl("get", "serviceaccounts", "-n", "kube-system")

        kubectl("create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics")
        kubectl("create", "clusterrolebinding", "metrics", "--clusterrole=metrics", "--serviceaccount=default:reader")
        until(lambda: kubectl.run("get", "sa", "default").returncode == 0, "no service accounts")
        kubectl("create", "serviceaccount", "reader")
        token = kubectl("create", "token", "reader").strip()
        for part, port in ports.items():
            assert fetched(port, "/healthz") == (200, "ok")
            assert fetched(port, "/metrics")[0] == 401
            status, text = fetched(port, "/metrics", token)
            assert status == 200, (part, text, shlex.join(command_of(f"{part}.yaml")))
            assert f'leader_election_master_status{{name="cathedra-{part}"}} 1' in text
            wanted = (
                'profile="cathedra-packing"' if part == "scheduler" else 'workqueue_adds_total{name="resource_claim"}'
            )
            assert wanted in text
            claims = 'dynamic_resource_allocation_resource_claims{admin_access="false",allocated="false"'
            assert part == "scheduler" or claims in text
        for part in ("beside-scheduler", "beside-controller-manager"):
            assert "forbidden" not in parts.log(part), parts.log(part)
        for part in ("beside-scheduler", "beside-controller-manager", "controller-manager", "apiserver"):
            assert parts.stop(part) == 0, parts.log(part)
            assert "Traceback" not in parts.log(part), parts.log(part)
