"""Quotas: rows, and the charge of objects."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap, PersistentVolumeClaim, ResourceQuota, Service
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import from_dict
from cathedra.kinds.core.quotas import count_name, object_usage
from tests.unit.kinds.objects import row


def charge(plural: str, obj: Any) -> dict[str, str]:
    return {name: str(amount) for name, amount in object_usage(GroupResource("", plural), obj).items()}


def test_a_row_tells_requests_from_limits() -> None:
    status = {"hard": {"pods": "3", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "1", "limits.cpu": "1"}}
    found = row("resourcequotas", from_dict(ResourceQuota, {"status": status}))
    assert (found["Request"], found["Limit"]) == ("cpu: 0/2, pods: 1/3", "limits.cpu: 1/4")


def test_every_object_counts_by_resource_and_group() -> None:
    assert count_name(GroupResource("batch", "jobs")) == "count/jobs.batch"
    assert charge("configmaps", ConfigMap()) == {"count/configmaps": "1", "configmaps": "1"}


@pytest.mark.parametrize(
    ("spec", "more"),
    [
        ({"type": "ClusterIP"}, {}),
        ({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}]}, {"services.nodeports": "2"}),
        ({"type": "LoadBalancer", "ports": [{"port": 1}]}, {"services.loadbalancers": "1", "services.nodeports": "1"}),
        (
            {"type": "LoadBalancer", "ports": [{"port": 1}], "allocateLoadBalancerNodePorts": False},
            {"services.loadbalancers": "1", "services.nodeports": "0"},
        ),
    ],
)
def test_a_service_is_charged_for_ports_and_balancers(spec: dict[str, Any], more: dict[str, str]) -> None:
    found = charge("services", from_dict(Service, {"spec": spec}))
    assert found == {"count/services": "1", "services": "1", **more}


def test_a_volume_claim_is_charged_for_storage_by_class() -> None:
    values = {"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}}
    assert charge("persistentvolumeclaims", from_dict(PersistentVolumeClaim, values)) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
    }
