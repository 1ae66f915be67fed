"""The binding, and what became of it when its answer was lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Node, Pod
from cathedra.api.status import StatusError, failure, timeout
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NODES, PODS
from cathedra.client.transport import APICall
from cathedra.clock import LoopClock, run_virtual
from cathedra.releases import FeatureGates
from cathedra.scheduler.framework.plugin import CycleState
from cathedra.scheduler.framework.status import Status
from cathedra.scheduler.plugins.binder import DefaultBinder
from cathedra.scheduler.state.cache import Cache
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.apiserver.plain_definitions import plain_definitions
from tests.unit.passedon import PassedOn
from tests.unit.scheduler.objects import node, pod


class Faulty(PassedOn):
    """A transport that loses answers: of bindings (before or after they were carried out) and of questions."""

    def __init__(self, inner: Any, *, carried_out: bool, lost_questions: int) -> None:
        self._inner = inner
        self._carried_out = carried_out
        self.lost_questions = lost_questions

    async def call(self, call: APICall) -> Any:
        if call.verb == "create":
            if self._carried_out:
                await self._inner.call(call)
            raise ConnectionError("the answer was lost")
        if call.verb == "get" and self.lost_questions:
            self.lost_questions -= 1
            raise ConnectionError("no answer")
        return await self._inner.call(call)


def bind(
    faults: Callable[[Any], Any] = lambda inner: inner, before: Callable[[Client], Awaitable[Any]] | None = None
) -> tuple[Status | None, Pod]:
    """Return the status of the binder for a pod and node ``n1``, and the pod afterwards."""

    async def main() -> tuple[Status | None, Pod]:
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        api = Client(server.transport(), clock=clock)
        await api.resource(NODES).create(node("n1"))
        created = await api.resource(PODS, "default").create(pod("p"))
        if before is not None:
            await before(api)
        binder = DefaultBinder(Client(faults(server.transport("system:kube-scheduler")), clock=clock), clock)
        status = await binder.bind(CycleState(Cache().snapshot()), PodInfo(created), "n1")
        after = await api.resource(PODS, "default").get(created.metadata.name)
        await server.close()
        return status, after

    return run_virtual(main())


def test_the_pod_gets_its_node() -> None:
    status, after = bind()
    assert status is None
    assert after.spec.node_name == "n1"


def test_a_refusal_is_an_error_with_the_servers_words() -> None:
    async def bound_elsewhere(api: Client) -> None:
        await api.resource(NODES).create(Node(metadata=node("n2").metadata))
        other = DefaultBinder(api, LoopClock(asyncio.get_running_loop()))
        found = await api.resource(PODS, "default").get("p")
        await other.bind(CycleState(Cache().snapshot()), PodInfo(found), "n2")

    status, after = bind(before=bound_elsewhere)
    assert status is not None
    assert "already assigned to node" in status.message
    assert after.spec.node_name == "n2"


@pytest.mark.parametrize("lost_questions", [0, 3])
def test_a_binding_that_was_carried_out_without_an_answer_stands(lost_questions: int) -> None:
    status, after = bind(lambda inner: Faulty(inner, carried_out=True, lost_questions=lost_questions))
    assert status is None
    assert after.spec.node_name == "n1"


def test_a_binding_that_was_not_carried_out_is_an_error() -> None:
    status, after = bind(lambda inner: Faulty(inner, carried_out=False, lost_questions=0))
    assert status is not None
    assert status.message == "the answer was lost"
    assert after.spec.node_name == ""


class Refusing(PassedOn):
    """A transport whose bindings are carried out, and answered with an error all the same."""

    def __init__(self, inner: Any, refusal: Callable[[], StatusError], *, repeated: bool) -> None:
        self._inner = inner
        self._refusal = refusal
        self._repeated = repeated
        self._refused_reads = 2

    async def call(self, call: APICall) -> Any:
        if call.verb == "get" and self._refused_reads:
            self._refused_reads -= 1
            raise failure(503, "ServiceUnavailable", "etcdserver: no leader")
        answer = await self._inner.call(call)
        if call.verb != "create":
            return answer
        if self._repeated:
            return await self._inner.call(call)
        raise self._refusal()


@pytest.mark.parametrize("repeated", [False, True])
def test_a_binding_that_was_carried_out_and_answered_with_an_error_stands(repeated: bool) -> None:
    """A store that times out may have kept the write, and a proxy may repeat a request that succeeded."""
    status, after = bind(lambda inner: Refusing(inner, lambda: timeout("request timed out"), repeated=repeated))
    assert status is None
    assert after.spec.node_name == "n1"
