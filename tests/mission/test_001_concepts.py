"""The concept page of 1.32: structured parameters in beta (statements C1 to C21 of docs/history.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from cathedra._proto import podresources_v1_pb2 as messages
from cathedra._proto import podresources_v1_pb2_grpc as services
from cathedra.cluster.data.datadir import short_root
from tests.integration.conftest import EXAMPLES, Kubectl, RunningCluster
from tests.mission.questions import event_messages, get, until

CATS = EXAMPLES / "structured-1.32"
DRIVER = "resource-driver.example.com"
COMMON = ("--kubernetes-version=1.32", "--gpus=4", f"--driver-name={DRIVER}")
BLACK = ("--gpu-attribute=color=black", "--gpu-attribute=size=large")
AT_ONCE = ("--grace-period=1",)
"""A container's first process is not ended by SIGTERM; nothing here waits for it."""
SWITCHED_ON = "--runtime-config=resource.k8s.io/v1beta1=true"


def gates(*names: str) -> str:
    """The option that opens these gates."""
    return "--feature-gates=" + ",".join(f"{name}=true" for name in names)


@pytest.fixture(scope="module")
def cluster(start_cluster: Callable[..., RunningCluster]) -> RunningCluster:
    """Two nodes with four large black cats each, all features of 1.32 on."""
    opened = gates(
        "DynamicResourceAllocation",
        "DRAAdminAccess",
        "DRAResourceClaimDeviceStatus",
        "KubeletPodResourcesDynamicResources",
    )
    return start_cluster(*COMMON, *BLACK, "--nodes=2", opened, SWITCHED_ON)


@pytest.fixture(scope="module")
def cats(cluster: RunningCluster) -> Kubectl:
    return Kubectl(cluster)


@pytest.fixture
def pod_with_cats(cats: Kubectl) -> Iterator[str]:
    cats("apply", "-f", str(CATS / "cats.yaml"))
    cats("wait", "--for=condition=Ready", "pod/pod-with-cats", "--timeout=120s")
    yield "pod-with-cats"
    cats("delete", *AT_ONCE, "-f", str(CATS / "cats.yaml"), "--ignore-not-found", timeout=150)


def test_without_gate_and_version_there_is_no_such_resource(start_cluster: Callable[..., RunningCluster]) -> None:
    off = Kubectl(start_cluster("--kubernetes-version=1.32", "--nodes=1"))
    done = off.run("get", "deviceclasses")
    assert done.returncode == 1
    assert done.stderr == 'error: the server doesn\'t have a resource type "deviceclasses"\n'
    # A pod's claims are dropped with the gate off, and the pod runs without.
    manifest = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}],
                "resourceClaims": [{"name": "x", "resourceClaimName": "none"}],
            },
        }
    )
    off("create", "-f", "-", stdin=manifest)
    assert "resourceClaims" not in get(off, "pod", "p")["spec"]


def test_with_gate_and_version_device_classes_can_be_listed(cats: Kubectl) -> None:
    assert "No resources found" in cats.run("get", "deviceclasses").stderr
    lines = cats("api-resources", "--api-group=resource.k8s.io", "--no-headers").splitlines()
    assert {(line.split()[0], line.split()[-3], line.split()[-1]) for line in lines} == {
        ("deviceclasses", "resource.k8s.io/v1beta1", "DeviceClass"),
        ("resourceclaims", "resource.k8s.io/v1beta1", "ResourceClaim"),
        ("resourceclaimtemplates", "resource.k8s.io/v1beta1", "ResourceClaimTemplate"),
        ("resourceslices", "resource.k8s.io/v1beta1", "ResourceSlice"),
    }


def test_drivers_publish_their_devices_in_slices(cats: Kubectl) -> None:
    slices = get(cats, "resourceslices")["items"]
    assert {piece["spec"]["nodeName"] for piece in slices} == {"node-0", "node-1"}
    (first, *_) = slices[0]["spec"]["devices"]
    assert first["basic"]["attributes"]["color"] == {"string": "black"}
    assert "value" in first["basic"]["capacity"]["memory"]


