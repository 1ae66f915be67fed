"""Nodes like one that is there."""

from __future__ import annotations

from cathedra.api.resource import ResourceSlice
from cathedra.insight.explanation.remedies import node_like
from cathedra.insight.reading.dumps import read_dump
from tests.insight.building import gpus, node


def test_a_node_like_another_has_its_labels_room_and_devices_under_its_own_name() -> None:
    state = read_dump([node(labels={"zone": "z1"}), gpus(2)])
    made, (piece,) = node_like(state.nodes[0], state.all(ResourceSlice))
    assert made.metadata.name == "n1-new"
    assert made.metadata.labels == {"kubernetes.io/hostname": "n1-new", "zone": "z1"}
    assert made.status.allocatable == state.nodes[0].status.allocatable
    assert (piece.spec.node_name, piece.spec.pool.name) == ("n1-new", "n1-new")
    assert piece.spec.devices == state.all(ResourceSlice)[0].spec.devices
