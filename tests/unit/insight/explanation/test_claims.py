"""Claims as in kubectl, with the conditions of their devices."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.resource import DeviceAttribute, ResourceClaim
from cathedra.insight.explanation.claims import claim_report, claim_state
from cathedra.insight.explanation.explain import explain
from cathedra.insight.explanation.report import Explanation
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from cathedra.semantics.groupdomains import attribute_text
from cathedra.semantics.preferredconstraints import PREFERRED
from tests.insight.building import Object, claim, device, device_class, held, node, pod, request, slice_of


def named(state: ClusterState, name: str) -> ResourceClaim:
    found = state.get(ResourceClaim, name, "other")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        (DeviceAttribute(string="a100"), "a100"),
        (DeviceAttribute(version="1.2.3"), "1.2.3"),
        (DeviceAttribute(int_=0), "0"),
        (DeviceAttribute(bool_=False), "false"),
        (DeviceAttribute(strings=("a", "b")), "a,b"),
        (DeviceAttribute(ints=(1, 2)), "1,2"),
    ],
)
def test_values_are_as_people_write_them(attribute: DeviceAttribute, text: str) -> None:
    assert attribute_text(attribute) == text


def test_the_state_of_a_claim_is_kubectls() -> None:
    state = read_dump([claim("free", namespace="other"), held("taken", "gpu-0", by="q"), held("unused", "gpu-1")])
    assert [claim_state(named(state, name)) for name in ("free", "taken", "unused")] == [
        "pending",
        "allocated,reserved",
        "allocated",
    ]


def test_a_report_has_the_devices_and_says_if_one_is_gone() -> None:
    objects = [node(), slice_of(device("gpu-0", model="a100")), held("taken", "gpu-0", by="q"), held("lost", "gpu-9")]
    state = read_dump(objects)
    taken, lost = (claim_report(named(state, name), "named", None, state, made=False) for name in ("taken", "lost"))
    assert (taken.name, taken.reserved_for, lost.reserved_for) == ("other/taken", ("pod q",), ())
    assert (taken.devices[0].device, taken.devices[0].exists) == ("gpu.example.com/n1/gpu-0", True)
    assert taken.devices[0].attributes == {"model": "a100"}
    assert not lost.devices[0].exists


def bound(**more: Any) -> Object:
    """A pod that runs on the node with a claim of its own."""
    made = pod("claim:taken", name="q", namespace="other", phase="Running", nodeName="n1")
    made["metadata"].update(more)
    return made


def explained(*objects: Object) -> Explanation:
    state = read_dump([device_class(), held("taken", "gpu-0", by="q", node="n1"), *objects])
    return explain(state, "pod/q", namespace="other")


def test_a_pod_that_stays_terminating_because_its_driver_is_gone_is_not_running() -> None:
    ending = bound(deletionTimestamp="2026-01-01T00:00:00Z")
    found = explained(node(), slice_of(device("nic-0"), driver="nic.example.com"), ending)
    assert (found.verdict, found.fits) == ("terminating", False)
    assert found.causes[0].kind == "driver gone"
    assert "gpu.example.com" in found.causes[0].text


def test_a_pod_on_a_node_that_is_not_ready_is_not_running() -> None:
    silent = node()
    silent["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    found = explained(silent, slice_of(device("gpu-0")), bound())
    assert (found.verdict, found.causes[0].kind) == ("waiting", "node not ready")
    assert explained(node(), slice_of(device("gpu-0")), bound()).verdict == "running"


def test_a_shared_claim_is_prepared_where_another_pod_runs_with_it() -> None:
    shared = held("shared", "gpu-0", namespace="default", by="runs", node="n1")
    runs = pod("claim:shared", name="runs", phase="Running", nodeName="n1")
    runs["metadata"]["uid"] = "pod-runs"
    base = [node(), node("n2"), device_class(), slice_of(device("gpu-0")), shared, runs]
    waits = pod("claim:shared", cpu="99")

    def prepared(one: Object) -> bool | None:
        return explain(read_dump([*base, one]), "pod/p").claims[0].prepared

    assert prepared(waits) is True
    assert prepared(pod("claim:shared", nodeName="n1")) is True
    # A claim of devices that several nodes reach is prepared on each of them.
    assert prepared(pod("claim:shared", nodeName="n2")) is None


NEAR = '[{"requests": ["gpu"], "matchAttribute": "gpu.example.com/numa"}]'


def preferring(one: Object, annotation: str = NEAR) -> Object:
    metadata = {**one["metadata"], "annotations": {PREFERRED: annotation}}
    return {**one, "metadata": metadata}


def two_numa_nodes(*numas: str, where: str) -> Object:
    return slice_of(*(device(f"gpu-{at}", numa=numa) for at, numa in enumerate(numas)), node=where)


@pytest.mark.parametrize(("second", "text"), [("x", "holds"), ("y", "does not hold")])
def test_a_report_says_whether_a_preference_holds(second: str, text: str) -> None:
    taken = held("taken", "gpu-0", "gpu-1", by="q")
    state = read_dump([node(), two_numa_nodes("x", second, where="n1"), preferring(taken)])
    found = claim_report(named(state, "taken"), "named", None, state, made=False)
    assert found.preferences == (f"prefers the same gpu.example.com/numa for gpu: {text}",)


def test_a_waiting_claim_says_on_how_many_nodes_its_preference_can_hold() -> None:
    nodes = [node(), node("n2"), two_numa_nodes("x", "y", where="n1"), two_numa_nodes("x", "x", where="n2")]
    state = read_dump([*nodes, device_class(), preferring(claim("c", request("gpu", count=2)))])
    text = str(explain(state, "claim/c"))
    assert "prefers the same gpu.example.com/numa for gpu: can hold on 1 of 2 nodes" in text


def test_a_preference_that_cannot_be_read_is_reported() -> None:
    state = read_dump([node(), device_class(), slice_of(device("gpu-0")), preferring(claim("c"), "{")])
    text = " ".join(str(explain(state, "claim/c")).split())
    assert f"has no preferences: {PREFERRED} is not a JSON list of constraints" in text
