"""Claims are counted by state and origin."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict
from cathedra.client.store import Store
from cathedra.controllers.resourceclaim.metrics import count_claims, show_claims, show_creations
from cathedra.releases import FeatureGates


def claim(*, allocated: bool = False, admin: bool = False, **annotations: str) -> ResourceClaim:
    named = {f"resource.kubernetes.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    request = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": admin}}
    values: dict[str, Any] = {
        "metadata": {"name": "c", "namespace": "default", "annotations": named},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {}} if allocated else {},
    }
    return from_dict(ResourceClaim, values)


def test_state_admin_access_and_origin_are_told_apart() -> None:
    claims = [
        claim(),
        claim(allocated=True, pod_claim_name="gpu"),
        claim(allocated=True, pod_claim_name="gpu"),
        claim(admin=True),
        claim(extended_resource_claim="true"),
    ]
    assert count_claims(claims) == {
        ("false", "false", ""): 1,
        ("true", "false", "resource_claim_template"): 2,
        ("false", "true", ""): 1,
        ("false", "false", "extended_resource"): 1,
    }


@pytest.mark.parametrize(
    ("release", "name"),
    [("1.36", "resourceclaim_controller_resource_claims"), ("1.37", "dynamic_resource_allocation_resource_claims")],
)
def test_the_metric_has_the_name_of_its_release(release: str, name: str) -> None:
    registry = CollectorRegistry()
    store: Store[ResourceClaim] = Store()
    show_claims(registry, store, FeatureGates.for_release(release))
    labels = {"allocated": "false", "admin_access": "false", "source": ""}
    assert registry.get_sample_value(name, labels) is None
    store.put(claim())
    assert registry.get_sample_value(name, labels) == 1


@pytest.mark.parametrize(
    ("release", "name"),
    [
        ("1.36", "resourceclaim_controller_creates_total"),
        ("1.37", "dynamic_resource_allocation_resourceclaim_creates_total"),
    ],
)
def test_creations_have_the_name_of_the_release(release: str, name: str) -> None:
    registry = CollectorRegistry()
    show_creations(registry, {("success", "true"): 2}, FeatureGates.for_release(release))
    assert registry.get_sample_value(name, {"status": "success", "admin_access": "true"}) == 2


def test_releases_before_labels_count_all_claims_and_failures() -> None:
    registry, gates = CollectorRegistry(), FeatureGates.for_release("1.32")
    store: Store[ResourceClaim] = Store()
    store.put(claim(allocated=True))
    show_claims(registry, store, gates)
    show_creations(registry, {("success", "true"): 2, ("failure", "false"): 1}, gates)
    names = ("resource_claims", "allocated_resource_claims", "create_attempts_total", "create_failures_total")
    assert [registry.get_sample_value(f"resourceclaim_controller_{name}") for name in names] == [1, 1, 3, 1]
    assert registry.get_sample_value("resourceclaim_controller_creates_total") is None
