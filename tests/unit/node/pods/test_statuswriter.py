"""Writing a pod's status: when it has changed, and on top of what others write."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import Container, Pod, PodCondition, PodReadinessGate, PodSpec, PodStatus
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict, forbidden
from cathedra.api.struct import Time, replace
from cathedra.client.resources import PODS
from cathedra.client.transport import APICall
from cathedra.node.containers.records import ContainerTable, Waiting, records_for
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.statuswriter import PodView, StatusWriter, pod_status, rejected_status
from cathedra.node.runtime.runtime import ContainerRun, PodIdentity
from tests.running import run_with
from tests.unit.node.fakes import make_pod
from tests.unit.node.pods.onepod import OnePod, play

RESOURCE = GroupResource("", "pods")


def writer(one: OnePod) -> StatusWriter:
    table = ContainerTable(records_for(one.object.pod).values())
    return StatusWriter(one.object, one.life, table, one.context, one.resizer(table))


async def labelled(one: OnePod) -> None:
    """Write as another client."""
    pod = one.stored()
    await one.client.resource(PODS, "default").update(
        replace(pod, metadata=replace(pod.metadata, labels={"mine": "yes"}))
    )


@run_with(play)
async def test_a_status_is_written_once_until_it_changes(one: OnePod) -> None:
    await one.create()
    status = writer(one)
    assert await status.publish()
    assert one.stored().status.phase == "Pending"
    await one.clock.sleep(60)
    assert await status.publish()
    assert one.requests("update") == 1
    one.life.note_acknowledged(one.clock.now())
    assert await status.publish()
    assert one.requests("update") == 2
    assert one.stored().status.start_time is not None


@run_with(play)
async def test_what_others_have_written_meanwhile_stays(one: OnePod) -> None:
    await one.create()
    await labelled(one)
    assert await writer(one).publish()
    assert (one.stored().metadata.labels, one.stored().status.phase) == ({"mine": "yes"}, "Pending")
    assert one.object.pod == one.stored()


@run_with(play)
async def test_a_write_that_always_comes_too_late_is_left_for_another_time(
    one: OnePod, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.create()
    update = one.server.update

    async def late(call: APICall) -> Any:
        if call.subresource:
            raise conflict(RESOURCE, "p", "the object has been modified")
        return await update(call)

    with monkeypatch.context() as patch:
        patch.setattr(one.server, "update", late)
        assert not await writer(one).publish()
    assert one.requests("get") == 5
    assert await writer(one).publish()


@pytest.mark.parametrize("error", [ConnectionError("lost"), forbidden(RESOURCE, "p", "no")])
@run_with(play)
async def test_what_could_not_be_written_is_said_to_be_so(one: OnePod, *, error: Exception) -> None:
    await one.create()
    one.server.failures.append(error)
    assert not await writer(one).publish()
    assert await writer(one).publish()


@run_with(play)
async def test_nothing_is_written_to_a_pod_that_is_gone(one: OnePod) -> None:
    status = writer(one)
    assert await status.publish(), "there is no such pod any more, and so nothing to tell"
    one.object.note_gone()
    before = len(one.server.requests)
    assert await status.publish()
    assert len(one.server.requests) == before


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_status_that_is_final_is_never_touched_again(phase: str) -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        assert await writer(one).publish(final=True)
        assert one.requests("update") == 0

    play(body, replace(make_pod(), status=PodStatus(phase=phase)))


@run_with(play)
async def test_a_pod_that_is_not_taken_has_failed_with_the_reason(one: OnePod) -> None:
    await one.create()
    assert await writer(one).publish_rejection(Rejection("OutOfcpu", "Node didn't have enough resource: cpu"))
    status = one.stored().status
    assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
    assert "Node didn't have enough resource: cpu" in status.message


@run_with(play)
async def test_the_deletion_of_a_pod_that_is_over_is_completed(one: OnePod) -> None:
    await one.create()
    assert not await writer(one).confirm_deletion(), "a finalizer might hold it"
    assert one.server.objects == {}
    assert await writer(one).confirm_deletion()


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (conflict(RESOURCE, "p", "the UID in the precondition is another"), True),
        (forbidden(RESOURCE, "p", "no"), False),
        (ConnectionError("lost"), False),
    ],
)
@run_with(play)
async def test_only_another_pod_of_that_name_means_that_it_is_gone(
    one: OnePod, *, error: Exception, gone: bool
) -> None:
    await one.create()
    one.server.failures.append(error)
    assert await writer(one).confirm_deletion() is gone


NOW = 1_800_000_000.0


def pod(policy: str = "Never", **spec: Any) -> Pod:
    containers = spec.pop("containers", (Container(name="a"), Container(name="b")))
    return Pod(
        metadata=ObjectMeta(name="p", namespace="d", uid="u", generation=3),
        spec=PodSpec(containers=containers, restart_policy=policy, **spec),
    )


def status_of(of: Pod, codes: dict[str, int | None], **view: Any) -> PodStatus:
    """The status when these containers run (None) or have ended with a code."""
    records = records_for(of)
    for name, code in codes.items():
        finished = None if code is None else NOW
        reason = "" if code is None else "Completed" if code == 0 else "Error"
        identity = PodIdentity("d", "p", "u")
        run = ContainerRun(
            f"id-{name}", identity, name, 0, NOW - 9, finished_at=finished, exit_code=code, reason=reason
        )
        waiting = Waiting("CrashLoopBackOff", "later") if code else None
        probed = records[name].probed(started=code is None, ready=code is None)
        records[name] = msgspec.structs.replace(probed, current=run, waiting=waiting)
    base: dict[str, Any] = {"now": NOW, "runtime": "crun", "host_ip": "10.0.0.1", "pod_ip": "10.0.0.1", "sandbox": True}
    return pod_status(of, tuple(records.values()), PodView(**(base | view)))


def conditions(status: PodStatus) -> dict[str, tuple[str, str]]:
    return {c.type: (c.status, c.reason) for c in status.conditions}


@pytest.mark.parametrize(
    ("policy", "codes", "final", "phase"),
    [
        ("Never", {}, False, "Pending"),
        ("Never", {"a": None}, False, "Pending"),
        ("Never", {"a": None, "b": None}, False, "Running"),
        ("Always", {"a": 1, "b": None}, False, "Running"),
        ("Never", {"a": 0, "b": 0}, False, "Running"),
        ("Never", {"a": 0, "b": 0}, True, "Succeeded"),
        ("Never", {"a": 0, "b": 1}, True, "Failed"),
        ("Never", {"a": 0}, True, "Failed"),
    ],
)
def test_the_phase_becomes_terminal_only_when_everything_is_let_go(
    policy: str, codes: dict[str, int | None], final: bool, phase: str
) -> None:
    assert status_of(pod(policy), codes, final=final).phase == phase


def test_a_pod_is_ready_when_all_its_containers_and_gates_are() -> None:
    gated = pod(readiness_gates=(PodReadinessGate(condition_type="example.com/open"),))
    both = {"a": None, "b": None}
    assert conditions(status_of(pod(), both))["Ready"] == ("True", "")
    assert conditions(status_of(pod(), {"a": None}))["Ready"] == ("False", "ContainersNotReady")
    closed = conditions(status_of(gated, both))
    assert (closed["ContainersReady"], closed["Ready"]) == (("True", ""), ("False", "ReadinessGatesNotReady"))
    opened = replace(gated, status=PodStatus(conditions=(PodCondition(type="example.com/open", status="True"),)))
    assert conditions(status_of(opened, both))["Ready"] == ("True", "")
    assert conditions(status_of(pod(), both, stopping=True))["Ready"] == ("False", "ContainersNotReady")


def test_the_end_of_a_pod_is_the_reason_why_it_is_not_ready() -> None:
    assert conditions(status_of(pod(), {"a": 0, "b": 0}, final=True))["Ready"] == ("False", "PodCompleted")
    assert conditions(status_of(pod(), {"a": 0, "b": 1}, final=True))["Ready"] == ("False", "PodFailed")


def test_a_conditions_time_moves_only_with_its_status_and_those_of_others_stay() -> None:
    other = PodCondition(type="DisruptionTarget", status="True", reason="DeletionByDeviceTaintManager")
    before = replace(pod(), status=PodStatus(conditions=(other,)))
    first = status_of(before, {"a": None, "b": None})
    later = status_of(replace(before, status=first), {"a": None, "b": None}, now=NOW + 60)
    assert later == first
    ended = status_of(replace(before, status=first), {"a": None, "b": 1}, now=NOW + 60)
    moved = {c.type: c.last_transition_time for c in ended.conditions}
    assert moved["Ready"] == Time(NOW + 60)
    assert moved["Initialized"] == Time(NOW)
    assert other in ended.conditions


def test_a_container_that_will_be_started_again_waits_and_its_end_is_the_last_state() -> None:
    crashed = status_of(pod("Always"), {"a": 3, "b": None}).container_statuses[0]
    assert crashed.state.waiting is not None
    assert crashed.state.waiting.reason == "CrashLoopBackOff"
    assert crashed.last_state.terminated is not None
    assert crashed.last_state.terminated.exit_code == 3
    over = status_of(pod("Never"), {"a": 3, "b": None}).container_statuses[0]
    assert over.state.terminated is not None
    assert over.state.terminated.container_id == "crun://id-a"


def test_a_container_that_never_ran_waits_for_its_turn_and_is_unknown_in_the_end() -> None:
    waiting = status_of(pod(init_containers=(Container(name="i"),)), {"i": None})
    reasons = [s.state.waiting.reason for s in waiting.container_statuses if s.state.waiting is not None]
    assert reasons == ["PodInitializing", "PodInitializing"]
    assert conditions(waiting)["Initialized"] == ("False", "ContainersNotInitialized")
    lost = status_of(pod(), {"a": 0}, final=True).container_statuses[1].state.terminated
    assert lost is not None
    assert (lost.exit_code, lost.reason) == (137, "ContainerStatusUnknown")


def test_a_deadline_is_told_as_the_reason() -> None:
    late = status_of(pod(), {"a": 137, "b": 137}, final=True, failure=("DeadlineExceeded", "too long"))
    assert (late.phase, late.reason, late.message) == ("Failed", "DeadlineExceeded", "too long")


def test_a_refused_pod_has_failed_and_has_no_containers() -> None:
    refused = rejected_status(pod(), NOW, Rejection("OutOfcpu", "no room"))
    assert (refused.phase, refused.reason, refused.message) == ("Failed", "OutOfcpu", "Pod was rejected: no room")
    assert (refused.start_time, refused.observed_generation) == (Time(NOW), 3)
    assert refused.container_statuses == ()
