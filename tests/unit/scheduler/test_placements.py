"""Placements are the nodes that share a topology label."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from cathedra.scheduler.placements import domains, utilisation
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.snapshot import Snapshot
from tests.unit.scheduler.objects import node, pod


def snapshot() -> Snapshot:
    cache = Cache()
    for name, rack in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("none", "")):
        cache.set_node(node(name, cpu="4", labels={"rack": rack} if rack else {}))
    cache.add_pod(pod("p", requests={"cpu": "2"}, nodeName="b1"))
    return cache.snapshot()


@pytest.mark.parametrize(
    ("within", "placed", "wanted"),
    [
        (None, (), [{"a1", "a2"}, {"b1"}]),
        (frozenset({"a2", "b1"}), (), [{"a2"}, {"b1"}]),
        (None, ("a2",), [{"a1", "a2"}]),
        (None, ("a2", "b1"), []),
        (None, ("none",), []),
    ],
)
def test_each_value_of_the_label_is_a_domain(
    within: frozenset[str] | None, placed: Collection[str], wanted: list[set[str]]
) -> None:
    assert domains(snapshot(), "rack", within, placed) == wanted


def test_the_fuller_placement_has_the_greater_utilisation() -> None:
    state = snapshot()
    assert utilisation(state, frozenset({"b1"})) > utilisation(state, frozenset({"a1", "a2"})) == 0.0
