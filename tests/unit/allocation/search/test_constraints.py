"""Constraints as masks of the devices that may still join."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cathedra.allocation import Features
from cathedra.allocation.claims.requests import RequestOption
from cathedra.allocation.claims.tables import OptionTables, bases
from cathedra.allocation.search.candidates import Candidates
from cathedra.allocation.search.constraints import NodeConstraint
from cathedra.allocation.search.matching import positions
from tests.unit.allocation.building import World, claim, device, exactly, problem_of, resource_slice

LISTS = Features(list_type_attributes=True)


def posed(kind: str, *values: Any, features: Features | None = None) -> tuple[NodeConstraint, RequestOption]:
    """A constraint over devices with these values of «x»; None for a device without."""
    made = [
        device(f"d{number}", **({} if value is None else {"attributes": {"x": value}}))
        for number, value in enumerate(values)
    ]
    world = World([resource_slice(*made)], features=features or Features())
    prepared, problem = problem_of(world, [claim(exactly("r", 2), constraints=[{kind: "drv/x"}])])
    tables = OptionTables(prepared.plans, world.features, problem.supply.interner)
    rule = Candidates(problem, bases(tables, problem)).rules[0][0]
    assert isinstance(rule, NodeConstraint)
    return rule, tables.options[0]


def joining(rule: NodeConstraint, option: RequestOption, *placed: int, devices: int = 8) -> list[int]:
    state = rule.first
    for position in placed:
        state = rule.after(option, state, position)
    return list(positions(rule.admitted(option, state, (1 << devices) - 1)))


def test_a_device_without_the_attribute_never_joins() -> None:
    for kind in ("matchAttribute", "distinctAttribute"):
        rule, option = posed(kind, 1, None, 2)
        assert joining(rule, option) == [0, 2]
        assert rule.value(option, 1) is None


def test_values_match_by_type_and_value() -> None:
    rule, option = posed("matchAttribute", 1, "1", True, 1)
    assert joining(rule, option, 0) == [0, 3]
    assert joining(rule, option, 1) == [1]
    assert joining(rule, option, 2) == [2]


def test_values_differ_from_all_that_are_placed() -> None:
    rule, option = posed("distinctAttribute", 1, 2, 1, 3)
    assert joining(rule, option, 0) == [1, 3]
    assert joining(rule, option, 0, 1) == [3]
    assert not rule.mixed


def test_a_value_of_another_type_ends_the_comparison() -> None:
    """Kubernetes compares with the first value's type, until one of another type has come."""
    rule, option = posed("distinctAttribute", 1, "a", 2, 1)
    assert rule.mixed
    assert joining(rule, option, 0) == [1, 2]
    assert joining(rule, option, 0, 1) == [1, 2]
    after_another = rule.after(option, rule.after(option, rule.first, 0), 1)
    assert rule.after(option, after_another, 2) == after_another


def test_lists_match_by_what_all_have_in_common() -> None:
    rule, option = posed("matchAttribute", [1, 2], [2, 3], [1, 3], [2], features=LISTS)
    assert joining(rule, option, 0) == [0, 1, 2, 3]
    assert joining(rule, option, 0, 1) == [0, 1, 3]
    assert joining(rule, option, 0, 2) == [0, 2]


def test_lists_differ_if_no_element_was_there() -> None:
    rule, option = posed("distinctAttribute", [1, 2], [2, 3], [4], 3, features=LISTS)
    assert joining(rule, option, 0) == [2, 3]
    assert joining(rule, option, 0, 2) == [3]


@pytest.mark.parametrize(
    ("kind", "needed", "enough"),
    [
        ("matchAttribute", 2, True),
        ("matchAttribute", 3, False),
        ("distinctAttribute", 3, True),
        ("distinctAttribute", 4, False),
    ],
)
def test_enough_devices_agree_or_differ(kind: str, needed: int, enough: bool) -> None:
    rule, option = posed(kind, 1, 1, 2, 2, 3)
    assert rule.suffices(option, rule.first, 0b11111, needed) is enough


def test_once_a_value_is_placed_all_that_are_admitted_agree() -> None:
    rule, option = posed("matchAttribute", 1, 1, 2)
    placed = rule.after(option, rule.first, 0)
    assert rule.suffices(option, placed, 0b11, 3), "what is left was narrowed by the state already"


values = st.lists(st.integers(0, 3) | st.none(), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(values, st.data())
def test_matching_devices_are_those_with_the_first_ones_value(given_: list[int | None], data: st.DataObject) -> None:
    rule, option = posed("matchAttribute", *given_)
    comparable = [at for at, value in enumerate(given_) if value is not None]
    assert joining(rule, option) == comparable
    if comparable:
        first = data.draw(st.sampled_from(comparable))
        assert joining(rule, option, first) == [at for at in comparable if given_[at] == given_[first]]


@settings(max_examples=60, deadline=None)
@given(values, st.data())
def test_distinct_devices_are_those_with_a_new_value(given_: list[int | None], data: st.DataObject) -> None:
    rule, option = posed("distinctAttribute", *given_)
    placed: list[int] = []
    while True:
        seen = {given_[at] for at in placed}
        fresh = [at for at, value in enumerate(given_) if value is not None and value not in seen]
        assert joining(rule, option, *placed) == fresh
        if not fresh:
            return
        placed.append(data.draw(st.sampled_from(fresh)))