def test_each_container_gets_a_claim_of_its_own_from_the_template(cats: Kubectl, pod_with_cats: str) -> None:
    claims = get(cats, "resourceclaims")["items"]
    assert len(claims) == 2
    devices = {claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims}
    assert len(devices) == 2, "no cat twice"
    pod = get(cats, "pod", pod_with_cats)
    owners = {claim["metadata"]["ownerReferences"][0]["uid"] for claim in claims}
    assert owners == {pod["metadata"]["uid"]}
    environment = {
        name: cats("exec", pod_with_cats, "-c", name, "--", "env").splitlines() for name in ("container0", "container1")
    }
    seen = {name: [one for one in lines if one.startswith("GPU_DEVICE_")] for name, lines in environment.items()}
    assert all(seen.values()), "each sees its cat"
    assert not set(seen["container0"]) & set(seen["container1"])
    # Claims made for a pod go with it.
    cats("delete", *AT_ONCE, "pod", pod_with_cats, timeout=150)
    until(lambda: get(cats, "resourceclaims")["items"], lambda items: not items)


def test_pods_that_name_one_claim_share_it(cats: Kubectl, pod_with_cats: str) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": {"devices": {"requests": [{"name": "req-0", "deviceClassName": "resource.example.com"}]}},
    }
    template = {
        "metadata": {"labels": {"app": "sharing"}},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "ubuntu:20.04",
                    "command": ["sleep", "9999"],
                    "resources": {"claims": [{"name": "cat"}]},
                }
            ],
            "resourceClaims": [{"name": "cat", "resourceClaimName": "shared"}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sharing"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "sharing"}}, "template": template},
    }
    both = {"apiVersion": "v1", "kind": "List", "items": [claim, deployment]}
    cats("apply", "-f", "-", stdin=json.dumps(both))
    cats("rollout", "status", "deployment/sharing", "--timeout=120s", timeout=150)
    assert len(get(cats, "resourceclaim", "shared")["status"]["reservedFor"]) == 3
    cats("delete", *AT_ONCE, "deployment/sharing", timeout=150)
    until(
        lambda: get(cats, "resourceclaim", "shared")["status"], lambda status: not status, timeout=150
    )  # given back, kept for the next
    cats("delete", "resourceclaim", "shared")


def test_the_allocation_is_written_into_the_claim_with_the_configuration(cats: Kubectl) -> None:
    opaque = {"driver": DRIVER, "parameters": {"apiVersion": "cats/v1", "kind": "Collar", "bell": True}}
    objects = [
        {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "DeviceClass",
            "metadata": {"name": "configured"},
            "spec": {
                "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
                "config": [{"opaque": opaque}],
            },
        },
        {
            "apiVersion": "resource.k8s.io/v1beta1",
            "kind": "ResourceClaim",
            "metadata": {"name": "two-alike"},
            "spec": {
                "devices": {
                    "requests": [{"name": "r", "deviceClassName": "configured", "count": 2}],
                    "constraints": [{"matchAttribute": f"{DRIVER}/model"}],
                    "config": [{"opaque": {"driver": "other.example.com", "parameters": {}}}],
                }
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "waits"},
            "spec": {
                "schedulingGates": [{"name": "example.com/hold"}],
                "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}],
                "resourceClaims": [{"name": "x", "resourceClaimName": "two-alike"}],
                "terminationGracePeriodSeconds": 0,
            },
        },
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cats("apply", "-f", "-", stdin=text)
    assert "allocation" not in get(cats, "resourceclaim", "two-alike").get("status", {}), "allocated when needed"
    cats("patch", "pod", "waits", "--type=json", '-p=[{"op": "remove", "path": "/spec/schedulingGates"}]')
    allocation = until(
        lambda: get(cats, "resourceclaim", "two-alike").get("status", {}).get("allocation"), lambda found: bool(found)
    )
    assert len(allocation["devices"]["results"]) == 2
    sources = [(entry["source"], entry["opaque"]["driver"]) for entry in allocation["devices"]["config"]]
    assert sources == [("FromClass", DRIVER), ("FromClaim", "other.example.com")]
    assert allocation["devices"]["config"][0]["opaque"]["parameters"] == opaque["parameters"]
    cats("delete", *AT_ONCE, "-f", "-", stdin=text, timeout=150)


def test_the_kubelet_lists_the_devices_of_running_pods(
    cluster: RunningCluster, cats: Kubectl, pod_with_cats: str
) -> None:
    node = get(cats, "pod", pod_with_cats)["spec"]["nodeName"]
    socket = short_root(cluster.data.path) / "nodes" / node / "pod-resources" / "kubelet.sock"
    with grpc.insecure_channel(f"unix:{socket}") as channel:
        listed = services.PodResourcesListerStub(channel).List(messages.ListPodResourcesRequest(), timeout=150)
    (pod,) = [entry for entry in listed.pod_resources if entry.name == pod_with_cats]
    assert [(container.name, len(container.dynamic_resources)) for container in pod.containers] == [
        ("container0", 1),
        ("container1", 1),
    ]


def test_a_pod_put_on_a_node_by_hand_waits_for_its_claim(cats: Kubectl, pod_with_cats: str) -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "by-hand"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "resource.example.com"}]}},
    }

    def pod(name: str, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "containers": [
                    {
                        "name": "c",
                        "image": "busybox",
                        "command": ["sleep", "600"],
                        "resources": {"claims": [{"name": "x"}]},
                    }
                ],
                "resourceClaims": [{"name": "x", "resourceClaimName": "by-hand"}],
                "terminationGracePeriodSeconds": 0,
                **spec,
            },
        }

    bypassing = pod("bypassing", nodeName="node-0")
    cats("create", "-f", "-", stdin=json.dumps(bypassing))
    until(lambda: event_messages(cats, "bypassing"), lambda messages: any("by-hand" in text for text in messages))
    assert get(cats, "pod", "bypassing")["status"]["phase"] == "Pending"
    cats("create", "-f", "-", stdin=json.dumps(claim))
    # The controller reserves what the scheduler allocated for another pod; then this one runs.
    other = pod("scheduled", nodeSelector={"kubernetes.io/hostname": "node-0"})
    cats("create", "-f", "-", stdin=json.dumps(other))
    cats("wait", "--for=condition=Ready", "pod/scheduled", "pod/bypassing", "--timeout=120s", timeout=150)
    reserved = get(cats, "resourceclaim", "by-hand")["status"]["reservedFor"]
    assert sorted(consumer["name"] for consumer in reserved) == ["bypassing", "scheduled"]
    cats("delete", *AT_ONCE, "pod/bypassing", "pod/scheduled", "resourceclaim/by-hand", timeout=150)


