"""What a test driver has given away, and what is left."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.classic.controller.driver import WantedClaim
from cathedra.classic.testdriver.controller import AllocatedClaims
from cathedra.classic.testdriver.resources import TestResources


def claim(uid: str) -> v1alpha2.ResourceClaim:
    return v1alpha2.ResourceClaim(metadata=ObjectMeta(name=uid, uid=uid))


def counted(resources: TestResources, **nodes: str) -> AllocatedClaims:
    allocated = AllocatedClaims(resources)
    for uid, node in nodes.items():
        allocated.enter(claim(uid), node)
    return allocated


def test_claims_are_counted_until_they_are_taken_back() -> None:
    allocated = counted(TestResources(), a="n1", b="n1", c="")
    assert (allocated.statistics(), len(allocated), allocated.node_of(claim("a"))) == ({"n1": 2, "": 1}, 3, "n1")
    allocated.remove(claim("a"))
    allocated.remove(claim("a"))
    assert (allocated.statistics(), allocated.node_of(claim("a"))) == ({"n1": 1, "": 1}, None)


@pytest.mark.parametrize(
    ("resources", "node", "claims", "expected"),
    [
        (TestResources(), "n1", 99, True),
        (TestResources(nodes=("n2",)), "n1", 1, False),
        (TestResources(max_allocations=3), "n1", 1, False),
        (TestResources(max_allocations=4), "n1", 1, True),
        (TestResources(node_local=True, max_allocations=3), "n1", 1, True),
        (TestResources(node_local=True, max_allocations=3), "n1", 2, False),
    ],
)
def test_room_is_each_nodes_or_the_clusters(resources: TestResources, node: str, claims: int, expected: bool) -> None:
    assert counted(resources, a="n1", b="n1", c="n2").has_room(node, claims) is expected


def test_a_node_must_have_room_for_all_claims_that_are_not_allocated_yet() -> None:
    allocated = counted(TestResources(node_local=True, max_allocations=2), a="n1")
    wanted: list[WantedClaim[Any]] = [WantedClaim(claim(uid)) for uid in ("a", "b", "c")]
    allocated.exclude_nodes(wanted, ["n1", "n2"])
    assert [one.unsuitable_nodes for one in wanted] == [["n1"]] * 3
