"""Pods as they are written: begun pending, changed by one sub-resource each."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core import core_v1
from cathedra.api.core.core_v1 import Pod
from cathedra.api.struct import from_dict, replace
from cathedra.kinds.core.pods.strategy import PodDeletion, pod_definition, qos_class
from tests.unit.kinds.objects import NOW, context, created, definition_of, pod, row, updated

STRATEGY = definition_of("pods").strategy
STATUS = definition_of("pods").subresources["status"]
RESIZE = definition_of("pods").subresources["resize"]


def stored(*containers: dict[str, Any], **spec: Any) -> core_v1.Pod:
    made, errors = created(STRATEGY, pod(*containers, **spec), context())
    assert errors == []
    found: core_v1.Pod = made
    return found


def test_a_pod_begins_pending_whatever_its_author_says_of_its_status() -> None:
    made = stored(status={"phase": "Running", "podIP": "192.0.2.1"})
    assert (made.status.phase, made.status.pod_ip, made.metadata.generation) == ("Pending", "", 1)


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_the_quality_class_follows_from_the_resources(resources: dict[str, Any], quality: str) -> None:
    assert stored({"resources": resources}).status.qos_class == quality


def test_a_gated_pod_says_that_it_is_not_scheduled() -> None:
    (condition,) = stored(schedulingGates=[{"name": "g"}]).status.conditions
    assert (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "SchedulingGated")
    assert condition.message == "Scheduling is blocked due to non-empty scheduling gates"
    assert condition.last_transition_time is not None
    assert condition.last_transition_time.timestamp == NOW
    assert stored().status.conditions == ()


def test_the_main_resource_keeps_the_status_and_the_status_the_spec() -> None:
    old = stored()
    new = replace(
        old,
        spec=replace(old.spec, containers=(replace(old.spec.containers[0], image="j"),)),
        status=replace(old.status, phase="Running"),
    )
    main, errors = updated(STRATEGY, new, old, context())
    assert errors == []
    assert (main.spec, main.status, main.metadata.generation) == (new.spec, old.status, 2)
    reported, errors = updated(STATUS, new, old, context())
    assert errors == []
    assert (reported.spec, reported.status, reported.metadata.generation) == (old.spec, new.status, 1)


def test_a_status_keeps_owners_and_the_quality_class_that_it_leaves_out() -> None:
    old = stored()
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}
    other = from_dict(core_v1.Pod, {"metadata": {"ownerReferences": [owner], "labels": {"a": "b"}}})
    new = replace(old, metadata=replace(other.metadata, generation=9), status=core_v1.PodStatus(phase="Running"))
    made, errors = updated(STATUS, new, old, context())
    assert errors == []
    assert (made.metadata.owner_references, made.metadata.generation) == ((), 1)
    assert (made.metadata.labels, made.status.qos_class) == ({"a": "b"}, "BestEffort")


def test_resizing_changes_nothing_but_the_resources_of_containers() -> None:
    old = stored({"resources": {"requests": {"cpu": "1"}}})
    amounts = from_dict(core_v1.ResourceRequirements, {"requests": {"cpu": "2"}})
    container = replace(old.spec.containers[0], image="ignored", resources=amounts)
    new = replace(
        old,
        metadata=replace(old.metadata, labels={"ignored": "x"}, resource_version="7"),
        spec=replace(old.spec, node_name="ignored", containers=(container,)),
    )
    made, errors = updated(RESIZE, new, old, context())
    assert errors == []
    assert made.spec == replace(old.spec, containers=(replace(old.spec.containers[0], resources=amounts),))
    assert (made.metadata.labels, made.metadata.resource_version, made.metadata.generation) == ({}, "7", 2)


def test_a_resize_that_changes_nothing_is_no_generation() -> None:
    old = stored({"resources": {"requests": {"cpu": "1"}}})
    assert updated(RESIZE, old, old, context())[0].metadata.generation == 1


@pytest.mark.parametrize(
    ("field", "values", "text"),
    [
        ("spec.nodeName", {"spec": {"nodeName": "n"}}, "n"),
        ("spec.hostNetwork", {"spec": {"hostNetwork": True}}, "true"),
        ("spec.hostNetwork", {}, "false"),
        ("status.phase", {"status": {"phase": "Running"}}, "Running"),
        ("status.podIP", {"status": {"podIP": "192.0.2.1"}}, "192.0.2.1"),
        ("status.podIP", {"status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.2"}]}}, "192.0.2.2"),
        ("status.nominatedNodeName", {"status": {"nominatedNodeName": "n"}}, "n"),
    ],
)
def test_pods_are_selected_by_fields(field: str, values: dict[str, Any], text: str) -> None:
    assert pod_definition().field_selectors[field](from_dict(core_v1.Pod, values)) == text


def test_a_change_of_the_status_alone_leaves_the_spec_as_it_was_stored() -> None:
    old = pod({})
    new = replace(old, status=replace(old.status, phase="Running"))
    assert STATUS.default_change(new, old, context()) is new
    sent = replace(new, spec=from_dict(core_v1.PodSpec, {"containers": [{"name": "c"}]}))
    assert STATUS.default_change(sent, old, context()) == STATUS.default(sent, context())


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "wanted"),
    [
        ([{}], "BestEffort"),
        ([{"resources": {"requests": {"example.com/x": "1"}}}], "BestEffort"),
        ([{"resources": {"requests": {"cpu": "0"}}}], "BestEffort"),
        ([{"resources": {"requests": {"cpu": "1"}}}], "Burstable"),
        ([{"resources": {"requests": BOTH, "limits": BOTH}}], "Guaranteed"),
        ([{"resources": {"requests": BOTH, "limits": BOTH}}, {}], "Burstable"),
        ([{"resources": {"requests": {**BOTH, "cpu": "500m"}, "limits": BOTH}}], "Burstable"),
    ],
)
def test_a_class_follows_from_cpu_and_memory_of_all_containers(containers: list[dict[str, Any]], wanted: str) -> None:
    assert qos_class(pod(*containers).spec) == wanted


def grace(wanted: int | None = None, *, said: int | None = None, node: str = "n", phase: str = "Running") -> int:
    values = {"spec": {"nodeName": node, "terminationGracePeriodSeconds": said}, "status": {"phase": phase}}
    return PodDeletion().grace_period(from_dict(Pod, values), wanted)


def test_the_request_comes_before_the_spec_and_the_spec_before_the_default() -> None:
    assert (grace(7, said=5), grace(said=5), grace()) == (7, 5, 30)


def test_none_is_immediate_and_less_than_none_is_a_second() -> None:
    assert (grace(0), grace(-3), grace(said=-1)) == (0, 1, 1)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_what_does_not_run_needs_no_time(phase: str) -> None:
    assert grace(7, phase=phase) == 0
    assert grace(7, node="") == 0


def test_a_second_request_shortens_the_time_and_never_lengthens_it() -> None:
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 10}
    leaving = from_dict(Pod, {"metadata": metadata, "spec": {"nodeName": "n"}})
    assert PodDeletion().grace_period(leaving, 5) == 5
    assert PodDeletion().grace_period(leaving, 60) == 10


# Rows of pods.


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
        (
            {
                "phase": "Pending",
                "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            "ContainerCreating",
        ),
        (
            {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}],
            },
            "Error",
        ),
        (
            {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}]},
            "Running",
        ),
    ],
)
def test_a_pod_says_what_holds_it_up(status: dict[str, Any], shown: str) -> None:
    assert row("pods", pod(status=status))["Status"] == shown


def test_ready_containers_are_counted() -> None:
    running = {"name": "c", "ready": True, "state": {"running": {}}}
    assert row("pods", pod(status={"phase": "Running", "containerStatuses": [running]}))["Ready"] == "1/1"
