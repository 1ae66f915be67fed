"""The model: the same verdicts as a state that is read anew, without being made anew."""

from __future__ import annotations

from typing import Any

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.status import Status, StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.transport import APICall
from cathedra.insight import explain, read_client
from tests.unit.advisor.world import GATES, World, waiting, with_world
from tests.unit.scheduler.objects import node, slice_


def test_its_answers_are_those_of_a_state_that_is_read_anew() -> None:
    async def body(world: World) -> None:
        advisor = world.advise()
        await world.create(*waiting("a", 2), *waiting("b", 3), node("n2"), slice_("n2", 4, driver="other.example.com"))
        await world.change(Node, "n1", lambda one: replace(one, spec=replace(one.spec, unschedulable=True)))
        await world.clock.sleep(3)
        state = await read_client(world.client, source="the server", gates=GATES)
        for name in "ab":
            waits = next(one for one in advisor.pods.by_uid.values() if one.pod.metadata.name == name)
            answer = advisor.pods.judge(waits)
            read = explain(state, f"pod/{name}")
            assert (answer.explanation.summary, answer.explanation.causes) == (read.summary, read.causes)

    with_world(body)


class Refusing:
    """A transport that may not list jobs."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def call(self, call: APICall) -> Any:
        if call.verb == "list" and call.ref.resource == "jobs":
            raise StatusError(Status(status="Failure", code=403, reason="Forbidden", message="no"))
        return await self._inner.call(call)

    def watch(self, call: APICall) -> Any:
        return self._inner.watch(call)


def test_a_kind_that_may_not_be_listed_is_unknown_and_stops_nothing() -> None:
    async def body(world: World) -> None:
        world.client = Client(Refusing(world.api.transport), clock=world.clock)
        advisor = world.advise()
        await world.create(*waiting("a", 4))
        await world.until_event("a")
        state = advisor.model.state()
        assert not state.is_known(Job)
        assert [note.text for note in state.notes] == ["jobs could not be listed so far"]

    with_world(body)


def test_heartbeats_of_nodes_and_reports_of_pods_change_no_verdict() -> None:
    async def body(world: World) -> None:
        advisor = world.advise()
        await world.create(*waiting("a"))
        await world.clock.sleep(2)
        before = advisor.model.version
        await world.change(
            Node, "n1", lambda one: replace(one, metadata=replace(one.metadata, annotations={"beat": "1"}))
        )
        await world.refuse("a")
        await world.clock.sleep(2)
        assert advisor.model.version == before
        await world.delete(Pod, "a")
        await world.clock.sleep(2)
        assert advisor.model.version > before

    with_world(body)
