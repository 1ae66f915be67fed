"""The parts with the rights and options of their kustomize bases: enough together, and one less is named.

A log or an event has the right that is missing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Kubectl
from tests.integration.test_beside_kubernetes import BASES, as_account, until
from tests.integration.test_parts_alone import Parts, enrolled

DRIVER, NODE, SPACE = "gpu.example.com", "alone", "dra-drivers"
FILES = {
    "driver": BASES / "driver" / "driver.yaml",
    "scheduler": BASES / "scheduler" / "scheduler.yaml",
    "advisor": BASES / "advisor" / "advisor.yaml",
    "controller-manager": BASES / "controllers" / "controller-manager.yaml",
}
# Rights of different parts that are missing at the same time: the failure of none hides that of another.
RIGHTS = {
    "at the start": (
        ("driver", "get", "nodes"),
        ("scheduler", "create", "leases"),
        ("advisor", "list", "pods"),
        ("controller-manager", "create", "leases"),
    ),
    "of what is watched": (
        ("driver", "list", "resourceslices"),
        ("scheduler", "list", "pods"),
        ("advisor", "watch", "resourceslices"),
        ("controller-manager", "list", "resourceclaimtemplates"),
    ),
    "of the driver's slices": (
        ("driver", "create", "resourceslices"),
        ("scheduler", "list", "resourceslices"),
        ("advisor", "create", "events"),
        ("controller-manager", "create", "serviceaccounts/token"),
    ),
    "of a surplus slice": (("driver", "delete", "resourceslices"), ("scheduler", "create", "pods/binding")),
    "of a claim": (("driver", "get", "resourceclaims"),),
    "of its status": (("driver", "patch", "resourceclaims/status"),),
    "of its devices' status": (("driver", "associated-node:patch", "resourceclaims/driver"),),
    "of its allocation": (("scheduler", "update", "resourceclaims/status"),),
    "of its binding": (("scheduler", "update", "resourceclaims/binding"),),
}
WORK = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  schedulerName: cathedra-scheduler
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers:
  - {name: main, image: host, command: [sh, -c, 'env | grep GPU_DEVICE'], resources: {claims: [{name: gpu}]}}
---
# A pod with a reason to wait, for the advisor.
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec: {containers: [{name: main, image: host}], resourceClaims: [{name: gpu, resourceClaimName: absent}]}
---
# A slice of a driver that ran here before: the new one deletes it.
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: surplus}
spec:
  driver: gpu.example.com
  nodeName: alone
  pool: {name: surplus, generation: 1, resourceSliceCount: 1}
  devices: [{name: surplus}]
"""


def documents(part: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILES[part].read_text()))


def roles_without(part: str, verb: str, resource: str) -> list[dict[str, Any]]:
    """The roles of the part's base, without one right."""
    roles = [one for one in documents(part) if one["kind"] in ("ClusterRole", "Role")]
    for role in roles:
        role["rules"] = [rest for rule in role["rules"] for rest in _split(rule, verb, resource)]
    return roles


def _split(rule: dict[str, Any], verb: str, resource: str) -> Iterator[dict[str, Any]]:
    if "resources" not in rule:
        yield rule
        return
    for one in rule["resources"]:
        verbs = [each for each in rule["verbs"] if (each, one) != (verb, resource)]
        if verbs:
            yield {**rule, "resources": [one], "verbs": verbs}


