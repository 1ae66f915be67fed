"""Parts of the walk of older releases."""

from __future__ import annotations

import pytest

from cathedra.allocation import RELEASE_1_36, Features
from cathedra.allocation.checks.values import Value
from cathedra.allocation.claims.problem import Problem
from cathedra.allocation.claims.requests import Constraint, RequestOption
from cathedra.allocation.search.exhaustive import admits, make_constraint
from tests.unit.allocation.building import World, claim, exactly, problem_of, resource_slice

ONE: Value = ("int", 1)
TWO: Value = ("int", 2)
MATCH = Constraint("drv/numa", frozenset(), distinct=False)
DISTINCT = Constraint("drv/numa", frozenset(), distinct=True)


def option() -> RequestOption:
    problem: Problem = problem_of(World([resource_slice("a")]), [claim(exactly("r"))])[1]
    return problem.requests[0][0].choices[0].option


@pytest.mark.parametrize(
    ("present", "groups", "admitted"),
    [({"a", "b"}, {"b"}, True), ({"a"}, {"b"}, False), (set(), set(), True), ({"a"}, set(), False)],
)
def test_a_device_joins_where_it_shares_a_group_or_where_none_has_any(
    present: set[str], groups: set[str], admitted: bool
) -> None:
    assert admits(frozenset(present), frozenset(groups)) is admitted


def test_values_that_match_are_entered_and_taken_back() -> None:
    constraint, asked = make_constraint(MATCH, Features()), option()
    assert constraint.add(asked, ONE)
    assert not constraint.add(asked, TWO)
    assert constraint.add(asked, ONE)
    constraint.remove(asked)
    constraint.remove(asked)
    assert constraint.add(asked, TWO)
    assert not constraint.add(asked, None)


def test_a_value_may_come_once_where_all_must_differ() -> None:
    constraint, asked = make_constraint(DISTINCT, Features()), option()
    assert constraint.add(asked, ONE)
    assert not constraint.add(asked, ONE)
    assert constraint.add(asked, TWO)
    constraint.remove(asked)
    assert constraint.add(asked, TWO)


def test_a_release_that_forgets_remembers_one_value_per_request() -> None:
    constraint, asked = make_constraint(DISTINCT, Features(behaviour=RELEASE_1_36)), option()
    assert constraint.add(asked, ONE)
    assert constraint.add(asked, TWO)
    assert constraint.add(asked, ONE), "the first value was forgotten with the second"
