"""Requests of pods to a container runtime, and their results."""

from __future__ import annotations

from msgspec.structs import replace

from cathedra.node.runtime.hosted import HostedRuntime
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity, Runtime, RuntimeFailure
from cathedra.node.runtime.simulated import SimulatedRuntime

POD = PodIdentity("ns", "p", "u")


def test_a_failure_says_first_what_the_waiting_state_shows() -> None:
    failure = RuntimeFailure("CreateContainerError", "no such mount")
    assert str(failure) == "CreateContainerError: no such mount"


def test_a_pod_is_named_as_people_name_it() -> None:
    assert str(POD) == "ns/p"


def test_a_container_runs_until_it_has_an_exit_code() -> None:
    run = ContainerRun("i", POD, "c", 0, 1.0)
    assert run.running
    assert not replace(run, exit_code=0, finished_at=2.0).running


def test_every_runtime_offers_all_of_it() -> None:
    asked = {name for name in vars(Runtime) if not name.startswith("_")}
    assert {"open", "start", "signal", "remove", "exec", "attach", "close"} <= asked
    for runtime in (HostedRuntime, SimulatedRuntime):
        assert asked <= set(dir(runtime))
