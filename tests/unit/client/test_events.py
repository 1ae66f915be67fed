"""Events are folded as client-go folds them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Event, Node, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.status import forbidden
from cathedra.client import events as events_module
from cathedra.client.client import Client
from cathedra.client.events import ATTEMPTS, RETRY_SECONDS, EventRecorder
from cathedra.client.transport import APICall
from cathedra.clock import run_virtual
from tests.running import beside
from tests.unit.client.fake_transport import FakeTransport

POD = Pod(metadata=ObjectMeta(name="p", namespace="default", uid="u1", resource_version="7"))

WRITTEN_SECONDS = ATTEMPTS * RETRY_SECONDS
"""After these seconds, an event is written or given up."""


def events(body: Callable[[EventRecorder], Awaitable[None]], **options: int) -> list[Event]:
    async def main() -> list[Event]:
        server = FakeTransport()
        recorder = EventRecorder(Client(server, clock=server.clock()), "tester", server.clock(), **options)
        async with beside(recorder.run()):
            await body(recorder)
            await asyncio.sleep(WRITTEN_SECONDS)
        return [obj for obj in server.objects.values() if isinstance(obj, Event)]

    return run_virtual(main())


def test_repetition_raises_the_count() -> None:
    async def body(recorder: EventRecorder) -> None:
        for _ in range(3):
            recorder.record(POD, "Warning", "Failed", "no luck")
            await asyncio.sleep(60)

    (event,) = events(body)
    assert (event.count, event.type, event.reason, event.message) == (3, "Warning", "Failed", "no luck")
    assert event.source.component == "tester"
    assert event.last_timestamp is not None
    assert event.first_timestamp is not None
    assert event.last_timestamp.timestamp - event.first_timestamp.timestamp == 120
    assert event.involved_object.uid == "u1"
    assert event.involved_object.kind == "Pod"
    assert event.metadata.namespace == "default"


def test_cluster_scoped_objects_have_their_events_in_default() -> None:
    async def body(recorder: EventRecorder) -> None:
        recorder.record(Node(metadata=ObjectMeta(name="n1")), "Normal", "Ready", "yes")

    (event,) = events(body)
    assert event.metadata.namespace == "default"
    assert event.metadata.name.startswith("n1.")


def test_many_similar_events_are_folded_into_one() -> None:
    async def body(recorder: EventRecorder) -> None:
        for number in range(15):
            recorder.record(POD, "Warning", "Failed", f"attempt {number}")

    found = events(body)
    assert len(found) == 10
    (folded,) = (event for event in found if event.message.startswith("(combined from similar events): "))
    assert (folded.count, folded.message) == (6, "(combined from similar events): attempt 14")


def test_an_event_beyond_the_number_that_is_remembered_loses_its_count() -> None:
    async def body(recorder: EventRecorder) -> None:
        for name in ("a", "b", "c", "a", "c"):
            recorder.record(Node(metadata=ObjectMeta(name=name)), "Normal", "Same", "again")

    found = events(body, remembered=2)
    assert sorted((one.involved_object.name, one.count) for one in found) == [("a", 1), ("a", 1), ("b", 1), ("c", 2)]


def test_one_object_is_told_about_twenty_five_times_and_then_rarely() -> None:
    async def body(recorder: EventRecorder) -> None:
        for _ in range(100):
            recorder.record(POD, "Normal", "Same", "again")

    (event,) = events(body)
    assert event.count == 25


def test_the_newer_form_becomes_a_series() -> None:
    async def body(recorder: EventRecorder) -> None:
        for _ in range(5):
            recorder.record(POD, "Warning", "FailedScheduling", "0/3 nodes", action="Scheduling")
            await asyncio.sleep(20)
        await asyncio.sleep(400)

    (event,) = events(body)
    assert event.event_time is not None
    assert event.reporting_component == "tester"
    assert event.source.component == ""
    assert event.count == 0
    assert event.series is not None
    assert event.series.count == 5


def test_a_missing_connection_only_delays() -> None:
    async def main() -> int:
        server = FakeTransport()
        server.failures += [ConnectionError("down")] * 2
        recorder = EventRecorder(Client(server, clock=server.clock()), "tester", server.clock())
        recorder.record(POD, "Normal", "Fine", "all is well")
        async with beside(recorder.run()):
            await asyncio.sleep(WRITTEN_SECONDS)
        return len(server.objects)

    assert run_virtual(main()) == 1


@pytest.mark.parametrize("fault", ["lost answer", "repeated by a proxy"])
def test_an_event_of_which_the_first_answer_is_not_seen_is_written_once(fault: str) -> None:
    class Unreliable(FakeTransport):
        met = False

        async def call(self, call: APICall) -> Any:
            answer = await super().call(call)
            if self.met:
                return answer
            self.met = True
            if fault == "lost answer":
                raise ConnectionError("the answer was lost")
            return await super().call(call)

    async def main() -> int:
        server = Unreliable()
        recorder = EventRecorder(Client(server, clock=server.clock()), "tester", server.clock())
        recorder.record(POD, "Normal", "Fine", "all is well")
        async with beside(recorder.run()):
            await asyncio.sleep(WRITTEN_SECONDS)
        return len(server.objects)

    assert run_virtual(main()) == 1


def test_two_recorders_write_about_one_object_in_one_tick_of_the_clock() -> None:
    async def main() -> int:
        server = FakeTransport()
        client = Client(server, clock=server.clock())
        recorders = [EventRecorder(client, name, server.clock()) for name in ("tester", "other")]
        tasks = [asyncio.ensure_future(one.run()) for one in recorders]
        for one in recorders:
            one.record(POD, "Normal", "Fine", "all is well")
            one.record(POD, "Normal", "Finer", "all is very well")
        await asyncio.sleep(WRITTEN_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(server.objects)

    assert run_virtual(main()) == 4


def test_what_is_told_while_too_much_waits_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "QUEUED", 2)

    async def body(recorder: EventRecorder) -> None:
        for number in range(5):
            recorder.record(POD, "Normal", f"Reason{number}", "text")
        assert recorder.dropped == 3
        await asyncio.sleep(WRITTEN_SECONDS)
        recorder.record(POD, "Normal", "Later", "text")

    assert [event.reason for event in events(body)] == ["Reason0", "Reason1", "Later"]


def test_an_event_that_cannot_be_written_keeps_none_of_the_others_from_it() -> None:
    async def body(recorder: EventRecorder) -> None:
        recorder.record(POD, "Warning", "Odd", None)  # type: ignore[arg-type]
        recorder.record(POD, "Normal", "Odd", None, action="Odd")  # type: ignore[arg-type]
        recorder.record(POD, "Warning", "Failed", "no luck")

    assert "Failed" in [event.reason for event in events(body)]


@pytest.mark.parametrize("action", ["", "Binding"])
def test_a_message_is_cut_to_what_an_event_may_have(action: str) -> None:
    async def body(recorder: EventRecorder) -> None:
        recorder.record(POD, "Warning", "Failed", "x" * 3_500_000, action=action)

    (event,) = events(body)
    assert event.message == "x" * 1020 + " ..."


@pytest.mark.parametrize(
    "failures",
    [
        [forbidden(GroupResource("", "events"), "x", "the namespace is terminating")],
        [ConnectionError("down")] * ATTEMPTS,
    ],
    ids=["refused", "no connection"],
)
def test_the_caller_learns_of_an_event_that_is_not_written(failures: list[Exception]) -> None:
    async def main() -> tuple[list[str], list[str]]:
        dropped: list[str] = []
        server = FakeTransport()
        server.failures += failures
        recorder = EventRecorder(Client(server, clock=server.clock()), "tester", server.clock())
        recorder.listen(lambda event: dropped.append(event.reason))
        for reason in ("First", "Second"):
            recorder.record(POD, "Normal", reason, "text")
        async with beside(recorder.run()):
            await asyncio.sleep(WRITTEN_SECONDS)
        return dropped, [one.reason for one in server.objects.values() if isinstance(one, Event)]

    assert run_virtual(main()) == (["First"], ["Second"])


def test_the_caller_learns_of_an_event_for_which_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "QUEUED", 1)
    dropped: list[str] = []

    async def body(recorder: EventRecorder) -> None:
        recorder.listen(lambda event: dropped.append(event.reason))
        for reason in ("First", "Second"):
            recorder.record(POD, "Normal", reason, "text")

    assert [event.reason for event in events(body)] == ["First"]
    assert dropped == ["Second"]
