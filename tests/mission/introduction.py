"""The post that introduced Dynamic Resource Allocation in 1.26, statement by statement, with the real kubectl.

Two documents have this text; each plays it on a cluster of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cathedra.cluster.data.datadir import short_root
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster

CLASSIC = EXAMPLES / "classic"
ON = (
    "--kubernetes-version=1.26",
    "--feature-gates=DynamicResourceAllocation=true",
    "--runtime-config=resource.k8s.io/v1alpha1=true",
)


def eventually(found: Callable[[], Any], *, seconds: float = 120.0) -> Any:
    """Return the first true result of ``found``."""
    deadline = time.monotonic() + seconds
    while not (answer := found()):
        assert time.monotonic() < deadline, f"{found} has not come true"
        time.sleep(0.2)
    return answer


@contextmanager
def program(cluster: RunningCluster, *command: str) -> Iterator[None]:
    """A program of the user's beside the cluster, until the context ends."""
    log = (cluster.data.path / f"{os.path.basename(command[-1])}.log").open("wb")
    environment = os.environ | {"KUBECONFIG": str(cluster.kubeconfig)}
    with log, subprocess.Popen([sys.executable, *command], env=environment, stdout=log, stderr=log) as process:
        try:
            yield
        finally:
            process.terminate()
            process.wait()


@contextmanager
def test_driver(cluster: RunningCluster, *options: str) -> Iterator[None]:
    """Both programs of the test driver, with the flags as the post prints them."""
    cli = ("-m", "cathedra.cli.main", "classic-test-driver", "--feature-gates", "ContextualLogging=true")
    with program(cluster, *cli, "-v=5", "controller", *options), program(cluster, *cli, "-v=6", "kubelet-plugin"):
        yield


def objects(kubectl: Kubectl, kind: str) -> list[dict[str, Any]]:
    """All objects of a kind in the namespace default."""
    items: list[dict[str, Any]] = json.loads(kubectl("get", kind, "-o", "json"))["items"]
    return items


