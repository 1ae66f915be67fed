"""Definitions that follow from a kind's struct."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.core_v1 import ConfigMap, Event
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.field import ErrorList
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.strategies import ObjectRules
from tests.unit.kinds.objects import NOW, context


@pytest.mark.parametrize(
    ("kind", "subresources"),
    [(ConfigMap, set()), (Event, set()), (Deployment, {"status"})],
)
def test_a_kind_with_spec_and_status_has_a_status_to_write(kind: type[KubeObject], subresources: set[str]) -> None:
    assert set(BuiltinKind(kind, "things", namespaced=True).definition().subresources) == subresources


def test_names_come_from_the_struct() -> None:
    made = BuiltinKind(Deployment, "deployments", namespaced=True).definition()
    assert (made.group, made.kind, made.singular) == ("apps", "Deployment", "deployment")
    assert [(version.name, version.type) for version in made.versions] == [("v1", Deployment)]


def deployment(replicas: int) -> Deployment:
    return from_dict(Deployment, {"metadata": {"generation": 4}, "spec": {"replicas": replicas}})


@pytest.mark.parametrize(("counts", "generation"), [(True, 5), (False, 4)])
def test_generations_count_where_that_is_asked_for(counts: bool, generation: int) -> None:
    strategy = BuiltinKind(Deployment, "deployments", namespaced=True, counts_generation=counts).definition().strategy
    assert strategy.prepare_update(deployment(2), deployment(1), context()).metadata.generation == generation


def test_defaults_are_filled_in_by_both_ways_of_writing() -> None:
    def paused(obj: Any) -> Any:
        return replace(obj, spec=replace(obj.spec, paused=True))

    made = BuiltinKind(Deployment, "deployments", namespaced=True, default=paused).definition()
    assert made.strategy.default(deployment(1), context()).spec.paused
    assert made.subresources["status"].default(deployment(1), context()).spec.paused


def test_rules_hold_for_new_objects_and_for_changes() -> None:
    def wrong(*_: Any) -> ErrorList:
        errors = ErrorList()
        errors.required("data")
        return errors

    strategy = (
        BuiltinKind(ConfigMap, "configmaps", namespaced=True, rules=ObjectRules(wrong, wrong)).definition().strategy
    )
    assert len(strategy.validate_create(ConfigMap(), context())) == 1
    assert len(strategy.validate_update(ConfigMap(), ConfigMap(), context())) == 1


def test_without_a_table_of_its_own_a_kind_shows_name_and_creation() -> None:
    made = BuiltinKind(ConfigMap, "configmaps", namespaced=True).definition()
    assert [column.name for column in made.columns] == ["Name", "Created At"]
    assert made.cells is not None
    named = from_dict(ConfigMap, {"metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"}})
    assert made.cells(named, NOW) == ["a", "2026-01-01T00:00:00Z"]
