"""Writing a pod's status: when it has changed, and on top of what others write."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import PodStatus
from cathedra.api.scheme import GroupResource
from cathedra.api.status import conflict, forbidden
from cathedra.api.struct import replace
from cathedra.client.resources import PODS
from cathedra.node.containers.records import records_for
from cathedra.node.containers.table import ContainerTable
from cathedra.node.pods.admission import Rejection
from cathedra.node.pods.statuswriter import StatusWriter
from tests.unit.node.fakes import make_pod
from tests.unit.node.pods.onepod import OnePod, play

RESOURCE = GroupResource("", "pods")


def writer(one: OnePod) -> StatusWriter:
    table = ContainerTable(records_for(one.object.pod).values())
    return StatusWriter(one.object, one.life, table, one.context, one.resizer(table))


async def labelled(one: OnePod) -> None:
    """Somebody else writes."""
    pod = one.stored()
    await one.client.resource(PODS, "default").update(
        replace(pod, metadata=replace(pod.metadata, labels={"mine": "yes"}))
    )


def test_a_status_is_written_once_until_it_changes() -> None:
    async def body(one: OnePod) -> None:
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

    play(body)


def test_what_others_have_written_meanwhile_stays() -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        await labelled(one)
        assert await writer(one).publish()
        assert (one.stored().metadata.labels, one.stored().status.phase) == ({"mine": "yes"}, "Pending")
        assert one.object.pod == one.stored()

    play(body)


def test_a_write_that_always_comes_too_late_is_left_for_another_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        update = one.server.update

        async def late(ref: Any, namespace: str, obj: Any, options: Any, **place: Any) -> Any:
            if place:
                raise conflict(RESOURCE, "p", "the object has been modified")
            return await update(ref, namespace, obj, options)

        with monkeypatch.context() as patch:
            patch.setattr(one.server, "update", late)
            assert not await writer(one).publish()
        assert one.requests("get") == 5
        assert await writer(one).publish()

    play(body)


@pytest.mark.parametrize("error", [ConnectionError("lost"), forbidden(RESOURCE, "p", "no")])
def test_what_could_not_be_written_is_said_to_be_so(error: Exception) -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        one.server.failures.append(error)
        assert not await writer(one).publish()
        assert await writer(one).publish()

    play(body)


def test_nothing_is_written_to_a_pod_that_is_gone() -> None:
    async def body(one: OnePod) -> None:
        status = writer(one)
        assert await status.publish(), "there is no such pod any more, and so nothing to tell"
        one.object.note_gone()
        before = len(one.server.requests)
        assert await status.publish()
        assert len(one.server.requests) == before

    play(body)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_status_that_is_final_is_never_touched_again(phase: str) -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        assert await writer(one).publish(final=True)
        assert one.requests("update") == 0

    play(body, replace(make_pod(), status=PodStatus(phase=phase)))


def test_a_pod_that_is_not_taken_has_failed_with_the_reason() -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        assert await writer(one).publish_rejection(Rejection("OutOfcpu", "Node didn't have enough resource: cpu"))
        status = one.stored().status
        assert (status.phase, status.reason) == ("Failed", "OutOfcpu")
        assert "Node didn't have enough resource: cpu" in status.message

    play(body)


def test_the_deletion_of_a_pod_that_is_over_is_completed() -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        assert not await writer(one).confirm_deletion(), "a finalizer might hold it"
        assert one.server.objects == {}
        assert await writer(one).confirm_deletion()

    play(body)


@pytest.mark.parametrize(
    ("error", "gone"),
    [
        (conflict(RESOURCE, "p", "the UID in the precondition is another"), True),
        (forbidden(RESOURCE, "p", "no"), False),
        (ConnectionError("lost"), False),
    ],
)
def test_only_another_pod_of_that_name_means_that_it_is_gone(error: Exception, gone: bool) -> None:
    async def body(one: OnePod) -> None:
        await one.create()
        one.server.failures.append(error)
        assert await writer(one).confirm_deletion() is gone

    play(body)