class Introduction:
    """Statements of the post, in its order; a subclass names the cluster's options and plays it."""

    options: tuple[str, ...] = ()

    def enabled(self, start: Callable[..., RunningCluster]) -> RunningCluster:
        """A cluster with gate and API group enabled."""
        return start(*ON, *self.options)

    # --- it is off unless gate and API group are enabled

    def test_without_the_api_group_kubectl_knows_no_resource_class(
        self, start_cluster: Callable[..., RunningCluster]
    ) -> None:
        kubectl = Kubectl(start_cluster("--kubernetes-version=1.26", "--nodes=0"))
        refused = kubectl.run("create", "-f", str(CLASSIC / "resourceclass.yaml"))
        assert refused.returncode == 1
        assert 'no matches for kind "ResourceClass" in version "resource.k8s.io/v1alpha1"' in refused.stderr
        assert "ensure CRDs are installed first" in refused.stderr

    def test_with_the_api_group_alone_pods_lose_their_claims(
        self, start_cluster: Callable[..., RunningCluster]
    ) -> None:
        kubectl = Kubectl(start_cluster("--kubernetes-version=1.26", ON[2], "--nodes=0"))
        kubectl("create", "-f", str(CLASSIC / "resourceclass.yaml"))
        kubectl("create", "-f", str(CLASSIC / "pod-inline.yaml"))
        (pod,) = objects(kubectl, "pods")
        assert "resourceClaims" not in pod["spec"]

    def test_the_walk(self, start_cluster: Callable[..., RunningCluster]) -> None:
        """The API's four kinds, the walk of the test driver, the cats, and the limitation, on one cluster."""
        cluster = self.enabled(start_cluster)
        kubectl = Kubectl(cluster)
        self.the_group_provides_four_kinds(kubectl)
        self.a_pod_put_on_a_node_by_hand_is_refused_there(kubectl)
        with test_driver(cluster):
            self.the_shown_commands_print_what_is_shown(kubectl)
            self.every_kubectl_shows_the_same_columns(kubectl)
            self.nothing_is_left_of_the_negotiation(kubectl)
            self.a_deleted_pod_takes_its_claim_along(kubectl)
        self.two_claims_are_made_and_each_container_gets_one(cluster, kubectl)

    def the_group_provides_four_kinds(self, kubectl: Kubectl) -> None:
        """ResourceClass, ResourceClaim, ResourceClaimTemplate, PodScheduling."""
        listed = kubectl("api-resources", "--api-group=resource.k8s.io", "--no-headers").splitlines()
        assert [line.split() for line in listed] == [
            ["podschedulings", "resource.k8s.io/v1alpha1", "true", "PodScheduling"],
            ["resourceclaims", "resource.k8s.io/v1alpha1", "true", "ResourceClaim"],
            ["resourceclaimtemplates", "resource.k8s.io/v1alpha1", "true", "ResourceClaimTemplate"],
            ["resourceclasses", "resource.k8s.io/v1alpha1", "false", "ResourceClass"],
        ]

    def the_shown_commands_print_what_is_shown(self, kubectl: Kubectl) -> None:
        """`create`, `get resourceclaims`, `get pods`, `logs … | grep user_a`."""
        made = kubectl("create", "-f", str(CLASSIC / "pod-inline.yaml"))
        assert made.splitlines() == [
            "configmap/test-inline-claim-parameters created",
            "resourceclaimtemplate.resource.k8s.io/test-inline-claim-template created",
            "pod/test-inline-claim created",
        ]
        kubectl(
            "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/test-inline-claim", "--timeout=120s", timeout=150
        )
        header, claim = kubectl("get", "resourceclaims", "test-inline-claim-resource").splitlines()
        assert header.split() == ["NAME", "RESOURCECLASSNAME", "ALLOCATIONMODE", "STATE", "AGE"]
        assert claim.split()[:-1] == [
            "test-inline-claim-resource",
            "example",
            "WaitForFirstConsumer",
            "allocated,reserved",
        ]
        _, pod = kubectl("get", "pods", "test-inline-claim").splitlines()
        assert pod.split()[:-1] == ["test-inline-claim", "0/2", "Completed", "0"]
        log = kubectl("logs", "test-inline-claim", "-c", "with-resource")
        assert [line for line in log.splitlines() if "user_a" in line] == ["user_a='b'"]
        assert "user_a" not in kubectl("logs", "test-inline-claim", "-c", "without-resource")

    def every_kubectl_shows_the_same_columns(self, kubectl: Kubectl) -> None:
        """The server makes the table, so each kubectl of 1.26 to 1.33 that is found prints it alike."""
        for found in sorted(Path(kubectl.program).parent.glob("kubectl.1.*")):
            shown = subprocess.run(
                [found, "get", "resourceclaims"], env=kubectl.environment, capture_output=True, text=True, check=True
            ).stdout
            header, claim = shown.splitlines()
            assert header.split() == ["NAME", "RESOURCECLASSNAME", "ALLOCATIONMODE", "STATE", "AGE"], found
            assert "allocated,reserved" in claim

    def nothing_is_left_of_the_negotiation(self, kubectl: Kubectl) -> None:
        """PodScheduling is used internally; the pod was bound when everything was allocated and reserved."""
        assert objects(kubectl, "podschedulings") == []
        messages = kubectl("get", "events", "-o", "jsonpath={.items[*].message}")
        assert "waiting for resource driver to allocate resource" in messages

    def a_deleted_pod_takes_its_claim_along(self, kubectl: Kubectl) -> None:
        """A claim made from a template has an automatic lifecycle."""
        kubectl("delete", "pod", "test-inline-claim")
        eventually(lambda: "test-inline-claim-resource" not in kubectl("get", "resourceclaims", "-o", "name"))

    def a_pod_put_on_a_node_by_hand_is_refused_there(self, kubectl: Kubectl) -> None:
        """Bypassing the scheduler by ``nodeName`` leads to pods that the kubelet refuses to start."""
        shown = kubectl("create", "-f", str(CLASSIC / "resourceclass.yaml"))
        assert shown == "resourceclass.resource.k8s.io/example created\n"
        kubectl("create", "-f", str(CLASSIC / "pod-on-node.yaml"))

        def said() -> str:
            words = ("get", "events", "--field-selector=involvedObject.name=on-node", "-o")
            return kubectl(*words, "jsonpath={range .items[*]}{.reason}: {.message}{end}")

        refusal = eventually(lambda: text if "FailedPrepareDynamicResources" in (text := said()) else "")
        assert "is not allowed to use ResourceClaim by-hand" in refusal
        assert kubectl("get", "pod", "on-node", "-o", "jsonpath={.status.phase}") == "Pending"
        kubectl("delete", "-f", str(CLASSIC / "pod-on-node.yaml"))

    def two_claims_are_made_and_each_container_gets_one(self, cluster: RunningCluster, kubectl: Kubectl) -> None:
        """The example of the fictional driver, with parameters in objects of its own kind."""
        root = short_root(cluster.data.path) / "nodes" / "node-0"
        kubectl("create", "-f", str(CLASSIC / "cats.yaml"))
        kubectl("wait", "--for=condition=Established", "crd/claimparameters.cats.resource.example.com")
        with program(cluster, str(CLASSIC / "cats_driver.py"), str(cluster.kubeconfig), str(root)):
            kubectl("create", "-f", str(CLASSIC / "pod-with-cats.yaml"))
            kubectl("wait", "--for=condition=Ready", "pod/pod-with-cats", "--timeout=120s", timeout=150)
            names = kubectl("get", "resourceclaims", "-o", "name").split()
            assert names == [f"resourceclaim.resource.k8s.io/pod-with-cats-cat-{number}" for number in range(2)]
            for container in ("first-example", "second-example"):
                cat = kubectl("exec", "pod-with-cats", "-c", container, "--", "sh", "-c", "echo $CAT_COLOR $CAT_SIZE")
                assert cat == "black large\n"
            kubectl("delete", "-f", str(CLASSIC / "pod-with-cats.yaml"))
