"""Each part with the rights of its kustomize base but one: its log or an event names the right that is missing."""

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
from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.test_beside_kubernetes import BASES, as_account, until
from tests.integration.test_driver_base import CLAIMING, DRIVER, NODE, SPACE
from tests.integration.test_parts_alone import Parts, enrolled

FILES = {
    "driver": BASES / "driver" / "driver.yaml",
    "scheduler": BASES / "scheduler" / "scheduler.yaml",
    "advisor": BASES / "advisor" / "advisor.yaml",
    "controller-manager": BASES / "controllers" / "controller-manager.yaml",
}
# Some of each part: every case starts all of them.
RIGHTS = (
    ("driver", "get", "nodes"),
    ("driver", "create", "resourceslices"),
    ("driver", "get", "resourceclaims"),
    ("driver", "patch", "resourceclaims/status"),
    ("scheduler", "list", "pods"),
    ("scheduler", "create", "pods/binding"),
    ("scheduler", "update", "resourceclaims/status"),
    ("advisor", "list", "pods"),
    ("advisor", "watch", "resourceslices"),
    ("advisor", "create", "events"),
    ("controller-manager", "list", "resourceclaimtemplates"),
    ("controller-manager", "create", "serviceaccounts/token"),
)

# A pod with a reason to wait, for the advisor.
STUCK = """
apiVersion: v1
kind: Pod
metadata: {name: stuck}
spec: {containers: [{name: main, image: host}], resourceClaims: [{name: gpu, resourceClaimName: absent}]}
"""


def documents(part: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(FILES[part].read_text()))


def roles_without(part: str, verb: str, resource: str) -> str:
    """The roles of the part's base, without one right."""
    roles = [one for one in documents(part) if one["kind"] in ("ClusterRole", "Role")]
    for role in roles:
        role["rules"] = [rest for rule in role["rules"] for rest in _split(rule, verb, resource)]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": roles})


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

    def stop(self, name: str) -> None:
        self.parts.stop(name)
        assert "Traceback" not in self.parts.log(name), self.parts.log(name)

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
        parts.start("apiserver", f"--data-dir={folder}")
        parts.wait_for("apiserver", "export KUBECONFIG=")
        kubectl = Kubectl(RunningCluster(DataDir(folder), ()))
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


@pytest.mark.parametrize(("part", "verb", "resource"), RIGHTS)
def test_the_failure_names_the_right_that_is_missing(stand: Stand, part: str, verb: str, resource: str) -> None:
    kubectl = stand.kubectl
    kubectl("apply", "-f", "-", stdin=roles_without(part, verb, resource))
    running = {each: stand.start(each) for each in FILES}
    pod = CLAIMING.replace("spec:\n  restart", "spec:\n  schedulerName: cathedra-scheduler\n  restart")
    seen = f'cannot {verb} resource "{resource}"'
    try:
        kubectl("apply", "-f", "-", stdin=f"{pod}---{STUCK}")
        until(lambda: seen in stand.messages(running[part]), seen, seconds=60)
    finally:
        kubectl("delete", "pod", "user", "stuck", "--force")
        for name in running.values():
            stand.stop(name)
        for each in ("events", "resourceslices", "leases -n kube-system"):
            kubectl("delete", *each.split(), "--all")
        for file in FILES.values():
            kubectl("apply", "-k", str(file.parent))
