"""Quotas: rows, and the charge of objects."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap, PersistentVolumeClaim, ResourceQuota, Service
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import from_dict
from cathedra.kinds.core.quotas import count_name, object_usage
from tests.unit.kinds.objects import context, definition_of, problems_of, row, texts


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


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}, []),
        ({"hard": {"example.com/gpu": "1"}, "scopes": ["BestEffort"]}, []),
        ({"hard": {"pods": "500m"}}, ['spec.hard[pods]: Invalid value: "500m": must be an integer']),
        ({"hard": {"storage": "1"}}, ['spec.hard[storage]: Invalid value: "storage": must be a standard resource for']),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
            ['spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'],
        ),
        ({"scopes": ["Foo"]}, ['spec.scopes: Invalid value: ["Foo"]: unsupported scope']),
        (
            {"scopes": ["Terminating", "NotTerminating"]},
            ['spec.scopes: Invalid value: ["Terminating","NotTerminating"]: conflicting scopes'],
        ),
    ],
)
def test_a_quota_limits_what_its_scopes_have(spec: dict[str, Any], wanted: list[str]) -> None:
    found = problems_of("resourcequotas", ResourceQuota, {"spec": spec})
    assert [text.startswith(begin) for text, begin in zip(found, wanted, strict=True)] == [True] * len(wanted)


@pytest.mark.parametrize(
    ("requirement", "wanted"),
    [
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["x"]}, ""),
        ({"scopeName": "BestEffort", "operator": "Exists"}, ""),
        (
            {"scopeName": "PriorityClass", "operator": "In"},
            "values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        (
            {"scopeName": "PriorityClass", "operator": "Exists", "values": ["x"]},
            "values: Invalid value: [\"x\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist'",
        ),
        ({"scopeName": "PriorityClass", "operator": "Foo"}, 'operator: Invalid value: "Foo": not a valid selector'),
        ({"scopeName": "BestEffort", "operator": "DoesNotExist"}, 'operator: Invalid value: "DoesNotExist": must be'),
        ({"scopeName": "Foo", "operator": "Exists"}, 'scopeName: Invalid value: "Foo": unsupported scope'),
    ],
)
def test_a_selector_of_scopes_is_checked(requirement: dict[str, Any], wanted: str) -> None:
    spec = {"hard": {"example.com/gpu": "1"}, "scopeSelector": {"matchExpressions": [requirement]}}
    found = problems_of("resourcequotas", ResourceQuota, {"spec": spec})
    assert len(found) == bool(wanted)
    assert all(text.startswith(f"spec.scopeSelector.matchExpressions.{wanted}") for text in found)


def test_the_scopes_of_a_quota_stay() -> None:
    strategy = definition_of("resourcequotas").strategy
    old, new = (from_dict(ResourceQuota, {"spec": {"scopes": scopes}}) for scopes in (["BestEffort"], []))
    assert texts(strategy.validate_update(new, old, context())) == [
        "spec.scopes: Invalid value: null: field is immutable"
    ]


@pytest.mark.parametrize(("release", "kept"), [("1.37", False), ("1.38", True)])
def test_an_update_keeps_amounts_that_an_older_release_accepted(release: str, kept: bool) -> None:
    """kubernetes/kubernetes#142190."""
    definition = definition_of("resourcequotas")
    spec, hard = {"hard": {"pods": "1500m"}}, 'hard[pods]: Invalid value: "1500m": must be an integer'
    old = from_dict(ResourceQuota, {"spec": spec})
    relabelled = from_dict(ResourceQuota, {"metadata": {"labels": {"a": "b"}}, "spec": {"hard": {"pods": "1.5"}}})
    found = texts(definition.strategy.validate_update(relabelled, old, context(release)))
    assert [text.replace('"1.5"', '"1500m"') for text in found] == ([] if kept else [f"spec.{hard}"])
    counted = from_dict(ResourceQuota, {"spec": spec, "status": {**spec, "used": {"pods": "1500m"}}})
    status = definition.subresources["status"]
    hards = [] if kept else [f"status.{hard}"]
    used = f"status.{hard.replace('hard', 'used')}"
    assert texts(status.validate_update(counted, old, context(release))) == [*hards, used]
    assert texts(status.validate_update(counted, counted, context(release))) == ([] if kept else [*hards, used])


def test_a_changed_amount_is_checked_as_on_create() -> None:
    strategy = definition_of("resourcequotas").strategy
    old, new = (from_dict(ResourceQuota, {"spec": {"hard": {"pods": amount}}}) for amount in ("1500m", "2500m"))
    assert texts(strategy.validate_update(new, old, context("1.38"))) == [
        'spec.hard[pods]: Invalid value: "2500m": must be an integer'
    ]
