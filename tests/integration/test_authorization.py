"""Users, roles and tokens of a running cluster, as the real kubectl and a pod of its own see them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Kubectl, RunningCluster
from tests.requirements import container_mounts

BOT = "system:serviceaccount:default:bot"

ASKING_POD = """
apiVersion: v1
kind: Pod
metadata: {name: asking}
spec:
  restartPolicy: Never
  serviceAccountName: bot
  containers:
  - name: main
    image: host
    command:
    - python3
    - -c
    - |
      import json, os, ssl, urllib.request
      folder = "/var/run/secrets/kubernetes.io/serviceaccount"
      url = "https://{}:{}/apis/authentication.k8s.io/v1/selfsubjectreviews".format(
          os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"])
      body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
      headers = {"Authorization": "Bearer " + open(folder + "/token").read(), "Content-Type": "application/json"}
      trusted = ssl.create_default_context(cafile=folder + "/ca.crt")
      answer = urllib.request.urlopen(urllib.request.Request(url, body, headers), context=trusted)
      print(json.dumps(json.load(answer)["status"]["userInfo"]))
"""

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-devices}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [resource.k8s.io], apiVersions: [v1], operations: [CREATE], resources: [resourceclaims]}
  validations:
  - expression: "object.spec.devices.requests.all(r, r.exactly.count <= 2)"
    message: too many devices
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-devices}
spec: {policyName: few-devices, validationActions: [Deny]}
"""

CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}}}
spec: {{devices: {{requests: [{{name: r, exactly: {{deviceClassName: gpu, count: {count}}}}}]}}}}
"""


@pytest.fixture(scope="module")
def kubectl(start_cluster: Callable[..., RunningCluster]) -> Kubectl:
    return Kubectl(start_cluster("--nodes=1", "--gpus=2"))


@pytest.fixture(scope="module")
def bot(kubectl: Kubectl) -> str:
    """A service account that may edit in its namespace; its name as a user."""
    kubectl("create", "serviceaccount", "bot")
    kubectl("create", "rolebinding", "bot", "--clusterrole=edit", "--serviceaccount=default:bot")
    return BOT


def test_the_administrator_is_a_master(kubectl: Kubectl) -> None:
    shown = kubectl("auth", "whoami")
    assert "kubernetes-admin" in shown
    assert "system:masters" in shown
    assert kubectl("auth", "can-i", "*", "*").strip() == "yes"


def test_a_token_makes_one_its_account(kubectl: Kubectl, bot: str) -> None:
    token = kubectl("create", "token", "bot", "--duration=10m").strip()
    shown = kubectl("--token", token, "auth", "whoami", "-o", "json")
    assert json.loads(shown)["status"]["userInfo"]["username"] == bot
    refused = kubectl.run("--token", token[:-6] + "AAAAAA", "auth", "whoami")
    assert "Unauthorized" in refused.stderr or "must be logged in" in refused.stderr


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (("create", "resourceclaims.resource.k8s.io"), "yes"),
        (("create", "resourceclaimtemplates.resource.k8s.io"), "yes"),
        (("update", "resourceclaims.resource.k8s.io", "--subresource=status"), "no"),
        (("create", "deviceclasses.resource.k8s.io"), "no"),
        (("list", "resourceslices.resource.k8s.io"), "no"),
        (("get", "secrets"), "yes"),
        (("get", "secrets", "--namespace=kube-system"), "no"),
        (("create", "roles.rbac.authorization.k8s.io"), "no"),
    ],
)
def test_an_editor_may_what_the_role_edit_says(
    kubectl: Kubectl, bot: str, question: tuple[str, ...], answer: str
) -> None:
    assert kubectl.run("auth", "can-i", *question, "--as", bot).stdout.strip().splitlines()[-1] == answer


def test_a_refusal_says_what_was_missing(kubectl: Kubectl, bot: str) -> None:
    refused = kubectl.run("get", "nodes", "--as", bot)
    assert (
        f'nodes is forbidden: User "{bot}" cannot list resource "nodes" in API group "" at the cluster scope'
        in refused.stderr
    )


def test_no_user_hands_out_more_rights_than_held(kubectl: Kubectl) -> None:
    kubectl("create", "rolebinding", "carol", "--clusterrole=admin", "--user=carol")
    kubectl("create", "role", "fits", "--verb=get", "--resource=pods", "--as=carol")
    refused = kubectl.run("create", "role", "wild", "--verb=get", "--resource=nodes", "--as=carol")
    assert "is attempting to grant RBAC permissions not currently held" in refused.stderr
    assert '{APIGroups:[""], Resources:["nodes"], Verbs:["get"]}' in refused.stderr


def test_a_node_sees_its_own(kubectl: Kubectl) -> None:
    as_node = ("--as=system:node:node-0", "--as-group=system:nodes")
    kubectl("get", "node", "node-0", *as_node)
    assert "node 'node-0' cannot read 'node-1'" in kubectl.run("get", "node", "node-1", *as_node).stderr
    kubectl("get", "resourceslices", "--field-selector=spec.nodeName=node-0", *as_node)
    assert "with nodeName field selector" in kubectl.run("get", "resourceslices", *as_node).stderr


def test_a_pod_acts_as_its_service_account(kubectl: Kubectl, bot: str, tmp_path: Path) -> None:
    container_mounts()
    kubectl("apply", "-f", "-", stdin=ASKING_POD)
    kubectl("wait", "pod/asking", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    user = json.loads(kubectl("logs", "asking"))
    assert user["username"] == bot
    assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["asking"]
    assert user["extra"]["authentication.kubernetes.io/node-name"] == ["node-0"]


def test_the_issuer_publishes_its_key(kubectl: Kubectl) -> None:
    configuration = json.loads(kubectl("get", "--raw", "/.well-known/openid-configuration"))
    keys = json.loads(kubectl("get", "--raw", "/openid/v1/jwks"))
    assert re.fullmatch(r"https://.*/openid/v1/jwks", configuration["jwks_uri"])
    assert [key["alg"] for key in keys["keys"]] == configuration["id_token_signing_alg_values_supported"]


def test_a_policy_refuses_and_lets_pass(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POLICY)
    refused = kubectl.run("create", "-f", "-", stdin=CLAIM.format(name="big", count=3))
    assert "ValidatingAdmissionPolicy 'few-devices' with binding 'few-devices' denied request: too many devices" in (
        refused.stderr
    )
    kubectl("create", "-f", "-", stdin=CLAIM.format(name="small", count=2))


def test_a_quota_counts_what_comes_and_goes(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "small")
    devices = "gpu.deviceclass.resource.k8s.io/devices"
    field = devices.replace(".", r"\.")
    unused = f"--for=jsonpath={{.status.used.{field}}}=0"
    kubectl("create", "quota", "q", "-n", "small", f"--hard={devices}=2")
    kubectl("wait", "quota/q", "-n", "small", unused)
    kubectl("create", "-n", "small", "-f", "-", stdin=CLAIM.format(name="a", count=2))
    refused = kubectl.run("create", "-n", "small", "-f", "-", stdin=CLAIM.format(name="b", count=1))
    assert f"exceeded quota: q, requested: {devices}=1, used: {devices}=2, limited: {devices}=2" in refused.stderr
    kubectl("delete", "resourceclaim", "a", "-n", "small")
    kubectl("wait", "quota/q", "-n", "small", unused)
