"""1.31 as programs: a cluster, both halves of its test driver, and the kubectl of that release where it is found."""

from __future__ import annotations

import re
from collections.abc import Callable

from cathedra.cluster.data.datadir import short_root
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster
from tests.mission.introduction import eventually, objects, program

ON = (
    "--kubernetes-version=1.31",
    "--feature-gates=DynamicResourceAllocation=true,DRAControlPlaneController=true",
    "--runtime-config=resource.k8s.io/v1alpha3=true",
)
TEST_DRIVER = ("-m", "cathedra.cli.main", "classic-test-driver")


def test_a_controller_allocates_and_its_plugin_prepares(start_cluster: Callable[..., RunningCluster]) -> None:
    cluster = start_cluster(*ON, "--runtime=process")
    kubectl = Kubectl(cluster).of_release("1.31")
    listed = kubectl("api-resources", "--api-group=resource.k8s.io", "--no-headers").splitlines()
    assert [line.split()[0] for line in listed] == [
        "deviceclasses",
        "podschedulingcontexts",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
    ]
    root = short_root(cluster.data.path) / "nodes" / "node-0"
    release = "--kubernetes-version=1.31"
    plugin = (*TEST_DRIVER, "kubelet-plugin", release, "--node-name=node-0", f"--root-dir={root}")
    with program(cluster, *TEST_DRIVER, "controller", release), program(cluster, *plugin):
        kubectl("create", "-f", str(EXAMPLES / "classic" / "controller.yaml"))
        kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/test-controller", "--timeout=90s", timeout=120)
        log = kubectl("logs", "test-controller").splitlines()
        assert {"user_a=b", "admin_c=d"} <= set(log)
        marker = re.compile(r"claim_test_controller_device_\w+_device=true")
        assert any(marker.fullmatch(line) for line in log), log
        # The claim came from a template, and the pod has ended: the driver was called to unprepare everything.
        assert eventually(lambda: objects(kubectl, "resourceclaims") == [])
        assert objects(kubectl, "podschedulingcontexts") == []
