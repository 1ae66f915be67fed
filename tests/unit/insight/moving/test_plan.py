"""Plans of moves: steps, and their proof by a simulation."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.insight.moving.plan import plan_moves
from cathedra.insight.moving.report import MovePlan, moves_text
from cathedra.insight.moving.search import MoveOptions
from cathedra.insight.reading.dumps import read_dump
from tests.unit.insight.moving.clusters import node, pod, state_of

FRAGMENTED = Path(__file__).parents[4] / "examples" / "insight" / "fragmented.yaml"


def actions(plan: MovePlan) -> list[tuple[str, str]]:
    return [(step.action, step.subject) for step in plan.steps]


def test_one_move_makes_room_on_two_half_free_nodes_and_a_simulation_confirms_it() -> None:
    plan = plan_moves(read_dump(FRAGMENTED), ["pod/train"])
    (move,) = plan.moves
    assert (move.pod, move.from_, move.to, move.bare) == ("default/serve-0", "node-0", "node-1", False)
    assert actions(plan) == [("cordon", "node-0"), ("evict", "default/serve-0"), ("uncordon", "node-0")]
    assert plan.proved
    assert plan.complete
    assert plan.placed[0].node == "node-0"


def test_pods_are_evicted_after_those_that_make_room_for_them() -> None:
    parts = [node("a", 4), node("b", 1), node("c", 3)]
    parts += [pod("big", 3, "a", ["gpu-0", "gpu-1", "gpu-2"]), pod("small", 1, "c", ["gpu-0"])]
    plan = plan_moves(state_of(*parts, pod("new", 4)), ["pod/new"])
    assert actions(plan) == [
        ("cordon", "c"),
        ("recreate", "default/small"),
        ("uncordon", "c"),
        ("cordon", "a"),
        ("recreate", "default/big"),
        ("uncordon", "a"),
    ]
    assert plan.proved


def test_pods_of_a_manifest_are_counted() -> None:
    wanted = [one for one in pod("new", 2) if one["kind"] == "ResourceClaim"]
    state = state_of(node("a", 4), node("b", 4))
    assert plan_moves(state, manifests=wanted, count=4).verdict == "fits"
    assert plan_moves(state, manifests=wanted, count=5).verdict == "no moves found"


def test_a_claim_without_a_consumer_is_freed() -> None:
    parts = [node("a", 2), node("b", 1), pod("new", 2)]
    _, claim = pod("old", 1, "a", ["gpu-0"])
    claim["status"]["reservedFor"] = []
    plan = plan_moves(state_of(*parts, [claim]), ["pod/new"])
    assert actions(plan) == [("free", "default/old")]
    assert plan.proved


def test_a_pod_without_another_place_is_evicted_for_good_if_its_priority_is_lower() -> None:
    parts = [node("a", 1), pod("old", 1, "a", ["gpu-0"]), pod("new", 1, priority=5)]
    plan = plan_moves(state_of(*parts), ["pod/new"])
    assert [(move.pod, move.to) for move in plan.moves] == [("default/old", "")]
    assert "default/old: a → no node: it stays pending" in moves_text(plan)
    assert plan_moves(state_of(*parts), ["pod/new"], options=MoveOptions(evict=False)).verdict == "no moves found"


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ("pod/none", "there is no pod 'none'"),
        ("pod/old", "pod default/old has a node already: a"),
        ("claim/old", "claim default/old has devices already"),
        ("train", "there is no pod 'train'"),
        ("thing/train", "'thing/train' is not of the form KIND/NAME"),
    ],
)
def test_what_does_not_wait_is_refused(subject: str, text: str) -> None:
    with pytest.raises(InvalidInput, match=text):
        plan_moves(state_of(node("a", 1), pod("old", 1, "a", ["gpu-0"])), [subject])


def test_the_reasons_why_pods_stay_are_shown_if_no_moves_are_found() -> None:
    parts = [node("a", 2), pod("old", 1, "a", ["gpu-0"], priority=9), pod("new", 2, priority=5)]
    text = moves_text(plan_moves(state_of(*parts), ["pod/new"]))
    assert "not moved: default/old: its priority is higher" in text
    assert "no moves of up to 8 claims make room" in text
