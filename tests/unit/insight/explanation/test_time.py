"""Claims about which the allocator has not come to a decision in its time, and explanations whose time is over."""

from __future__ import annotations

import pytest

from cathedra.allocation import Budget
from cathedra.clock import SystemClock
from cathedra.deadline import DeadlineExceeded, Interruption
from cathedra.insight.explanation.explain import explain, explain_all
from cathedra.insight.reading.dumps import read_dump
from cathedra.insight.reading.state import ClusterState
from tests.insight.building import claim, device, device_class, node, pod, request, slice_of

CUBE = str(list(range(18)))
SLOW = f'{CUBE}.all(a, {CUBE}.all(b, {CUBE}.all(c, a + b + c >= 0 || device.driver == "x")))'


def test_a_search_that_was_stopped_is_told_with_what_it_was_for() -> None:
    expression = f'({SLOW}) && device.attributes["gpu.example.com"].number >= 0'
    asked = claim("c", request("r", "gpu", 2, expression), constraints=[{"matchAttribute": "gpu.example.com/number"}])
    devices = [device(f"d{number}", number=number) for number in range(100)]
    state = read_dump([node(), device_class(), slice_of(*devices), asked])
    state.cluster.budget = Budget(seconds=0.2, monotonic=SystemClock.monotonic)
    (cause,) = [one for one in explain(state, "claim/c").causes if one.kind == "time"]
    assert cause.text == (
        "timed out trying to allocate devices: the search was stopped in 0.2 s before all selectors were evaluated: "
        "1 request with matchAttribute gpu.example.com/number"
    )


class Turns:
    """A clock on which a second passes with each reading."""

    def __init__(self) -> None:
        self.read = 0

    def monotonic(self) -> float:
        self.read += 1
        return float(self.read)


def waiting_pods(number: int) -> ClusterState:
    """Pods that want devices of which there are none; no two are equal."""
    pods = [pod("claim:c", name=f"p{place:02}", nodeSelector={"n": str(place)}) for place in range(number)]
    return read_dump([node(), device_class(), claim("c", request("r", "gpu", 2)), *pods])


def test_an_explanation_of_all_that_waits_ends_at_half_of_its_time_with_what_is_ready() -> None:
    clock = Turns()
    found = explain_all(waiting_pods(20), interruption=Interruption(30.0, monotonic=clock.monotonic))
    explained = [subject for group in found.groups for subject in group.subjects]
    # Two readings a pod: whether it has to stop, and how much time is left.
    assert explained == [f"pod default/p{place:02}" for place in range(len(explained))]
    assert 5 <= len(explained) <= 10
    (note,) = [one for one in found.notes if one.problem == "time"]
    assert note.text.startswith(f"{20 - len(explained)} pods and the workloads not examined: the time was over")


def test_an_explanation_of_all_that_waits_within_its_time_leaves_nothing_out() -> None:
    found = explain_all(waiting_pods(5), interruption=Interruption(1000.0, monotonic=Turns().monotonic))
    assert sum(len(group.subjects) for group in found.groups) == 5
    assert [one for one in found.notes if one.problem == "time"] == []


def test_an_explanation_of_all_that_waits_fails_if_all_of_its_time_is_over() -> None:
    with pytest.raises(DeadlineExceeded):
        explain_all(waiting_pods(5), interruption=Interruption(1.0, monotonic=Turns().monotonic))
