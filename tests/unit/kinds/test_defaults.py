"""Defaults of single fields."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import DeploymentSpec
from cathedra.kinds.defaults import absent, changed, each


def test_a_default_is_for_what_was_left_out_or_is_empty() -> None:
    assert absent(DeploymentSpec(), replicas=1) == {"replicas": 1}


def test_what_was_written_stays_even_if_it_is_nothing() -> None:
    assert absent(DeploymentSpec(replicas=0, paused=False), replicas=1, paused=True) == {}


def test_what_needs_no_default_is_given_back_itself() -> None:
    items = (DeploymentSpec(replicas=1), DeploymentSpec(replicas=2))
    assert each(items, lambda one: changed(one, replicas=one.replicas)) is items
    assert each((), lambda one: DeploymentSpec()) == ()


def test_one_item_that_needs_a_default_makes_another_list() -> None:
    items = (DeploymentSpec(replicas=1), DeploymentSpec())
    filled = each(items, lambda one: changed(one, **absent(one, replicas=1)))
    assert [one.replicas for one in filled] == [1, 1]
    assert filled[0] is items[0]
