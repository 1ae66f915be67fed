"""Pods with scheduling gates stay out of the active queue."""

from __future__ import annotations

from cathedra.scheduler.framework.events import Action, EventResource
from cathedra.scheduler.plugins.gates import SchedulingGates
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.scheduler.objects import pod


def test_gates_are_named_in_order() -> None:
    gated = PodInfo(pod("p", schedulingGates=[{"name": "quota"}, {"name": "network"}]))
    refusal = SchedulingGates().pre_enqueue(gated)
    assert refusal is not None
    assert refusal.message == "waiting for scheduling gates: [quota network]"


def test_a_pod_without_gates_may_enter() -> None:
    assert SchedulingGates().pre_enqueue(PodInfo(pod("p"))) is None


def test_only_the_removal_of_the_pods_own_gates_helps() -> None:
    (registration,) = SchedulingGates().events()
    assert registration.resource is EventResource.TARGET_POD
    assert registration.actions == Action.UPDATE_POD_GATES_ELIMINATED
