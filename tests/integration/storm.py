"""Storms of writes through HTTPS, and the account of what was acknowledged: the tools of the kill -9 tests."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import ssl
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any, Final

import aiohttp

__all__ = ["Account", "Storm", "StormServer"]

TOKEN: Final = "sesame"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
WRITERS: Final = 8
NAMES: Final = 4
"""Objects of each writer."""
START_SECONDS: Final = 60.0


def serve(data: str, store: str, ready: Connection) -> None:
    """The child: an API server over HTTPS until it is killed."""
    asyncio.run(_serve(Path(data), store, ready))


async def _serve(data: Path, store: str, ready: Connection) -> None:
    from cathedra.apiserver.authentication.user import UserInfo
    from cathedra.apiserver.config import ServeOptions, ServerConfig
    from cathedra.apiserver.server import APIServer
    from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
    from cathedra.apiserver.storage.sqlite import SQLiteStorage
    from cathedra.clock import SystemClock
    from cathedra.releases import FeatureGates
    from tests.unit.apiserver.plain_definitions import plain_definitions

    clock = SystemClock()
    storage = EtcdStorage(EtcdAddress.parse(store), clock=clock) if store else SQLiteStorage(data / "objects.sqlite")
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    server = await APIServer.open(config, clock=clock, random=random.Random(1), store=storage)
    tokens = {TOKEN: UserInfo("alibaba", ("system:masters",))}
    ready.send(await server.serve(ServeOptions(pki=data / "pki", tokens=tokens, anonymous=False)))
    await asyncio.Event().wait()


class StormServer:
    """An API server in a process of its own that can be killed and started again on the same data."""

    def __init__(self, data: Path, store: str = "") -> None:
        self.url = ""
        self._data = data
        self._store = store
        # Children are forked from a process that has imported everything, so that a start takes milliseconds.
        self._context: ForkServerContext = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            [
                "cathedra.apiserver.authentication.pki",
                "cathedra.asgi.http1",
                "cathedra.apiserver.server",
                "cathedra.apiserver.storage.sqlite",
                "tests.integration.storm",
                "tests.unit.apiserver.plain_definitions",
            ]
        )
        self._process: ForkServerProcess | None = None

    async def start(self) -> None:
        """Start it and wait until it serves."""
        receiver, sender = self._context.Pipe(duplex=False)
        self._process = self._context.Process(target=serve, args=(str(self._data), self._store, sender))
        self._process.start()
        sender.close()
        if not await asyncio.to_thread(receiver.poll, START_SECONDS):
            raise TimeoutError("the server did not start")
        self.url = receiver.recv()

    def kill(self) -> None:
        """SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None

    def session(self) -> aiohttp.ClientSession:
        """A client that trusts the server."""
        context = ssl.create_default_context(cafile=str(self._data / "pki" / "ca.crt"))
        return aiohttp.ClientSession(
            self.url,
            headers={"Authorization": f"Bearer {TOKEN}"},
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=20),
        )


@dataclass
class Account:
    """Possible values of each object: the acknowledged one (None: absent), and those of unanswered requests."""

    acknowledged: dict[str, str | None] = field(default_factory=dict)
    open: dict[str, str | None] = field(default_factory=dict)
    revision: int = 0
    answers: int = 0
    lost: int = 0
    """Requests without an answer that had been carried out, or not: whichever was found."""

    def check(self, found: dict[str, str], revision: int) -> None:
        """Compare with what a server lists now; unanswered requests are settled by what is found."""
        for name in self.acknowledged.keys() | self.open.keys():
            allowed = {self.acknowledged.get(name)}
            if name in self.open:
                allowed.add(self.open[name])
            assert found.get(name) in allowed, f"{name} is {found.get(name)!r}, not one of {allowed}"
            self.acknowledged[name] = found.get(name)
        unexpected = found.keys() - self.acknowledged.keys()
        assert not unexpected, f"never written: {unexpected}"
        assert revision >= self.revision, f"revision {revision} is older than {self.revision}, which was acknowledged"
        self.lost += len(self.open)
        self.open.clear()


class Storm:
    """Writers that create, change and delete their own objects, as fast as the answers come."""

    def __init__(self, account: Account, seed: int) -> None:
        self.account = account
        self._random = random.Random(seed)
        self._count = 0
        self._over = False

    async def burst(self, session: aiohttp.ClientSession, answers: int, strike: Any) -> None:
        """Write until a number of responses has arrived, then call ``strike`` during the writes; the writers end
        there."""
        enough = asyncio.Event()
        self._over = False
        goal = self.account.answers + answers
        writers = [asyncio.create_task(self._write(session, number, goal, enough)) for number in range(WRITERS)]
        async with asyncio.timeout(120):
            await enough.wait()
            await strike()
            self._over = True
            await asyncio.gather(*writers)

    async def verify(self, session: aiohttp.ClientSession) -> None:
        """Compare what the server lists with the account."""
        # While a server reaches its store anew, it may answer 504 with the time after which to repeat the request.
        async with asyncio.timeout(60):
            while True:
                answer = await session.get(MAPS)
                body = await answer.json()
                if answer.status != 504:
                    break
                await asyncio.sleep(body["details"]["retryAfterSeconds"])
        assert answer.status == 200, body
        found = {item["metadata"]["name"]: item["data"]["value"] for item in body["items"]}
        self.account.check(found, int(body["metadata"]["resourceVersion"]))

    async def _write(self, session: aiohttp.ClientSession, writer: int, goal: int, enough: asyncio.Event) -> None:
        account = self.account
        while not self._over:
            name = f"w{writer}-{self._random.randrange(NAMES)}"
            now = account.acknowledged.get(name)
            self._count += 1
            value: str | None = f"v{self._count}"
            if now is not None and self._random.random() < 0.3:
                value = None
            account.open[name] = value
            try:
                status, revision = await _send(session, name, now, value)
            except (aiohttp.ClientError, TimeoutError, OSError):
                return
            if status in (503, 504):
                return
            assert status in (200, 201), f"{name}: {now} → {value} was answered by {status}"
            del account.open[name]
            account.acknowledged[name] = value
            account.revision = max(account.revision, revision)
            account.answers += 1
            if account.answers >= goal:
                enough.set()


async def _send(session: aiohttp.ClientSession, name: str, now: str | None, value: str | None) -> tuple[int, int]:
    path = f"{MAPS}/{name}"
    body = {"metadata": {"name": name}, "data": {"value": value}}
    if value is None:
        request = session.delete(path)
    elif now is None:
        request = session.post(MAPS, json=body)
    else:
        request = session.put(path, json=body)
    async with request as answer:
        found = await answer.json()
        return answer.status, int(found.get("metadata", {}).get("resourceVersion", 0))
