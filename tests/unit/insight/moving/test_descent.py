"""Moves that are found without going back, where the search is too large."""

from __future__ import annotations

import pytest

from cathedra.insight.moving.descent import first_moves
from cathedra.insight.moving.movable import movables
from cathedra.insight.moving.plan import plan_moves
from cathedra.insight.moving.search import MoveOptions
from cathedra.insight.moving.wanted import wanted_pods
from cathedra.insight.moving.world import World
from cathedra.insight.reading.state import ClusterState
from cathedra.insight.simulation.copying import complete
from tests.unit.insight.moving.clusters import node, pod, state_of

GPUS = [f"gpu-{number}" for number in range(4)]


def half_free() -> ClusterState:
    """Six nodes of four GPUs with one pod of one GPU each, and pods that want whole nodes."""
    running = [pod(f"old-{place}", 1, f"n{place}", GPUS[:1]) for place in range(6)]
    return state_of(*(node(f"n{place}", 4) for place in range(6)), *running, pod("big-0", 4), pod("big-1", 4))


def test_a_search_that_ends_at_its_bound_still_returns_moves() -> None:
    plan = plan_moves(half_free(), ["pod/big-0", "pod/big-1"], options=MoveOptions(trials=3))
    assert (plan.verdict, len(plan.claims), plan.complete) == ("fits after moves", 2, False)
    assert plan.proved, plan.proof


def found(state: ClusterState, subjects: list[str], most: int = 8) -> tuple[World, int] | None:
    wanted = wanted_pods(complete(state), subjects)
    known = movables(wanted.state, 0, [one.metadata.uid for one in wanted.pods])
    solution = first_moves(known, wanted.pods, most)
    return None if solution is None else (solution.world, solution.size)


def test_moved_pods_enter_the_fullest_node() -> None:
    state = state_of(
        *(node(name, 4) for name in ("a", "b", "c")),
        pod("x", 1, "a", GPUS[:1]),
        pod("y", 3, "b", GPUS[:3]),
        pod("z", 2, "c", GPUS[:2]),
        pod("big", 4),
    )
    after = found(state, ["pod/big"])
    assert after is not None
    world, size = after
    assert size == 1
    assert {one.metadata.name: one.spec.node_name for one in world.state.pods} == {
        "x": "b",
        "y": "b",
        "z": "c",
        "big": "a",
    }


@pytest.mark.parametrize(("most", "fits"), [(1, False), (2, True)])
def test_no_more_claims_are_moved_than_allowed(most: int, fits: bool) -> None:
    assert (found(half_free(), ["pod/big-0", "pod/big-1"], most) is not None) == fits


def test_nodes_without_a_movable_unit_are_not_cleared() -> None:
    state = state_of(node("a", 4), pod("old", 1, "a", GPUS[:1], priority=10), pod("big", 4))
    assert found(state, ["pod/big"]) is None
