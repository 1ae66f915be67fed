"""The fewest moves: as many as exhaustive search over all sets, orders and nodes finds."""

from __future__ import annotations

from random import Random

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.insight.moving.movable import Movables, movables
from cathedra.insight.moving.search import MoveOptions, fewest_moves
from cathedra.insight.reading.state import ClusterState
from tests.unit.insight.moving.clusters import node, pod, random_cluster, state_of
from tests.unit.insight.moving.exhaustive import fewest_by_trying_all

MOVES_ONLY = MoveOptions(evict=False, trials=100_000)


def asked(state: ClusterState, names: list[str]) -> tuple[Movables, list[Pod]]:
    found = [state.get(Pod, name, "default") for name in names]
    pods = [one for one in found if one is not None]
    return movables(state, pods[0].spec.priority or 0, [one.metadata.uid for one in pods]), pods


@pytest.mark.parametrize("seed", range(25))
def test_the_number_of_moves_is_that_of_exhaustive_search(seed: int) -> None:
    state, names = random_cluster(Random(seed))
    known, pods = asked(state, names)
    found = fewest_moves(known, pods, MOVES_ONLY)
    assert found.complete
    assert (found.solution.size if found.solution is not None else None) == fewest_by_trying_all(
        known, pods, MOVES_ONLY.moves
    )


def test_a_pod_that_fits_moves_nothing() -> None:
    state = state_of(node("a", 4), pod("new", 2))
    found = fewest_moves(*asked(state, ["new"]))
    assert found.solution is not None
    assert found.solution.moved == ()


def test_one_claim_makes_room_for_five_devices_on_two_half_free_nodes() -> None:
    parts = [node("a", 8), node("b", 8)]
    for name in ("a", "b"):
        parts += [pod(f"{name}-{number}", 1, name, [f"gpu-{number}"]) for number in range(4)]
    found = fewest_moves(*asked(state_of(*parts, pod("new", 5)), ["new"]))
    assert found.solution is not None
    (unit,) = found.solution.moved
    assert unit.name == "default/a-0"
    moved = found.solution.world.state.get(Pod, "a-0", "default")
    assert moved is not None
    assert moved.spec.node_name == "b"


def test_a_move_may_need_another_move() -> None:
    # «big» fits on c only if «small» goes to b first.
    parts = [node("a", 4), node("b", 1), node("c", 3)]
    parts += [pod("big", 3, "a", ["gpu-0", "gpu-1", "gpu-2"]), pod("small", 1, "c", ["gpu-0"])]
    found = fewest_moves(*asked(state_of(*parts, pod("new", 4)), ["new"]))
    assert found.solution is not None
    assert sorted(unit.name for unit in found.solution.moved) == ["default/big", "default/small"]


def test_pods_of_higher_priority_are_not_moved() -> None:
    parts = [node("a", 2), node("b", 1), pod("old", 1, "a", ["gpu-0"], priority=10), pod("new", 2, priority=5)]
    known, pods = asked(state_of(*parts), ["new"])
    assert fewest_moves(known, pods).solution is None
    assert [one.why for one in known.staying] == ["its priority is higher"]


def test_pods_of_lower_priority_are_evicted_only_if_no_move_helps() -> None:
    parts = [node("a", 1), pod("old", 1, "a", ["gpu-0"], priority=1), pod("new", 1, priority=5)]
    found = fewest_moves(*asked(state_of(*parts), ["new"])).solution
    assert found is not None
    assert [one.metadata.name for one in found.evicted] == ["old"]
    moved = fewest_moves(*asked(state_of(*parts, node("b", 1)), ["new"])).solution
    assert moved is not None
    assert moved.moved == ()


def test_pods_of_equal_priority_are_never_evicted_for_good() -> None:
    parts = [node("a", 1), pod("old", 1, "a", ["gpu-0"]), pod("new", 1)]
    assert fewest_moves(*asked(state_of(*parts), ["new"])).solution is None


def test_the_bound_on_trials_ends_the_search_and_is_reported() -> None:
    parts = [node("a", 2), node("b", 1), pod("old", 1, "a", ["gpu-0"]), pod("new", 2)]
    found = fewest_moves(*asked(state_of(*parts), ["new"]), MoveOptions(trials=3))
    assert found.solution is None
    assert not found.complete
    assert found.trials == 3


def test_among_equally_many_moves_that_with_least_harm_is_chosen() -> None:
    parts = [node("a", 2), node("b", 2), node("c", 1)]
    parts += [pod("dear", 1, "a", ["gpu-0"], priority=4), pod("cheap", 1, "b", ["gpu-0"], priority=1)]
    found = fewest_moves(*asked(state_of(*parts, pod("new", 2, priority=5)), ["new"])).solution
    assert found is not None
    assert [unit.name for unit in found.moved] == ["default/cheap"]
