"""Every moment has the state that the cluster had then."""

from __future__ import annotations

import dataclasses
import random

import pytest

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.insight import explain, read_dump
from cathedra.insight.reading.state import ClusterState, key_of
from cathedra.page import following
from cathedra.page.following import StateHistory
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with


def content(state: ClusterState) -> dict[str, dict[object, KubeObject]]:
    return {kind.__name__: dict(items) for kind, items in state.objects.items() if items}


def at(state: ClusterState, now: float) -> ClusterState:
    return dataclasses.replace(state, now=now)


def test_any_moment_has_the_objects_of_then() -> None:
    full = read_dump([*gpu_cluster(nodes=4, taken=6), *pod_with(1)])
    chosen, state = random.Random(2), at(full, 1.0)
    states, history = [state], StateHistory(state)
    everything = [one for items in full.objects.values() for one in items.values()]
    for now in range(2, 40):
        one = chosen.choice(everything)
        there = state.get(type(one), *reversed(key_of(one))) is not None
        state = at(state.without([one]) if there else state.including([one]), float(now))
        states.append(state)
        history.advance(state)
    for one in states:
        assert one.now is not None
        assert content(history.at(one.now)) == content(history.at(one.now + 0.5)) == content(one)
    assert content(history.at(1000)) == content(state)


def test_a_pod_is_explained_as_it_was() -> None:
    waits = at(read_dump([*gpu_cluster(nodes=1, taken=2), *pod_with(1)]), 1.0)
    history = StateHistory(waits)
    history.advance(at(read_dump([*gpu_cluster(nodes=1), *pod_with(1)]), 2.0))
    (pod,) = waits.pods
    where = pod.metadata.namespace
    assert not explain(history.at(1.5), f"pod/{pod.metadata.name}", namespace=where).fits
    assert explain(history.at(2.5), f"pod/{pod.metadata.name}", namespace=where).fits


def test_moments_before_the_oldest_state_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "MOST_OBJECTS", 8)
    small, large = (read_dump(gpu_cluster(nodes=nodes)) for nodes in (1, 3))
    history = StateHistory(at(small, 100.0))
    with pytest.raises(InvalidInput, match="are not kept; the oldest state is of"):
        history.at(99.0)
    for now in range(101, 110):
        history.advance(at(large if now % 2 else small, float(now)))
    with pytest.raises(InvalidInput):
        history.at(101.0)
    assert content(history.at(108.5)) == content(small)


def test_changes_are_forgotten_after_an_hour() -> None:
    state = read_dump(gpu_cluster(nodes=1))
    history = StateHistory(at(state, 0.0))
    for now in (10.0, 5000.0):
        history.advance(at(state, now))
    with pytest.raises(InvalidInput):
        history.at(5.0)
    assert history.at(20.0).now == 20.0
