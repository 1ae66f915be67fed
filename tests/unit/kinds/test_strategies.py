"""Strategies that most kinds share."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cathedra.api.core.apps_v1 import Deployment
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.strategies import DefaultedStrategy, GenerationStrategy, SpecStrategy, StatusStrategy, kept_metadata
from tests.unit.kinds.objects import context


def deployment(replicas: int, ready: int, generation: int = 0) -> Deployment:
    values = {"metadata": {"generation": generation}, "spec": {"replicas": replicas}, "status": {"replicas": ready}}
    return from_dict(Deployment, values)


@given(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_spec_and_status_are_written_apart(wanted: int, before: int, told: int, known: int) -> None:
    new, old = deployment(wanted, told), deployment(before, known)
    main = SpecStrategy[Deployment]().prepare_update(new, old, context())
    status = StatusStrategy[Deployment]().prepare_update(new, old, context())
    assert (main.spec, main.status) == (new.spec, old.status)
    assert (status.spec, status.status) == (old.spec, new.status)


def test_a_status_cannot_be_created() -> None:
    assert SpecStrategy[Deployment]().prepare_create(deployment(1, 5), context()).status == Deployment().status


@given(st.integers(1, 9), st.integers(0, 3), st.integers(0, 3))
def test_the_generation_counts_changes_of_the_spec_alone(generation: int, before: int, wanted: int) -> None:
    strategy = GenerationStrategy[Deployment]()
    assert strategy.prepare_create(deployment(1, 1, generation), context()).metadata.generation == 1
    made = strategy.prepare_update(deployment(wanted, 9), deployment(before, 1, generation), context())
    assert made.metadata.generation == generation + (wanted != before)


def test_defaults_are_those_of_the_kind() -> None:
    strategy = DefaultedStrategy[ConfigMap](lambda obj: replace(obj, data={"a": "b"}))
    assert strategy.default(ConfigMap(), context()).data == {"a": "b"}


def test_a_status_update_keeps_labels_owners_and_generation() -> None:
    stored = from_dict(ConfigMap, {"metadata": {"labels": {"a": "b"}, "generation": 4, "finalizers": ["x/y"]}}).metadata
    sent = from_dict(ConfigMap, {"metadata": {"labels": {"c": "d"}, "resourceVersion": "7"}}).metadata
    kept = kept_metadata(sent, stored)
    assert (kept.labels, kept.generation, kept.finalizers) == ({"a": "b"}, 4, ("x/y",))
    assert kept.resource_version == "7"


def test_metadata_that_a_status_update_leaves_alone_is_taken_as_it_is() -> None:
    stored = from_dict(ConfigMap, {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}).metadata
    sent = replace(stored, resource_version="8")
    assert kept_metadata(sent, stored) is sent
