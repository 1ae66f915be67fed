"""Plays ``vectors/scenarios`` on API server, scheduler and controllers in this process, in virtual time.

Every scenario gets a control plane of its own, as release 1.36 with the gates that it names. No node agent runs: the
player does the kubelet's part (see that folder's README).
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import signal
import traceback
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import Time
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, SERVICEACCOUNTS
from cathedra.client.transport import APICall, Transport
from cathedra.clock import LoopClock, VirtualTimeLoop
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.scheduler.scheduler import Scheduler
from tests.conformance.api_area import TOKEN, Result, config_of, gates_of, send
from tests.conformance.scenario_player import Player
from tests.conformance.vectorfiles import cases, vector_files
from tests.unit.passedon import PassedOn

NAMESPACE = "scenario-z7k4q"
"""So strange that it stands in no other word."""
REQUEST_SECONDS = 0.003
"""So long after a write of the player's its next request comes."""
SCHEDULER_SECONDS = 0.003
CONTROLLER_SECONDS = 0.004
"""So long a write of a part is under way. In the recordings it took milliseconds too, so that the parts saw each
other's work half done: a claim that is being allocated, a node with its first taint. A controller, which has a queue
between the event and its work, came after the scheduler."""
ANSWER_SECONDS = 0.002
"""So long the answer to a write is under way."""
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
LONGEST_SECONDS = 20
"""More real time than any scenario takes."""


def run(folder: Path) -> Iterator[Result]:
    """One result per scenario of every file."""
    logging.disable(logging.CRITICAL)
    for name, path in vector_files(folder).items():
        yield from run_file(name, path)


def run_file(name: str, path: Path, only: str = "") -> Iterator[Result]:
    """One result per scenario of a file whose id contains ``only``."""
    for scenario in cases(path):
        if only in scenario["id"]:
            difference = play(scenario)
            yield name, scenario["id"], not difference, difference


def play(scenario: dict[str, Any]) -> str:
    """The first difference of a scenario, or ""."""
    loop = VirtualTimeLoop()
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_SECONDS)
    try:
        return loop.run_until_complete(_play(scenario))
    except Exception as error:
        return f"crashed: {''.join(traceback.format_exception(error)[-3:])}"
    except (_NoEnd, BaseExceptionGroup):
        return f"no end after {LONGEST_SECONDS} seconds of real time: something goes round without waiting"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        loop.close()


class _NoEnd(BaseException):
    """A scenario in which virtual time stands still."""


def _end(*_: object) -> None:
    raise _NoEnd


async def _play(scenario: dict[str, Any]) -> str:
    async with control_plane(scenario.get("gates", "all")) as cluster:
        return await Player(cluster, NAMESPACE).play(scenario["steps"])


class Delayed(PassedOn):
    """A transport on which writes take their time. Reads and watches are at once."""

    def __init__(self, inner: Transport, clock: LoopClock, seconds: float) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = seconds

    async def call(self, call: APICall) -> Any:
        if call.verb not in _WRITES:
            return await self._inner.call(call)
        await self._clock.sleep(self._seconds)
        try:
            return await self._inner.call(call)
        finally:
            await self._clock.sleep(ANSWER_SECONDS)


class ControlPlane:
    """API server and scheduler in process, as a player's cluster."""

    step = 0.05

    def __init__(self, server: APIServer, scheduler: Scheduler, clock: LoopClock) -> None:
        self._server = server
        self._scheduler = scheduler
        self._clock = clock

    async def request(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> tuple[int, Any]:
        """One request straight into the server's application."""
        headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", content_type.encode())]
        path, _, query = path.partition("?")
        data = b"" if body is None else json.dumps(body).encode()
        answer = await send(self._server, method, path, query, headers, data)
        if method != "GET":
            await self._clock.sleep(REQUEST_SECONDS)
        return answer.status, answer.value

    async def sleep(self, seconds: float) -> None:
        """Let virtual time pass."""
        await self._clock.sleep(seconds)

    def now(self) -> str:
        """The virtual time."""
        return self.later(0)

    def later(self, seconds: int) -> str:
        """The virtual time ``seconds`` from now."""
        return str(Time(int(self._clock.now()) + seconds))

    def state(self) -> object:
        """The revision of the last write."""
        return self._server.revision

    def is_scheduling(self) -> bool:
        """True if pods are in the active or back-off queue."""
        counted = self._scheduler.statistics()
        return bool(counted["active"] or counted["backoff"])


def control_plane(gates: str) -> AbstractAsyncContextManager[ControlPlane]:
    """A control plane with these gates, and the scenario's namespace in it."""
    return _control_plane("default" if gates == "default" else "all")


@asynccontextmanager
async def _control_plane(column: str) -> Any:
    clock = LoopClock(asyncio.get_running_loop())
    gates = gates_of(column)
    server = await APIServer.open(
        msgspec.structs.replace(config_of(column), node_lifecycle=True), clock=clock, random=random.Random(7)
    )
    server.context.static_tokens.add({TOKEN: UserInfo("admin", ("system:masters",))})

    def client_of(user: str, delay: float = CONTROLLER_SECONDS) -> Client:
        return Client(Delayed(server.transport(user), clock, delay), clock=clock)

    scheduler = Scheduler(
        client_of("system:kube-scheduler", SCHEDULER_SECONDS),
        clock=clock,
        random=random.Random(11),
        gates=gates,
    )
    manager = ControllerManager(
        client_of("system:kube-controller-manager"),
        clock=clock,
        random=random.Random(13),
        gates=gates,
        options=ControllerOptions(client_of=lambda name: client_of(f"system:serviceaccount:kube-system:{name}")),
    )
    parts = [asyncio.ensure_future(scheduler.run()), asyncio.ensure_future(manager.run())]
    try:
        api = Client(server.transport(), clock=clock)
        await api.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
        accounts = api.resource(SERVICEACCOUNTS, NAMESPACE)
        while not (await accounts.list()).items:
            await clock.sleep(0.05)
        yield ControlPlane(server, scheduler, clock)
        for part in parts:
            if part.done():
                part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        await server.close()