def test_a_node_selector_reaches_a_node_through_the_scheduler(cats: Kubectl, pod_with_cats: str) -> None:
    file = str(CATS / "pod-on-a-node.yaml")
    cats("apply", "-f", file)
    cats("wait", "--for=condition=Ready", "pod/pod-on-a-node", "--timeout=120s")
    assert get(cats, "pod", "pod-on-a-node")["spec"]["nodeName"] == "node-1"
    cats("delete", *AT_ONCE, "-f", file, timeout=150)


def test_a_mutating_policy_turns_a_node_name_into_a_selector(start_cluster: Callable[..., RunningCluster]) -> None:
    on = f"{SWITCHED_ON},admissionregistration.k8s.io/v1alpha1=true"
    opened = gates("DynamicResourceAllocation", "MutatingAdmissionPolicy")
    kubectl = Kubectl(start_cluster(*COMMON, "--nodes=1", opened, on))
    removal = (
        '[JSONPatch{op: "remove", path: "/spec/nodeName"}, JSONPatch{op: "add", path: "/spec/nodeSelector", '
        'value: {"kubernetes.io/hostname": object.spec.nodeName}}]'
    )
    objects = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1alpha1",
            "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": "through-the-scheduler"},
            "spec": {
                "failurePolicy": "Fail",
                "reinvocationPolicy": "Never",
                "matchConstraints": {
                    "resourceRules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
                    ]
                },
                "matchConditions": [{"name": "bypasses", "expression": "has(object.spec.nodeName)"}],
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": removal}}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1alpha1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "through-the-scheduler"},
            "spec": {"policyName": "through-the-scheduler"},
        },
    ]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def created(name: str) -> Any:
        spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "600"]}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": name}, "spec": spec}
        return json.loads(kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(pod)))

    pod = until(lambda: created("p-"), lambda pod: "nodeName" not in pod["spec"])
    assert pod["spec"]["nodeSelector"] == {"kubernetes.io/hostname": "node-0"}
    kubectl("wait", "--for=condition=Ready", f"pod/{pod['metadata']['name']}", "--timeout=120s")


