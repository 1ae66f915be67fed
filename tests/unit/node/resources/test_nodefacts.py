"""What a pod may want to know of its node."""

from __future__ import annotations

from cathedra.api.quantity import Quantity
from cathedra.node.resources.nodefacts import NodeFacts
from tests.unit.node.fakes import GATES


def test_memory_is_in_bytes_and_none_if_the_node_says_nothing() -> None:
    assert NodeFacts("10.0.0.1", {"memory": Quantity("2Ki")}, GATES).memory == 2048
    assert NodeFacts("10.0.0.1", {}, GATES).memory == 0
