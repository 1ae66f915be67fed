"""The history of feature gates."""

from __future__ import annotations

from cathedra.releases import RELEASES, Stage, order
from cathedra.releases.history import HISTORY, NEEDS


def test_a_gates_states_are_in_order_and_begin_in_known_releases() -> None:
    for gate, states in HISTORY.items():
        begins = [state.since for state in states]
        assert begins == sorted(begins, key=order), gate
        assert set(begins) <= set(RELEASES), gate


def test_a_gate_never_goes_back_to_an_earlier_stage_unless_it_is_removed() -> None:
    rank = {Stage.ALPHA: 0, Stage.BETA: 1, Stage.GA: 2}
    for gate, states in HISTORY.items():
        stages = [rank[state.stage] for state in states if not state.removed]
        assert stages == sorted(stages), gate


def test_a_gate_needs_only_gates_that_exist() -> None:
    assert set(NEEDS) <= set(HISTORY)
    assert {need for needs in NEEDS.values() for need in needs} <= set(HISTORY)
