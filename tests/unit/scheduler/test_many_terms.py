"""Pods with very many terms: the answers are those of few terms, and a turn ends between two pieces of the work."""

from __future__ import annotations

import random
from itertools import count
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Pod
from cathedra.client.store import Store
from cathedra.deadline import SLICE_SECONDS, TimeSliceOver
from cathedra.scheduler.framework.attempt import Attempt
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.plugins import interpod_affinity, node_fitness, topology_spread
from cathedra.scheduler.plugins.interpod_affinity import InterPodAffinity
from cathedra.scheduler.plugins.node_fitness import NodeAffinity
from cathedra.scheduler.plugins.topology_spread import PodTopologySpread
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import node, pod

PIECES = 3
"""Number of pieces of work that fit into a turn of `attempt`."""


def attempt() -> Attempt:
    """An attempt whose clock advances by a part of a turn with each reading."""
    ticks = count()
    return Attempt(lambda: next(ticks) * SLICE_SECONDS / PIECES)


def term(**more: Any) -> dict[str, Any]:
    return {"topologyKey": "kubernetes.io/hostname", **more}


def judged(plugin: Any, cache: Cache, wanted: Pod, one: Attempt | None) -> tuple[list[Status | None], Any, int]:
    """Return the verdicts of the plugin for all nodes, its scores, and the number of turns."""
    info = PodInfo(wanted)
    for turns in range(1, 1000):
        state = CycleState(cache.snapshot(), attempt=one)
        try:
            first = plugin.pre_filter(state, info, state.snapshot)
            skipped = first is not None
            said = [None if skipped else plugin.filter(state, info, node) for node in state.snapshot.nodes]
            return said, plugin.score(state, info, state.snapshot.nodes), turns
        except TimeSliceOver:
            assert one is not None
            one.next_slice()
    raise AssertionError("no progress is made")


def world(chance: random.Random, pods: int = 30) -> Cache:
    cache = Cache()
    for number in range(6):
        cache.set_node(node(f"n{number}", labels={"zone": f"z{number % 2}", "size": str(number)}))
    for number in range(pods):
        cache.add_pod(affine(chance, f"p{number}", nodeName=f"n{chance.randrange(6)}"))
    return cache


def affine(chance: random.Random, name: str, **spec: Any) -> Pod:
    def terms(most: int) -> list[dict[str, Any]]:
        return [
            {
                "topologyKey": chance.choice(["kubernetes.io/hostname", "zone", "none"]),
                "labelSelector": {"matchLabels": {"app": f"a{chance.randrange(3)}"}},
            }
            for _ in range(chance.randrange(most))
        ]

    def kind() -> dict[str, Any]:
        weighted = [{"weight": chance.randrange(1, 100), "podAffinityTerm": one} for one in terms(3)]
        return {
            "requiredDuringSchedulingIgnoredDuringExecution": terms(2),
            "preferredDuringSchedulingIgnoredDuringExecution": weighted,
        }

    affinity = {"podAffinity": kind(), "podAntiAffinity": kind()} if chance.random() < 0.6 else None
    return pod(name, labels={"app": f"a{chance.randrange(3)}"}, affinity=affinity, **spec)


def test_many_terms_between_pods_are_judged_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(60):
        cache = world(random.Random(seed))
        wanted = affine(random.Random(seed + 1000), "wanted")
        plain = judged(InterPodAffinity(Store()), cache, wanted, None)
        with monkeypatch.context() as patch:
            patch.setattr(interpod_affinity, "FEW_TERMS", 0)
            said, scores, _ = judged(InterPodAffinity(Store()), cache, wanted, attempt())
        assert (said, scores) == plain[:2]


def test_terms_between_pods_take_turns() -> None:
    cache = world(random.Random(1))
    terms = [term(labelSelector={"matchLabels": {"app": f"a{n}"}}) for n in range(100)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for number in range(9):
        cache.add_pod(pod(f"other-{number}", labels={"n": str(number)}, nodeName="n0"))
    *_, turns = judged(InterPodAffinity(Store()), cache, pod("p", affinity=affinity), attempt())
    assert turns > 2


@pytest.mark.parametrize("preferred", [False, True])
def test_node_affinity_takes_turns(preferred: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = world(random.Random(2), 0)
    terms = [{"matchExpressions": [{"key": "size", "operator": "Gt", "values": [str(n)]}]} for n in range(3)]
    rules: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    if preferred:
        weighted = [{"weight": 1, "preference": one} for one in terms]
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": weighted}
    wanted = pod("p", affinity={"nodeAffinity": rules})
    plain = judged(NodeAffinity(), cache, wanted, None)
    monkeypatch.setattr(node_fitness, "FEW_TERMS", 1)
    said, scores, turns = judged(NodeAffinity(), cache, wanted, attempt())
    assert (said, scores) == plain[:2]
    assert turns > 1


def test_constraints_on_topology_are_parsed_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = world(random.Random(3))
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "a1"}},
        }
        for key in ("zone", "kubernetes.io/hostname")
        for when in ("DoNotSchedule", "ScheduleAnyway")
    ]
    wanted = pod("p", labels={"app": "a1"}, topologySpreadConstraints=constraints)
    plain = judged(PodTopologySpread(), cache, wanted, None)
    monkeypatch.setattr(topology_spread, "FEW_CONSTRAINTS", 1)
    said, scores, turns = judged(PodTopologySpread(), cache, wanted, attempt())
    assert (said, scores) == plain[:2]
    assert turns > 1
