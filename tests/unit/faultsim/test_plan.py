"""Plans: what a seed decides, what a user decides, and the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cathedra.faultsim.plan import (
    ACTIONS,
    BINDING_GATES,
    FAULTS,
    InvalidPlan,
    Options,
    draw,
    part_names,
    plan_text,
    read_plan,
)
from cathedra.releases import FeatureGates


def test_a_seed_draws_the_same_plan_each_time_and_another_seed_another() -> None:
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)


def test_seeds_enable_different_faults_actions_and_gates() -> None:
    plans = [draw(seed) for seed in range(40)]
    kinds = [frozenset(step.do for step in plan.steps) for plan in plans]
    assert len(set(kinds)) == len(kinds)
    assert set().union(*kinds) >= set(FAULTS)
    assert set().union(*kinds) <= {*FAULTS, *ACTIONS}
    assert len({tuple(plan.setup.gates.items()) for plan in plans}) > 10
    assert {plan.setup.servers for plan in plans} == {plan.setup.schedulers for plan in plans} == {1, 2}
    active = [plan.setup for plan in plans if not plan.setup.elected]
    assert {setup.named for setup in active} == {True, False}
    assert {(setup.servers, setup.schedulers) for setup in active} == {(1, 2), (2, 2)}


def test_options_take_decisions_from_the_seed() -> None:
    plan = draw(1, Options(hours=2.0, nodes=4, release="1.36", gates="DRAConsumableCapacity=false", faults=("kill",)))
    assert (plan.hours, plan.setup.nodes, plan.setup.release) == (2.0, 4, "1.36")
    assert plan.setup.gates["DRAConsumableCapacity"] is False
    assert {step.do for step in plan.steps} & set(FAULTS) == {"kill"}
    assert max(step.at for step in plan.steps) <= 2 * 3600
    assert not {step.do for step in draw(1, Options(faults=())).steps} & set(FAULTS)


def test_devices_with_binding_conditions_keep_their_gates_in_every_release() -> None:
    setups = [setup for seed in range(80) if (setup := draw(seed, Options(release="1.36")).setup).binding]
    assert setups
    for setup in setups:
        before = FeatureGates.for_release("1.35", {gate: setup.gates[gate] for gate in BINDING_GATES})
        assert all(before[gate] for gate in BINDING_GATES)


@pytest.mark.parametrize(
    "options", [Options(release="1.26"), Options(gates="Nothing=true"), Options(gates="x"), Options(faults=("rain",))]
)
def test_options_that_cannot_be_met_are_refused(options: Options) -> None:
    with pytest.raises(InvalidPlan):
        draw(1, options)


def test_a_plan_is_read_back_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    plan = draw(3)
    file.write_bytes(plan_text(plan))
    assert read_plan(file) == plan


@pytest.mark.parametrize("text", ["", "{}", '{"format":2,"seed":1,"hours":1,"setup":{"release":"x"}}'])
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(InvalidPlan):
        read_plan(file)


def test_unknown_steps_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(plan_text(draw(3)).replace(b'"do":"pod"', b'"do":"dance"'))
    with pytest.raises(InvalidPlan, match="dance"):
        read_plan(file)


def test_every_part_has_a_name() -> None:
    names = part_names(draw(0, Options(nodes=2)).setup)
    assert {"controllers", "node-0", "driver-1", "server-0", "scheduler-0"} <= set(names)


# The error of a plan.


def test_the_error_of_a_plan_names_what_is_wrong_and_what_is_known() -> None:
    with pytest.raises(InvalidPlan, match="unknown faults: rain; known are: lost-requests"):
        draw(1, Options(faults=("rain",)))
