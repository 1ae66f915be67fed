"""Further copies of a whole gang that fit."""

from __future__ import annotations

from typing import Any

from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.report import Copies, simulation_text
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.insight.moving.clusters import CLASS, node

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "TopologyAwareWorkloadScheduling": True}


def cluster(**racks: int) -> ClusterState:
    """Return nodes with a number of GPUs, each in the rack of its first letter."""
    objects = [CLASS]
    for name, gpus in racks.items():
        for one in node(name, gpus):
            if one["kind"] == "Node":
                one["metadata"].setdefault("labels", {})["rack"] = name[0]
            objects.append(one)
    return read_dump(objects, release="1.37", feature_gates=GATES)


def gang(size: int, **spec: Any) -> list[dict[str, Any]]:
    meta = {"namespace": "default"}
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    template = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "name": f"p-{number}"},
            "spec": {
                "schedulingGroup": {"podGroupName": "g"},
                "containers": [{"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}],
            },
        }
        for number in range(size)
    ]
    group = {"schedulingPolicy": {"gang": {"minCount": size}}, **spec}
    api = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup"}
    claims = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    return [
        {**api, "metadata": {**meta, "name": "g"}, "spec": group},
        {**claims, "metadata": {**meta, "name": "one"}, "spec": template},
        *pods,
    ]


def copies(state: ClusterState, manifests: list[dict[str, Any]]) -> Copies:
    (found,) = simulate(state, PlannedChanges(apply=manifests), copies=20).copies
    return found


def test_a_copy_counts_if_the_whole_gang_fits() -> None:
    # Eight GPUs: the gang itself, one copy, and two GPUs that are not enough for another.
    found = copies(cluster(a1=4, b1=4), gang(3))
    assert (found.of, found.more, found.limited, sum(found.nodes.values())) == ("gang default/g", 1, False, 3)


def test_copies_are_counted_by_the_domain_of_the_gang() -> None:
    constraint = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    state = cluster(a1=2, a2=2, b1=3)
    # Rack a has room for two gangs, b for one: the gang takes one of these places.
    found = copies(state, gang(2, **constraint))
    assert found.more == sum(found.domains.values()) == 2
    text = simulation_text(simulate(state, PlannedChanges(apply=gang(2, **constraint)), copies=20))
    assert "gang default/g: 2 more would fit (" in text
    assert " in a" in text


def test_copies_are_counted_by_the_classes_of_the_alternatives_that_were_chosen() -> None:
    constraint = {"schedulingConstraints": {"topology": [{"key": "rack"}]}}
    manifests = gang(1, **constraint)
    other = {**CLASS, "metadata": {"name": "big"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    subs = [{"name": name, "deviceClassName": name} for name in ("big", "gpu")]
    manifests[1]["spec"]["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": subs}]
    found = copies(cluster(a1=2, b1=2), [other, *manifests])
    assert {(one.device_classes, one.domain) for one in found.rooms} == {(("gpu",), "a"), (("gpu",), "b")}
    assert sum(one.copies for one in found.rooms) == found.more == 3


def test_a_gang_with_an_annotation_of_joint_placement_is_simulated_with_it() -> None:
    manifests = gang(2)
    manifests[0]["metadata"]["annotations"] = {"scheduling.cathedra.dev/same-node-label": "rack"}
    found = simulate(cluster(a1=1, b1=2, c1=1), PlannedChanges(apply=manifests), copies=20)
    assert {one.node for one in found.placed} == {"b1"}
    assert any("simulated with that plugin" in note.text for note in found.notes)
    assert "simulated with that plugin" not in simulation_text(simulate(cluster(a1=2), PlannedChanges(apply=gang(2))))
