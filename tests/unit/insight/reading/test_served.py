"""API versions that the cluster of a state serves."""

from __future__ import annotations

from dataclasses import replace

from cathedra.api.scheme import GroupVersionKind
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.served import served_check, served_versions
from tests.unit.cli.dra.dumps import gpu_cluster

GATES = {"DynamicResourceAllocation": True}
CLAIM = GroupVersionKind("resource.k8s.io", "v1", "ResourceClaim")


def test_a_release_does_not_serve_the_versions_of_later_ones() -> None:
    is_served = served_check(read_dump(gpu_cluster(), release="1.33", feature_gates=GATES))
    assert [is_served(CLAIM._replace(version=version)) for version in ("v1beta1", "v1beta2", "v1")] == [
        True,
        True,
        False,
    ]
    assert served_check(read_dump(gpu_cluster()))(CLAIM)


def test_a_version_of_devices_is_served_wherever_the_gate_is_on() -> None:
    """Nothing could be allocated otherwise; a dump without objects of the group names no version."""
    served = served_versions(
        read_dump([{"apiVersion": "v1", "kind": "NodeList", "items": []}], release="1.33", feature_gates=GATES)
    )
    assert served["resource.k8s.io/v1beta1"]


def test_a_cluster_with_the_gate_for_groups_but_without_their_api_serves_none() -> None:
    """Its jobs fail, and those of the copy must fail as they do."""
    gates = {"GenericWorkload": True}
    state = read_dump(gpu_cluster(), release="1.37", feature_gates=gates)
    groups = [one for one, on in served_versions(state).items() if on and one.startswith("scheduling.k8s.io/")]
    assert groups
    live = replace(state, served=dict.fromkeys(groups, False))
    assert not any(on for one, on in served_versions(live).items() if one.startswith("scheduling.k8s.io/"))
