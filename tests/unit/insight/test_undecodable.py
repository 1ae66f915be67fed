"""Objects that cannot be decoded, in a dump or on a server: named, never treated as absent."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.allocation import InvalidInput
from cathedra.api.resource import ResourceClaim
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import explanation_text
from cathedra.insight.inventory.listing import devices
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ASSUMED, ClusterState
from cathedra.insight.simulation.run import PlannedChanges, simulate
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with

READ = {"driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
UNREAD = {"driver": "gpu.example.com", "pool": "node-0", "device": 7}


def odd_claim(*results: dict[str, Any]) -> dict[str, Any]:
    """A claim with a field of the wrong type, and with these results."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "odd", "namespace": "other", "uid": "odd"},
        "spec": {"devices": {"requests": 3}},
        "status": {"allocation": {"devices": {"results": list(results)}}},
    }


def state_with(odd: dict[str, Any], nodes: int = 1) -> ClusterState:
    return read_dump([*gpu_cluster(nodes=nodes, gpus=2), {"apiVersion": "v1", "kind": "PodList", "items": []}, odd])


def test_an_object_of_a_dump_that_cannot_be_decoded_is_noted_with_what_follows() -> None:
    state = state_with(odd_claim(READ))
    assert state.all(ResourceClaim) == ()
    assert [what.where for what in state.undecodable] == ["other/odd"]
    (note,) = [note for note in state.notes_on(ResourceClaim) if note.problem != ASSUMED]
    assert note.problem == "undecodable"
    assert note.text.startswith("ResourceClaim other/odd cannot be decoded: ")
    assert "devices that it holds count as taken" in note.text
    assert state.including(()).undecodable == state.without(()).undecodable == state.undecodable


def test_devices_that_the_claim_holds_are_listed_as_held_by_it() -> None:
    rows = {row.device: row for row in devices(state_with(odd_claim(READ))).devices}
    assert (rows["gpu-0"].state, rows["gpu-0"].holders[0].claim) == ("held", "other/odd (cannot be decoded)")
    assert rows["gpu-1"].state == "free"


def test_devices_of_a_pool_that_is_withheld_are_listed_as_unusable() -> None:
    found = devices(state_with(odd_claim(UNREAD), nodes=2))
    assert [(row.node, row.state) for row in found.devices] == [
        *[("node-0", "unusable")] * 2,
        *[("node-1", "free")] * 2,
    ]
    (pool,) = found.pools
    assert pool.startswith("pool gpu.example.com/node-0 is withheld: ResourceClaim other/odd cannot be decoded: ")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (READ, "1 of 2 matching devices are free (held by other/odd (cannot be decoded))"),
        (UNREAD, "pool gpu.example.com/node-0 is withheld: ResourceClaim other/odd cannot be decoded"),
    ],
)
def test_explain_names_the_claim_and_says_that_it_cannot_be_decoded(result: dict[str, Any], text: str) -> None:
    found = explain(state_with(odd_claim(result)), manifests=pod_with(2))
    shown = " ".join(explanation_text(found).split())
    assert text in shown


def test_explain_says_why_there_is_no_such_pod_or_claim() -> None:
    with pytest.raises(InvalidInput, match=r"^ResourceClaim other/odd cannot be decoded: "):
        explain(state_with(odd_claim()), "claim/odd", namespace="other")


def test_a_pod_that_waits_for_the_claim_is_told_so() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "other", "uid": "p"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "g", "resourceClaimName": "odd"}]},
    }
    found = explain(read_dump([*gpu_cluster(), odd_claim(READ), pod]), "pod/p", namespace="other")
    assert "ResourceClaim other/odd cannot be decoded" in explanation_text(found)


@pytest.mark.parametrize(("result", "fit"), [(READ, 3), (UNREAD, 2)])
def test_a_simulation_gives_out_nothing_that_the_claim_may_hold(result: dict[str, Any], fit: int) -> None:
    pods = [
        {**one, "metadata": {"name": f"p{number}"}}
        for number in range(4)
        for one in pod_with(1)
        if one["kind"] == "Pod"
    ]
    template = [one for one in pod_with(1) if one["kind"] != "Pod"]
    found = simulate(state_with(odd_claim(result), nodes=2), PlannedChanges(apply=[*template, *pods]), copies=0)
    assert len(found.placed) == fit
