"""1.33 as a program: its taint rules choose devices by class and expression; with the kubectl of that release where it
is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.integration.conftest import Kubectl, RunningCluster
from tests.mission.introduction import eventually

ON = (
    "--kubernetes-version=1.33",
    "--feature-gates=DynamicResourceAllocation=true,DRADeviceTaints=true",
    "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true,resource.k8s.io/v1alpha3=true",
    "--runtime=simulated",
)
CLASS = "gpu.example.com"


def manifest(kind: str, name: str, spec: dict[str, Any], api_version: str = "resource.k8s.io/v1beta2") -> str:
    return json.dumps({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec})


def rule(name: str, effect: str, expression: str) -> str:
    chosen = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    taint = {"key": "example.com/broken", "effect": effect}
    spec = {"deviceSelector": chosen, "taint": taint}
    return manifest("DeviceTaintRule", name, spec, "resource.k8s.io/v1alpha3")


def device_class() -> str:
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    return manifest("DeviceClass", CLASS, {"selectors": [selector]})


def claim(name: str) -> str:
    request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "allocationMode": "All"}}
    return manifest("ResourceClaim", name, {"devices": {"requests": [request]}})


def pod(name: str) -> str:
    container = {"name": "c", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    return manifest(
        "Pod",
        name,
        {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimName": name}]},
        "v1",
    )


def test_rules_by_class_and_expression_keep_pods_waiting_and_evict_them(
    start_cluster: Callable[..., RunningCluster],
) -> None:
    kubectl = Kubectl(start_cluster(*ON)).of_release("1.33")
    kubectl("apply", "-f-", stdin=device_class())
    kubectl("apply", "-f-", stdin=rule("elsewhere", "NoExecute", 'device.driver == "other.example.com"'))
    kubectl("apply", "-f-", stdin=rule("here", "NoSchedule", f'device.driver == "{CLASS}"'))
    kubectl("apply", "-f-", stdin=claim("waits") + pod("waits"))
    kubectl("wait", "--for=condition=PodScheduled=False", "pod/waits", "--timeout=90s", timeout=120)
    reason = kubectl("get", "pod", "waits", "-o", "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}")
    assert "cannot allocate all claims" in reason

    kubectl("delete", "devicetaintrule", "here")
    kubectl("wait", "--for=condition=Ready", "pod/waits", "--timeout=90s", timeout=120)

    kubectl("apply", "-f-", stdin=rule("here", "NoExecute", f'device.driver == "{CLASS}"'))
    assert eventually(lambda: not kubectl("get", "pods", "--no-headers", "--ignore-not-found"))
    told = kubectl("get", "events", "--field-selector=reason=DeviceTaintManagerEviction", "-o", "name")
    assert told.split(), "an eviction is told of by an event"