def test_admin_access_reaches_devices_in_use(cats: Kubectl, pod_with_cats: str) -> None:
    cats("apply", "-f", str(CATS / "admin-access.yaml"))
    monitor = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "monitor"},
        "spec": {
            "nodeName": "",
            "nodeSelector": {"kubernetes.io/hostname": get(cats, "pod", pod_with_cats)["spec"]["nodeName"]},
            "containers": [
                {
                    "name": "c",
                    "image": "busybox",
                    "command": ["sleep", "600"],
                    "resources": {"claims": [{"name": "all"}]},
                }
            ],
            "resourceClaims": [{"name": "all", "resourceClaimTemplateName": "every-cat-claim-template"}],
            "terminationGracePeriodSeconds": 0,
        },
    }
    cats("create", "-f", "-", stdin=json.dumps(monitor))
    cats("wait", "--for=condition=Ready", "pod/monitor", "--timeout=120s")
    (claim,) = [
        claim
        for claim in get(cats, "resourceclaims")["items"]
        if claim["metadata"]["ownerReferences"][0]["name"] == "monitor"
    ]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert len(results) == 4
    assert all(result["adminAccess"] for result in results)
    cats("delete", *AT_ONCE, "pod", "monitor", timeout=150)
    cats("delete", "-f", str(CATS / "admin-access.yaml"))


def test_without_its_gate_admin_access_is_removed(start_cluster: Callable[..., RunningCluster]) -> None:
    kubectl = Kubectl(start_cluster(*COMMON, *BLACK, "--nodes=1", gates("DynamicResourceAllocation"), SWITCHED_ON))
    kubectl("apply", "-f", str(CATS / "admin-access.yaml"))
    template = get(kubectl, "resourceclaimtemplate", "every-cat-claim-template")
    assert "adminAccess" not in template["spec"]["spec"]["devices"]["requests"][0]
    # And what drivers report of devices is emptied without its gate.
    kubectl("apply", "-f", str(CATS / "cats.yaml"))
    kubectl("wait", "--for=condition=Ready", "pod/pod-with-cats", "--timeout=120s")
    name = get(kubectl, "resourceclaims")["items"][0]["metadata"]["name"]
    kubectl(
        "patch",
        "resourceclaim",
        name,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(reported(kubectl, name)),
    )
    assert "devices" not in get(kubectl, "resourceclaim", name)["status"]


def reported(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """A report on the claim's first device: its addresses."""
    device = get(kubectl, "resourceclaim", name)["status"]["allocation"]["devices"]["results"][0]
    return {
        "status": {
            "devices": [
                {
                    "driver": device["driver"],
                    "pool": device["pool"],
                    "device": device["device"],
                    "networkData": {"interfaceName": "net1", "ips": ["10.9.8.7/24"]},
                }
            ]
        }
    }


def test_policies_keep_admin_access_to_labelled_namespaces(cats: Kubectl) -> None:
    policies, template = str(CATS / "admin-access-policies.yaml"), str(CATS / "admin-access.yaml")
    cats("apply", "-f", policies)
    refused = until(lambda: cats.run("apply", "--dry-run=server", "-f", template), lambda done: bool(done.returncode))
    assert "denied request: admin access to devices not enabled" in refused.stderr
    claim = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "spy"},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "x", "adminAccess": True}]}},
    }
    refused = cats.run("create", "-f", "-", stdin=json.dumps(claim))
    assert "is forbidden: ValidatingAdmissionPolicy 'resourceclaim-policy.dra.example.com'" in refused.stderr
    cats("create", "namespace", "monitors")
    cats("label", "namespace", "monitors", "admin-access.dra.example.com=")
    until(lambda: cats.run("apply", "-n", "monitors", "-f", template), lambda done: done.returncode == 0)
    cats("delete", "namespace", "monitors", timeout=150)
    cats("delete", "-f", policies)


def test_drivers_report_the_state_of_devices(cats: Kubectl, pod_with_cats: str) -> None:
    name = get(cats, "resourceclaims")["items"][0]["metadata"]["name"]
    body = json.dumps(reported(cats, name))
    cats("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", body)
    (device,) = get(cats, "resourceclaim", name)["status"]["devices"]
    assert device["networkData"]["ips"] == ["10.9.8.7/24"]
    wrong = json.loads(body)
    wrong["status"]["devices"][0]["device"] = "not-allocated"
    refused = cats.run("patch", "resourceclaim", name, "--subresource=status", "--type=merge", "-p", json.dumps(wrong))
    assert "must be an allocated device in the claim" in refused.stderr
