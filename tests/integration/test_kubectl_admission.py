"""What the real kubectl shows of admission: refusals, warnings, and what the server itself keeps in order."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.integration.conftest import Kubectl, RunningCluster

POLICY: dict[str, Any] = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "replicas"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
            ]
        },
        "validations": [{"expression": "object.replicas > 1"}],
    },
}


@pytest.fixture(scope="module")
def kubectl(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    """kubectl on a cluster without nodes."""
    return Kubectl(start_cluster("--nodes=0"))


def pod(name: str, **spec: Any) -> str:
    """A manifest."""
    containers = [{"name": "c", "image": "example.com/i"}]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}
    return json.dumps(body)


def test_a_namespace_holds_its_pods_to_a_standard(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "held")
    scope = ("-n", "held")
    kubectl("apply", *scope, "-f", "-", stdin=pod("before", hostNetwork=True))
    labelled = kubectl.run("label", "namespace", "held", "pod-security.kubernetes.io/enforce=baseline")
    assert labelled.returncode == 0, labelled.stderr
    assert 'existing pods in namespace "held" violate the new PodSecurity enforce level "baseline:latest"' in (
        labelled.stderr
    )
    assert "Warning: before: host namespaces" in labelled.stderr
    refused = kubectl.run("apply", *scope, "-f", "-", stdin=pod("after", hostNetwork=True))
    assert 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)' in refused.stderr
    assert "created" in kubectl("apply", *scope, "-f", "-", stdin=pod("plain"))
    workload = kubectl.run("create", "deployment", "d", "--image=i", *scope)
    assert (workload.returncode, workload.stderr) == (0, "")
    kubectl("label", "namespace", "held", "pod-security.kubernetes.io/warn=restricted")
    workload = kubectl.run("create", "deployment", "e", "--image=i", *scope)
    assert 'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false' in (
        workload.stderr
    )


def test_a_pod_that_says_something_twice_is_warned_of(kubectl: Kubectl) -> None:
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    twice = {"containers": [{"name": "c", "image": "i", "env": variables}]}
    done = kubectl.run("apply", "-f", "-", stdin=pod("twice", **twice))
    assert done.stderr == (
        'Warning: spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply\n'
    )


def test_a_policy_tells_what_does_not_fit_the_kinds_that_it_is_about(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=json.dumps(POLICY))
    kubectl("wait", "--for=jsonpath={.status.observedGeneration}=1", "validatingadmissionpolicy/replicas")
    status = json.loads(kubectl("get", "validatingadmissionpolicy", "replicas", "-o", "json"))["status"]
    (warning,) = status["typeChecking"]["expressionWarnings"]
    assert warning["fieldRef"] == "spec.validations[0].expression"
    assert warning["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'")


def test_flow_schemas_say_whether_their_level_is_there(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=condition=Dangling=false", "flowschema", "--all")
    rows = kubectl("get", "flowschemas").splitlines()
    assert rows[0].split()[-1] == "MISSINGPL"
    assert {row.split()[-1] for row in rows[1:]} == {"False"}


def test_the_cluster_is_described_for_those_who_join_it(kubectl: Kubectl) -> None:
    found = json.loads(kubectl("get", "configmap", "cluster-info", "-n", "kube-public", "-o", "json"))
    described = yaml.safe_load(found["data"]["kubeconfig"])["clusters"][0]["cluster"]
    own = json.loads(kubectl("config", "view", "--raw", "-o", "json"))["clusters"][0]["cluster"]
    assert described["server"] == own["server"]
    assert described["certificate-authority-data"] == own["certificate-authority-data"]
