"""Plans against fragmentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.insight.moving.defrag import defrag, defrag_text
from cathedra.insight.moving.search import MoveOptions
from cathedra.insight.reading.dumps import read_dump
from tests.unit.insight.moving.clusters import node, pod, state_of

FRAGMENTED = Path(__file__).parents[4] / "examples" / "insight" / "fragmented.yaml"


@pytest.mark.parametrize(("most", "after"), [(0, 4), (1, 5), (2, 6)])
def test_each_move_enlarges_the_largest_request(most: int, after: int) -> None:
    found = defrag(read_dump(FRAGMENTED), options=MoveOptions(moves=most))
    (room,) = found.classes
    assert (room.free, room.before, room.after) == (8, 4, after)
    assert len(found.moves) == most
    assert found.proved is (True if most else None)


def test_partitions_are_gathered_until_a_whole_device_is_free() -> None:
    parts = [node("a", 1, half=True), node("b", 1, half=True)]
    parts += [pod("one", 1, "a", ["gpu-0-a"], size=1), pod("two", 1, "b", ["gpu-0-b"], size=1)]
    whole = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "whole"},
        "spec": {"selectors": [{"cel": {"expression": "device.attributes['gpu.example.com'].size == 2"}}]},
    }
    found = defrag(state_of(*parts, [whole]), "whole", options=MoveOptions(moves=4))
    (room,) = found.classes
    assert (room.before, room.after) == (0, 1)
    assert len(found.moves) == 1


def test_a_class_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no device class 'x'"):
        defrag(state_of(node("a", 1)), "x")


def test_a_cluster_without_fragmentation_is_left_alone() -> None:
    found = defrag(state_of(node("a", 2)))
    assert not found.better
    assert "no moves enlarge the largest request of a class" in defrag_text(found)
