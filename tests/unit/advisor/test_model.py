"""The model: the same verdicts as a state that is read anew, without being made anew."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from cathedra.advisor.model import ModelTurns, TurnTransport
from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Node, NodeFeatures, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from cathedra.api.scheme import GroupResource
from cathedra.api.status import Status, StatusError, not_found
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.resources import PODS
from cathedra.client.transport import APICall, EventType, Page, WatchEvent
from cathedra.clock import SystemClock
from cathedra.insight import explain, read_client
from tests.running import run_with
from tests.unit.advisor.world import GATES, World, waiting, with_world
from tests.unit.scheduler.objects import node, slice_


@run_with(with_world)
async def test_its_answers_are_those_of_a_state_that_is_read_anew(world: World) -> None:
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


@run_with(with_world)
async def test_a_kind_that_may_not_be_listed_is_unknown_and_stops_nothing(world: World) -> None:
    world.client = Client(Refusing(world.api.transport), clock=world.clock)
    advisor = world.advise()
    await world.create(*waiting("a", 4))
    await world.until_event("a")
    state = advisor.model.state()
    assert not state.is_known(Job)
    assert [note.text for note in state.notes] == ["jobs could not be listed so far"]


@run_with(with_world)
async def test_heartbeats_of_nodes_and_reports_of_pods_change_no_verdict(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a"))
    await world.clock.sleep(2)
    before = advisor.model.version
    await world.change(Node, "n1", lambda one: replace(one, metadata=replace(one.metadata, annotations={"beat": "1"})))
    await world.refuse("a")
    await world.clock.sleep(2)
    assert advisor.model.version == before
    await world.delete(Pod, "a")
    await world.clock.sleep(2)
    assert advisor.model.version > before


def changed(**status: Any) -> Callable[[Any], Any]:
    return lambda one: replace(one, status=replace(one.status, **status))


@run_with(with_world)
async def test_every_part_of_a_status_that_filters_read_may_change_a_verdict(world: World) -> None:
    advisor = world.advise()
    await world.create(*waiting("a"))
    await world.clock.sleep(2)
    consumer = ResourceClaimConsumerReference(resource="pods", name="a", uid="u")
    changes: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (Node, "n1", changed(declared_features=("DRAOptionalNodeOperations",))),
        (Node, "n1", changed(features=NodeFeatures(supplemental_groups_policy=True))),
        (Pod, "a", changed(nominated_node_name="n1")),
    ]
    for kind, name, change in changes:
        before = advisor.model.version
        await world.change(kind, name, change, status=True)
        await world.clock.sleep(2)
        assert advisor.model.version > before, (kind, change)
    held = ResourceClaim(status=ResourceClaimStatus(reserved_for=(consumer,)))
    before = advisor.model.version
    advisor.model._claim_updated(ResourceClaim(), held)
    assert advisor.model.version > before


# Either changes are applied or a thread computes on the model, and the event loop goes on in both cases.


class OnePodServer:
    """A server whose list is empty, and whose watch adds one pod."""

    def __init__(self) -> None:
        self.served = True
        self.sent = asyncio.Event()

    async def call(self, call: APICall) -> Any:
        if not self.served:
            raise not_found(GroupResource("", "pods"), "")
        return Page((), "1")

    def watch(self, call: APICall) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[Any]]]:
        return self._watch()

    @asynccontextmanager
    async def _watch(self) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        async def events() -> AsyncIterator[WatchEvent[Any]]:
            await self.sent.wait()
            metadata = ObjectMeta(name="p", namespace="default", uid="u", resource_version="2")
            yield WatchEvent(EventType.ADDED, Pod(metadata=metadata))
            await asyncio.get_running_loop().create_future()

        yield events()

    async def close(self) -> None:
        pass


class Held:
    """A computation that a test ends."""

    def __init__(self, turns: ModelTurns) -> None:
        self.begun, self.end = threading.Event(), threading.Event()
        self.task = asyncio.ensure_future(turns.run(self._work))

    def _work(self) -> str:
        self.begun.set()
        assert self.end.wait(60)
        return "done"

    async def wait_begun(self) -> None:
        while not self.begun.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0)


async def test_the_event_loop_goes_on_while_the_thread_computes() -> None:
    turns = ModelTurns()
    held = Held(turns)
    await held.wait_begun()
    waiting = asyncio.ensure_future(turns.changes())
    for _ in range(100):
        await asyncio.sleep(0)
    assert not waiting.done()
    held.end.set()
    assert await held.task == "done"
    await waiting
    turns.close()


async def test_a_change_is_applied_after_the_computation_and_not_during_it() -> None:
    turns, server = ModelTurns(), OnePodServer()
    clock = SystemClock()
    informer = Informer(Client(TurnTransport(server, turns), clock=clock), PODS, clock=clock)  # type: ignore[arg-type]
    running = asyncio.ensure_future(informer.run())
    await informer.wait_synced()
    held = Held(turns)
    await held.wait_begun()
    server.sent.set()
    for _ in range(100):
        await asyncio.sleep(0)
    assert not informer.store.list()
    applied = asyncio.Event()
    informer.add_handler(lambda _: applied.set())
    held.end.set()
    await asyncio.wait_for(applied.wait(), 60)
    running.cancel()
    turns.close()


async def test_a_refusal_waits_too_because_an_informer_empties_its_store() -> None:
    turns, server = ModelTurns(), OnePodServer()
    server.served = False
    held = Held(turns)
    await held.wait_begun()
    call = APICall("list", PODS)
    refused = asyncio.ensure_future(TurnTransport(server, turns).call(call))  # type: ignore[arg-type]
    for _ in range(100):
        await asyncio.sleep(0)
    assert not refused.done()
    held.end.set()
    with pytest.raises(StatusError):
        await refused
    turns.close()


async def test_a_fault_of_a_computation_is_its_callers() -> None:
    turns = ModelTurns()
    with pytest.raises(ZeroDivisionError):
        await turns.run(lambda: 1 // 0)
    assert await turns.run(lambda: 1) == 1
    turns.close()
