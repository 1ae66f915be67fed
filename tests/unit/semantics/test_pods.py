"""Phases and readiness of pods."""

from __future__ import annotations

import pytest

from cathedra.api.core.core_v1 import Container, Pod, PodCondition, PodSpec, PodStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time
from cathedra.semantics.pods import (
    is_active,
    is_available,
    is_ready,
    is_terminal,
    long_running_containers,
    ready_since,
)


def ready(since: float | None, status: str = "True") -> Pod:
    time = Time(since) if since is not None else None
    return Pod(status=PodStatus(conditions=(PodCondition(type="Ready", status=status, last_transition_time=time),)))


@pytest.mark.parametrize(("phase", "ended"), [("Succeeded", True), ("Failed", True), ("Running", False), ("", False)])
def test_a_pod_has_ended_when_its_phase_is_final(phase: str, ended: bool) -> None:
    pod = Pod(status=PodStatus(phase=phase))
    assert is_terminal(pod) is ended
    assert is_active(pod) is not ended


def test_a_pod_that_is_being_deleted_is_not_active() -> None:
    assert not is_active(Pod(metadata=ObjectMeta(deletion_timestamp=Time(5.0)), status=PodStatus(phase="Running")))


def test_a_pod_is_available_when_it_has_been_ready_long_enough() -> None:
    pod = ready(100.0)
    assert is_ready(pod)
    assert ready_since(pod) == 100.0
    assert not is_available(pod, 10, 109.0)
    assert is_available(pod, 10, 110.0)
    assert is_available(pod, 0, 0.0)


def test_a_pod_that_is_not_ready_is_not_available() -> None:
    pod = ready(100.0, "False")
    assert ready_since(pod) is None
    assert not is_available(pod, 0, 1e9)
    assert ready_since(ready(None)) == 0.0


def test_sidecars_run_beside_the_containers() -> None:
    spec = PodSpec(
        containers=(Container(name="c"),),
        init_containers=(Container(name="once"), Container(name="side", restart_policy="Always")),
    )
    assert [one.name for one in long_running_containers(Pod(spec=spec))] == ["c", "side"]