@dataclass
class Stand:
    """A cluster of one node with all bases applied."""

    parts: Parts
    kubectl: Kubectl
    folder: Path
    started: int = 0

    def start(self, part: str) -> str:
        """Start the part as its base does; return its name among the parts."""
        self.started += 1
        name = f"{part}-{self.started}"
        workload = next(one for one in documents(part) if one["kind"] in ("Deployment", "DaemonSet"))
        options = workload["spec"]["template"]["spec"]["containers"][0]["command"][2:]
        here = {
            "$(NODE_NAME)": NODE,
            "$(POD_UID)": name,
            "/var/lib/kubelet": f"{self.folder}/n",
            "/var/run/cdi": f"{self.folder}/n/cdi",
            "/etc/cathedra": str(self.folder),
            "0.0.0.0": "127.0.0.1",
            ":51515": ":0",
            "--secure-port=10259": "--secure-port=0",
            "--secure-port=10257": "--secure-port=0",
            "--secure-port=10269": "--secure-port=0",
        }
        for there, replacement in here.items():
            options = [word.replace(there, replacement) for word in options]
        bound = (SPACE, "--bound-object-kind=Node", f"--bound-object-name={NODE}") if part == "driver" else ()
        account = DRIVER if part == "driver" else f"cathedra-{part}"
        self.parts.start_as(name, part, as_account(self.kubectl, self.folder, account, *bound), *options)
        return name

    @contextmanager
    def working(self) -> Iterator[dict[str, str]]:
        """Run all parts, with work for them; yields their names among the parts."""
        names = {part: self.start(part) for part in FILES}
        try:
            self.kubectl("apply", "-f", "-", stdin=WORK)
            yield names
        finally:
            self.kubectl("delete", "pod", "user", "stuck", "--force")
            for name in names.values():
                self.parts.stop(name)
                assert "Traceback" not in self.parts.log(name), self.parts.log(name)
            for each in ("events", "resourceslices", "leases -n kube-system"):
                self.kubectl("delete", *each.split(), "--all")

    def messages(self, name: str) -> str:
        """The log of a part, and all events."""
        return self.parts.log(name) + self.kubectl(
            "get", "events", "-o", "jsonpath={.items[*].message}{.items[*].note}"
        )


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    with tempfile.TemporaryDirectory(prefix="base-") as name, ExitStack() as stack:
        folder = Path(name)
        parts = Parts(folder, stack)
        kubectl = parts.apiserver()
        for file in FILES.values():
            kubectl("apply", "-k", str(file.parent))
        config = next(one for one in documents("scheduler") if one["kind"] == "ConfigMap")["data"]["config.yaml"]
        (folder / "config.yaml").write_text(config)
        own = "resourceclaim-controller,-device-taint-eviction-controller,-daemonset-controller,-deployment-controller"
        parts.start("controller-manager", f"--kubeconfig={folder / 'kubeconfig'}", f"--controllers=*,-{own}")
        parts.start("node", f"--node-name={NODE}", f"--root-dir={folder / 'n'}", *enrolled(folder, NODE))
        parts.wait_for("node", f"node {NODE} is Ready")
        until(lambda: kubectl.run("get", "sa", "default").returncode == 0, "no service accounts")
        yield Stand(parts, kubectl, folder)


def test_the_bases_rights_and_options_are_enough(stand: Stand) -> None:
    with stand.working() as names:
        stand.kubectl("wait", "pod/user", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
        assert "GPU_DEVICE" in stand.kubectl("logs", "user")
        stand.kubectl("wait", "resourceslice/surplus", "--for=delete", "--timeout=120s")
        assert stand.kubectl("get", "resourceslices", "-o", "name")
        for name in names.values():
            assert "forbidden" not in stand.parts.log(name)


@pytest.mark.parametrize("missing", RIGHTS.values(), ids=RIGHTS)
def test_the_failure_names_each_right_that_is_missing(stand: Stand, missing: tuple[tuple[str, str, str], ...]) -> None:
    roles = [role for right in missing for role in roles_without(*right)]
    stand.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": roles}))
    try:
        with stand.working() as names:
            for part, verb, resource in missing:
                seen = f'cannot {verb} resource "{resource}"'
                until(lambda seen=seen, part=part: seen in stand.messages(names[part]), seen, seconds=60, pause=0.5)
    finally:
        for file in FILES.values():
            stand.kubectl("apply", "-k", str(file.parent))
