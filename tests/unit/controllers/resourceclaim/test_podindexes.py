"""Pods are found by the claims and templates that they name, and by their PodGroup."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict
from cathedra.controllers.resourceclaim.podindexes import by_claim, by_group, by_template

ENTRIES = [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimTemplateName": "t"}]


def pod(**spec: Any) -> Pod:
    status = {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "p-b-x"}]}
    return from_dict(Pod, {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec, "status": status})


def test_named_and_generated_claims_are_known() -> None:
    assert set(by_claim(pod(resourceClaims=ENTRIES))) == {"ns/c", "ns/p-b-x"}
    assert list(by_claim(pod())) == []


def test_templates_are_known_by_name() -> None:
    assert list(by_template(pod(resourceClaims=ENTRIES))) == ["ns/t"]


def test_a_pod_of_a_group_is_found_by_it() -> None:
    assert list(by_group(pod(schedulingGroup={"podGroupName": "g"}))) == ["ns/g"]
    assert list(by_group(pod())) == []
