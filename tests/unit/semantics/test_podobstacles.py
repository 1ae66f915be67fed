"""Obstacles of pods that have a node, from the node, the slices, the warnings and the containers."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.struct import from_dict
from cathedra.semantics.podobstacles import deletion_text, obstacles_on_node, warnings_about
from tests.insight.building import gpus, held

SLICES = (from_dict(ResourceSlice, gpus(1)),)
CLAIM = from_dict(ResourceClaim, held("c", "gpu-0", by="p", node="n1"))
READY = {"type": "Ready", "status": "True"}


def pod(phase: str = "Running", *, metadata: dict[str, Any] | None = None, **status: Any) -> Pod:
    made = {"name": "p", "namespace": "default", "uid": "u", **(metadata or {})}
    return from_dict(Pod, {"metadata": made, "spec": {"nodeName": "n1"}, "status": {"phase": phase, **status}})


def node(**condition: Any) -> Node:
    return from_dict(Node, {"metadata": {"name": "n1"}, "status": {"conditions": [{**READY, **condition}]}})


def warning(reason: str, message: str, at: str = "2026-01-01T00:00:00Z") -> Event:
    body = {"type": "Warning", "reason": reason, "message": message, "lastTimestamp": at}
    return from_dict(Event, {"metadata": {"name": reason}, "involvedObject": {"uid": "u"}, **body})


def kinds(one: Pod, *, slices: Any = SLICES, events: Any = (), on: Node | None = None) -> list[str]:
    return [found.kind for found in obstacles_on_node(one, on or node(), (CLAIM,), slices, events)]


DELETED = {"deletionTimestamp": "2026-01-01T00:00:30Z"}


def test_a_pod_that_runs_has_no_obstacles_even_after_earlier_warnings_and_without_its_driver() -> None:
    assert kinds(pod(), slices=(), events=(warning("Unhealthy", "no answer"),)) == []


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_an_obstacle_for_a_pod_that_runs(status: str) -> None:
    found = next(obstacles_on_node(pod(), node(status=status, reason="R", message="m"), (), SLICES, ()))
    assert found.text == "node n1 is not ready (R: m)"


@pytest.mark.parametrize(("one", "verb"), [(pod("Pending"), "prepare"), (pod(metadata=DELETED), "unprepare")])
def test_a_driver_that_is_gone_is_named_where_it_is_needed(one: Pod, verb: str) -> None:
    (found,) = obstacles_on_node(one, node(), (CLAIM,), (), ())
    assert found.kind == "driver gone"
    assert "driver gpu.example.com" in found.text
    assert f"can {verb} the claim" in found.text


def test_slices_that_are_not_known_say_nothing_about_drivers() -> None:
    assert kinds(pod("Pending"), slices=None) == []


def test_the_newest_warning_about_the_pod_counts_and_none_of_the_scheduler() -> None:
    events = (
        warning("FailedScheduling", "none", "2026-01-03T00:00:00Z"),
        warning("FailedPrepareDynamicResources", "cable is out", "2026-01-02T00:00:00Z"),
        warning("FailedMount", "no volume", "2026-01-01T00:00:00Z"),
    )
    found = next(obstacles_on_node(pod("Pending"), node(), (CLAIM,), SLICES, events))
    assert found.text == "FailedPrepareDynamicResources: cable is out"
    assert len(warnings_about(pod("Pending"), events)) == 2


def test_a_container_that_waits_keeps_a_pod_of_phase_running_from_running() -> None:
    lost = {"waiting": {"reason": "CreateContainerError", "message": "unresolvable CDI devices x"}}
    found = list(obstacles_on_node(pod(containerStatuses=[{"name": "c", "state": lost}]), node(), (), SLICES, ()))
    assert [one.text for one in found] == ["container c: CreateContainerError: unresolvable CDI devices x"]


def test_a_container_that_is_being_created_is_no_obstacle() -> None:
    state = {"waiting": {"reason": "ContainerCreating"}}
    assert kinds(pod("Pending", containerStatuses=[{"name": "c", "state": state}])) == []


def test_a_pod_that_has_ended_has_no_obstacles() -> None:
    assert kinds(pod("Failed", metadata=DELETED), slices=(), on=node(status="False")) == []


def test_the_text_of_a_deletion_names_finalizers() -> None:
    assert deletion_text(pod()) == ""
    assert "its claims are unprepared" in deletion_text(pod(metadata=DELETED))
    assert "a.example.com/x" in deletion_text(pod(metadata={**DELETED, "finalizers": ["a.example.com/x"]}))
