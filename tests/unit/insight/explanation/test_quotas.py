"""Quotas are told in the words of the API server, and only those that stand in the way."""

from __future__ import annotations

from typing import Any

from cathedra.insight.explanation.quotas import exceeded_quotas
from cathedra.insight.explanation.subjects import with_claims
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import Object, device_class, node, pod, quota, request, template

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def told(hard: Object, used: Object, count: int = 2, **more: Any) -> list[str]:
    given = quota(hard, used)
    given["metadata"].update(more)
    state = read_dump([node(), device_class(), template("t", request("gpu", "gpu", count)), pod("template:t"), given])
    subject = with_claims(state.pods[0], state)
    claims = [one for one in subject.state.cluster.claims.values() if one.metadata.name in subject.made]
    return list(exceeded_quotas(None, claims, state))


def test_devices_of_a_class_are_counted_as_they_are_asked_for() -> None:
    assert told({DEVICES: "3"}, {DEVICES: "2"}) == [
        f"exceeded quota: limits, requested: {DEVICES}=2, used: {DEVICES}=2, limited: {DEVICES}=3"
    ]


def test_a_quota_with_room_is_not_told() -> None:
    assert told({DEVICES: "4"}, {DEVICES: "2"}) == []


def test_quotas_of_other_namespaces_do_not_count() -> None:
    assert told({DEVICES: "0"}, {}, namespace="other") == []
