"""Two processes on one etcd are one cluster: one of them schedules, and the other one when the first has gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Kubectl, RunningCluster
from tests.integration.etcd import running_etcd

POD = """
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  restartPolicy: Never
  containers: [{name: main, image: host, command: ["true"]}]
"""


def leader(kubectl: Kubectl) -> str:
    return kubectl("get", "lease", "kube-scheduler", "-n", "kube-system", "-o", "jsonpath={.spec.holderIdentity}")


def run_pod(kubectl: Kubectl, name: str) -> None:
    kubectl("apply", "-f", "-", stdin=POD.replace("NAME", name))
    kubectl("wait", f"pod/{name}", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")


def test_one_schedules_until_it_goes_then_the_other(
    start_cluster: Callable[..., RunningCluster], tmp_path: Path
) -> None:
    with running_etcd(tmp_path / "etcd") as etcd:
        store = f"--store={etcd.url}"
        first = start_cluster(store, "--nodes=0")
        with pytest.raises(AssertionError, match=r"another certificate authority than .*: copy the folder pki"):
            start_cluster(store, "--nodes=0")
        second = start_cluster(store, "--nodes=1", "--gpus=1", beside=first)
        addresses = Kubectl(second)("get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[*].ports[*].port}")
        assert len(addresses.split()) == 2
        leading = leader(Kubectl(second))
        assert leading
        assert leader(Kubectl(first)) == leading
        run_pod(Kubectl(first), "early")
        assert "early" in Kubectl(second)("get", "pods")

        first.down()
        run_pod(Kubectl(second), "late")
        assert leader(Kubectl(second)) not in ("", leading)
        second.down()
