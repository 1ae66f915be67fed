"""The corpus of broken situations: expected explanations, changes that help, and equal results over API versions."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from cathedra.api.scheme import GroupVersionKind
from cathedra.api.struct import to_dict
from cathedra.insight import simulate
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Explanation, explanation_text
from cathedra.insight.reading.dumps import definition_of, read_dump, read_object
from cathedra.insight.reading.state import ClusterState
from cathedra.releases import FeatureGates
from tests.insight.building import Object
from tests.insight.situations import SITUATIONS, Situation

NAMES = [one.name for one in SITUATIONS]


def dumped(one: Situation) -> list[Object]:
    objects = copy.deepcopy(one.objects)
    for obj in objects:
        if obj["kind"] == "Pod" and "gates" in one.more:
            obj["spec"]["schedulingGates"] = one.more["gates"]
        if one.more.get("stored") and obj["kind"] == "ResourceClaimTemplate":
            # What the API server would refuse today may have been stored earlier: then there is a claim already.
            obj.update(kind="ResourceClaim", spec=obj["spec"]["spec"])
        if one.more.get("stored") and obj["kind"] == "Pod":
            for entry in obj["spec"]["resourceClaims"]:
                entry["resourceClaimName"] = entry.pop("resourceClaimTemplateName")
    return objects


def state_of(one: Situation, version: str = "v1") -> ClusterState:
    objects = [converted(obj, version) for obj in dumped(one)]
    if gates := one.more.get("feature gates"):
        return replace(read_dump(objects), gates=FeatureGates.for_release(overrides=gates))
    if one.more.get("list"):
        empty, *rest = objects
        state = read_dump(empty)
        return read_dump([*rest]).including([]) if not rest else _with_no_nodes(read_dump(rest), state)
    return read_dump(objects)


def _with_no_nodes(state: ClusterState, empty: ClusterState) -> ClusterState:
    known = frozenset(kind for kind in state.unknown if kind in empty.unknown)
    return ClusterState(state.source, state.objects, state.gates, state.notes, known)


def converted(obj: Object, version: str) -> Object:
    """The object as an older release has it."""
    group, _, mine = obj["apiVersion"].partition("/")
    if group != "resource.k8s.io" or mine != "v1" or version == "v1":
        return obj
    definition = definition_of(group, obj["kind"])
    assert definition is not None
    decoded = read_object(obj)
    assert decoded is not None
    older: Any = definition.version(version).from_hub(decoded.object)
    gvk = GroupVersionKind(group, version, obj["kind"])
    return {"apiVersion": gvk.api_version, "kind": gvk.kind, **to_dict(older)}


def asked(one: Situation, state: ClusterState) -> Explanation:
    return explain(state, one.subject)


def relevant(answer: Explanation) -> Explanation:
    """Return the part with the reason: of a workload the first one that does not fit."""
    return next((part for part in answer.flat() if part.causes and not part.parts), answer)


def test_there_are_at_least_sixty_and_each_has_its_name() -> None:
    assert len(SITUATIONS) >= 60
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("one", SITUATIONS, ids=NAMES)
def test_the_causes_are_named(one: Situation) -> None:
    answer = asked(one, state_of(one))
    assert answer.verdict == one.verdict
    assert not answer.fits
    found = next(part for part in answer.flat() if part.causes)
    assert tuple(cause.kind for cause in found.causes) == one.kinds
    text = explanation_text(answer, 10_000)
    for words in one.says:
        assert words in text, text


@pytest.mark.parametrize("one", SITUATIONS, ids=NAMES)
def test_changes_that_help_are_told_and_after_each_it_fits(one: Situation) -> None:
    state = state_of(one)
    answer = relevant(asked(one, state))
    kinds = {change.kind for change in answer.changes}
    assert kinds >= set(one.helps), kinds
    for change in answer.changes:
        changed = state.without(change.removed).including(change.set)
        again = explain(changed, one.subject)
        part = again.parts[0] if again.parts else again
        assert part.fits, f"{change.text}\n{again}"
        if change.kind != "add node" and not again.parts and len(state.nodes) < 100:
            assert set(change.fits_on) == set(part.fits_on), change.text


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
@pytest.mark.parametrize("one", [one for one in SITUATIONS if not one.newest_only], ids=str)
def test_older_versions_give_the_same_answer(one: Situation, version: str) -> None:
    newest = asked(one, state_of(one)).to_dict()
    older = asked(one, state_of(one, version)).to_dict()
    assert older == newest


@pytest.mark.parametrize("width", [80, 160])
@pytest.mark.parametrize("one", SITUATIONS, ids=NAMES)
def test_the_text_keeps_to_the_width(one: Situation, width: int) -> None:
    # Commands are for copying, and are not broken.
    text = "\n".join(
        line for line in explanation_text(asked(one, state_of(one)), width).splitlines() if "     $ " not in line
    )
    longest = max((word for line in text.splitlines() for word in line.split()), key=len)
    for line in text.splitlines():
        assert len(line) <= max(width, len(longest) + 12), line


SIMULATED = [one for one in SITUATIONS if one.subject == "pod/p"]


@pytest.mark.parametrize("one", SIMULATED, ids=str)
def test_the_pod_has_a_node_in_a_simulation_after_each_change(one: Situation) -> None:
    state = state_of(one)
    for change in asked(one, state).changes:
        after = state.without(change.removed).including(change.set)
        placed = [each.pod for each in simulate(after, copies=0).placed]
        assert "default/p" in placed, change.text
