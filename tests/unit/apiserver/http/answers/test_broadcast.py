"""Pushed events: batches, shared bytes, and slow clients."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.http.answers.broadcast import (
    BOOKMARK_SECONDS,
    PIECE,
    ROUND_TURNS,
    SLOW_SECONDS,
    TURN_SECONDS,
    BroadcastWatch,
    WatchBroadcaster,
)
from cathedra.apiserver.http.request import ClientGone
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.watching import Seen, StoredChange, Watcher, Watchers
from cathedra.apiserver.server import APIServer
from cathedra.asgi.direct import framed
from cathedra.client.resources import CONFIGMAPS
from cathedra.client.transport import APICall
from cathedra.clock import SystemClock, VirtualTimeLoop, run_virtual
from tests.running import run_with
from tests.unit.apiserver.plain_definitions import plain_definitions


class Connection:
    """A target of frames that accepts them as long as its client reads."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.ready = True
        self.gone = False
        self.aborted = False
        self._callback: Callable[[], None] | None = None

    def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes, tail: bytes = b"") -> None:
        raise AssertionError("a stream has no whole answer")

    def write(self, frames: bytes | memoryview) -> None:
        self.frames.append(bytes(frames))

    def abort(self) -> None:
        self.aborted = True

    def on_ready(self, callback: Callable[[], None] | None) -> None:
        self._callback = callback

    def noting(self, order: list[str], name: str, then: Callable[[], None] = lambda: None) -> None:
        """Note from now on when something is written, and do something else then."""
        taken = self.write

        def write(frames: bytes | memoryview) -> None:
            taken(frames)
            order.append(name)
            if len(self.frames) == 1:
                then()

        self.write = write  # type: ignore[method-assign]

    def resume(self) -> None:
        self.ready = True
        if self._callback is not None:
            self._callback()


class WorkingLoop(VirtualTimeLoop):
    """One in which work takes time."""

    def work(self, seconds: float) -> None:
        self._jumping.elapsed += seconds


def selecting(namespace: str = "") -> Selection:
    return Selection(namespace, (), None, (namespace, "", "", ""))


class World:
    """Watches of one server, and changes that they see."""

    def __init__(self, monotonic: Callable[[], float] = lambda: 0.0) -> None:
        self.broadcaster = WatchBroadcaster(monotonic)
        self.watchers = Watchers()
        self.tasks: list[asyncio.Task[None]] = []
        self.encoded = 0
        self._revision = 0

    def watch(self, namespace: str = "", *, shared: str | None = "JSON", bookmarks: bool = False) -> Connection:
        connection, watcher = Connection(), Watcher(selecting(namespace))
        pushed = BroadcastWatch(
            watcher,
            connection,
            self.broadcaster,
            encoded=self._encode,
            shared=shared,
            bookmark=(lambda: b"bookmark") if bookmarks else None,
        )
        self.watchers.add(watcher)
        self.tasks.append(asyncio.create_task(pushed.run()))
        return connection

    def write(self, *keys: str) -> None:
        for key in keys:
            self._revision += 1
            namespace, _, name = key.partition("/")
            obj = ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace))
            StoredChange(self._revision, StoredObject(key, obj, self._revision), None).broadcast(self.watchers)

    def _encode(self, events: tuple[Seen, ...]) -> bytes:
        self.encoded += 1
        return " ".join(event.entry.key for event in events).encode()


def in_virtual_time(body: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await body()

    run_virtual(main())


def shown(connection: Connection) -> list[bytes]:
    """The frames without their lengths."""
    return [frame.split(b"\r\n")[1] for frame in connection.frames]


@run_with(in_virtual_time)
async def test_what_is_written_in_one_turn_goes_out_in_one_piece_made_once() -> None:
    world = World()
    connections = [world.watch() for _ in range(3)]
    await asyncio.sleep(0.1)
    world.write("a/1", "b/2", "a/3")
    await asyncio.sleep(0.1)
    world.write("a/4")
    await asyncio.sleep(0.1)
    for connection in connections:
        assert connection.frames == [b"b\r\na/1 b/2 a/3\r\n", b"3\r\na/4\r\n"]
        assert connection.frames[0] is connections[0].frames[0]
    assert world.encoded == 2


@run_with(in_virtual_time)
async def test_who_selects_otherwise_gets_other_bytes() -> None:
    world = World()
    everything, one, other = world.watch(), world.watch("a"), world.watch("b")
    own = world.watch("a", shared=None)
    await asyncio.sleep(0.1)
    world.write("a/1", "b/2", "a/3")
    await asyncio.sleep(0.1)
    assert shown(everything) == [b"a/1 b/2 a/3"]
    assert shown(one) == shown(own) == [b"a/1 a/3"]
    assert shown(other) == [b"b/2"]
    assert own.frames[0] is not one.frames[0]


@run_with(in_virtual_time)
async def test_a_client_that_takes_nothing_gets_all_later() -> None:
    world = World()
    slow, quick = world.watch(), world.watch()
    await asyncio.sleep(0.1)
    slow.ready = False
    for number in range(3):
        world.write(f"a/{number}")
        await asyncio.sleep(SLOW_SECONDS / 4)
    assert slow.frames == []
    assert shown(quick) == [b"a/0", b"a/1", b"a/2"]
    slow.resume()
    await asyncio.sleep(SLOW_SECONDS)
    assert shown(slow) == [b"a/0 a/1 a/2"]
    world.write("a/3")
    await asyncio.sleep(0.1)
    assert shown(slow)[1:] == [b"a/3"]


@run_with(in_virtual_time)
async def test_events_that_gather_behind_a_frame_follow_it() -> None:
    """They are in the group still, not in the watcher's queue, when the rest of the frame has been sent."""
    world = World()
    client = world.watch()
    await asyncio.sleep(0.1)

    def fill() -> None:
        client.ready = False

    client.noting([], "piece", fill)
    world.write("a/" + "x" * (2 * PIECE))
    await asyncio.sleep(0.1)
    world.write("a/late")
    await asyncio.sleep(0.1)
    client.resume()
    await asyncio.sleep(0.1)
    assert client.frames[-1] == framed(b"a/late")


@run_with(in_virtual_time)
async def test_a_client_that_takes_nothing_for_long_is_cut() -> None:
    world = World()
    slow = world.watch()
    await asyncio.sleep(0.1)
    slow.ready = False
    world.write("a/1")
    await asyncio.sleep(SLOW_SECONDS - 1)
    world.write("a/2")
    assert not world.tasks[0].done()
    await asyncio.sleep(2)
    assert isinstance(world.tasks[0].exception(), ClientGone)
    assert slow.aborted, "else the connection waits for its client to take what is buffered"


def test_a_turn_ends_early_where_sending_takes_long() -> None:
    turns: list[int] = []

    async def body() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WorkingLoop)
        world = World(loop.time)
        connections = [world.watch() for _ in range(20 * ROUND_TURNS)]
        await asyncio.sleep(0.1)
        sent = 0

        def slow(frame: bytes | memoryview) -> None:
            nonlocal sent
            sent += 1
            loop.work(TURN_SECONDS)

        for connection in connections:
            connection.write = slow  # type: ignore[method-assign]
        world.write("a/1")
        while sent < len(connections):
            before = sent
            await asyncio.sleep(0)
            turns.append(sent - before)

    loop = WorkingLoop()
    loop.run_until_complete(body())
    assert max(turns) <= 2


def test_a_watch_that_was_cut_is_freed_without_a_look_for_cycles() -> None:
    """Its connection may hold hundreds of kilobytes."""

    async def body() -> None:
        world = World()
        slow = world.watch()
        gone = weakref.ref(slow)
        await asyncio.sleep(0.1)
        slow.ready = False
        world.write("a/1")
        await asyncio.sleep(SLOW_SECONDS + 1)
        assert isinstance(world.tasks[0].exception(), ClientGone)
        world.tasks.clear()
        del slow
        assert gone() is None

    gc.collect()
    gc.disable()
    try:
        in_virtual_time(body)
    finally:
        gc.enable()


@run_with(in_virtual_time)
async def test_of_a_large_event_little_is_written_before_the_client_takes_it() -> None:
    world = World()
    slow = world.watch()
    await asyncio.sleep(0.1)
    before, write = len(slow.frames), slow.write

    def stop_reading(frames: bytes | memoryview) -> None:
        write(frames)
        slow.ready = False

    slow.write = stop_reading  # type: ignore[method-assign]
    name = "x" * (10 * PIECE)
    world.write(f"a/{name}")
    world.write("a/2")
    await asyncio.sleep(0.1)
    assert [len(frame) for frame in slow.frames[before:]] == [PIECE]
    for _ in range(20):
        slow.resume()
        await asyncio.sleep(0.1)
    assert max(len(frame) for frame in slow.frames) <= PIECE
    assert b"".join(slow.frames[before:]) == framed(f"a/{name} a/2".encode())


@run_with(in_virtual_time)
async def test_a_client_that_takes_a_part_of_an_event_and_nothing_more_is_cut() -> None:
    world = World()
    slow = world.watch()
    await asyncio.sleep(0.1)
    write = slow.write

    def stop_reading(frames: bytes | memoryview) -> None:
        write(frames)
        slow.ready = False

    slow.write = stop_reading  # type: ignore[method-assign]
    world.write(f"a/{'x' * (10 * PIECE)}")
    await asyncio.sleep(SLOW_SECONDS + 1)
    assert isinstance(world.tasks[0].exception(), ClientGone)


@run_with(in_virtual_time)
async def test_a_client_that_has_gone_ends_its_watch_at_once() -> None:
    world = World()
    connection = world.watch()
    await asyncio.sleep(0.1)
    connection.ready, connection.gone = False, True
    next(iter(world.watchers)).close()
    await asyncio.sleep(0.1)
    assert isinstance(world.tasks[0].exception(), ClientGone)


@run_with(in_virtual_time)
async def test_a_watch_that_is_over_sends_what_waits() -> None:
    world = World()
    connection = world.watch()
    await asyncio.sleep(0.1)
    world.write("a/1")
    next(iter(world.watchers)).end()
    await asyncio.sleep(0.1)
    assert shown(connection) == [b"a/1"]
    assert world.tasks[0].exception() is None


@run_with(in_virtual_time)
async def test_a_bookmark_comes_each_minute_also_between_events() -> None:
    world = World()
    marked, unmarked = world.watch(bookmarks=True), world.watch()
    await asyncio.sleep(BOOKMARK_SECONDS / 2)
    world.write("a/1")
    await asyncio.sleep(BOOKMARK_SECONDS / 2 + 1)
    assert shown(marked) == [b"a/1", b"bookmark"]
    for _ in range(3):
        world.write("a/1")
        await asyncio.sleep(BOOKMARK_SECONDS / 3)
    assert shown(marked) == [b"a/1", b"bookmark", b"a/1", b"a/1", b"a/1", b"bookmark"]
    assert shown(unmarked) == [b"a/1"] * 4


@run_with(in_virtual_time)
async def test_a_watch_that_fails_is_alone_with_it() -> None:
    world = World()

    def failing(events: tuple[Seen, ...]) -> bytes:
        raise ValueError("no bytes")

    watcher = Watcher(selecting())
    failed = BroadcastWatch(watcher, Connection(), world.broadcaster, encoded=failing, shared=None, bookmark=None)
    world.watchers.add(watcher)
    task = asyncio.create_task(failed.run())
    other = world.watch()
    await asyncio.sleep(0.1)
    world.write("a/1")
    await asyncio.sleep(0.1)
    assert isinstance(task.exception(), ValueError)
    assert shown(other) == [b"a/1"]


@pytest.mark.parametrize("gone", [True, False], ids=["lost", "slow"])
@run_with(in_virtual_time)
async def test_a_connection_that_cannot_be_aborted_ends_its_watch_alone(*, gone: bool) -> None:
    """As the TLS transport of asyncio in Python 3.11.2, once its connection is lost."""

    class Lost(Connection):
        def abort(self) -> None:
            raise AttributeError("'NoneType' object has no attribute '_abort'")

    world = World()
    lost = Lost()
    watcher = Watcher(selecting())
    watch = BroadcastWatch(watcher, lost, world.broadcaster, encoded=lambda _: b"", shared=None, bookmark=None)
    world.watchers.add(watcher)
    task = asyncio.create_task(watch.run())
    other = world.watch()
    await asyncio.sleep(0.1)
    lost.ready, lost.gone = False, gone
    world.write("a/1")
    await asyncio.sleep(0.1 if gone else SLOW_SECONDS + 1)
    assert isinstance(task.exception(), ClientGone)
    world.write("a/2")
    await asyncio.sleep(0.1)
    assert b"".join(shown(other)).endswith(b"a/2")


@pytest.mark.parametrize(("watches", "turns"), [(3, 3), (10, 10), (11, 6), (40, 10)])
@run_with(in_virtual_time)
async def test_between_a_few_connections_of_a_round_others_have_their_turn(*, watches: int, turns: int) -> None:
    world, order = World(), list[str]()
    connections = [world.watch() for _ in range(watches)]
    await asyncio.sleep(0.1)
    for connection in connections:
        connection.noting(order, "watch")

    def other(turns: int) -> None:
        order.append("other")
        if turns > 1:
            asyncio.get_running_loop().call_soon(other, turns - 1)

    world.write("a/1")
    asyncio.get_running_loop().call_soon(other, turns)
    await asyncio.sleep(0.1)
    assert order.count("watch") == watches
    between = [len(part.split()) for part in " ".join(order).split("other")[:-1]]
    assert len(between) == turns
    assert max(between[:-1]) == min(between[:-1]) >= between[-1] > 0


@run_with(in_virtual_time)
async def test_what_is_written_during_a_round_waits_for_the_next_one_for_all() -> None:
    world, order = World(), list[str]()
    connections = [world.watch() for _ in range(3)]
    await asyncio.sleep(0.1)
    connections[0].noting(order, "first", then=lambda: world.write("a/2"))
    world.write("a/1")
    await asyncio.sleep(0.1)
    for connection in connections:
        assert shown(connection)[:2] == [b"a/1", b"a/2"]
        assert connection.frames[1] is connections[0].frames[1]


@run_with(in_virtual_time)
async def test_a_watch_that_ends_during_a_round_sends_what_it_has_taken_and_what_waits() -> None:
    world, order = World(), list[str]()
    first, last = world.watch(), world.watch()
    watcher = list(world.watchers)[1]
    await asyncio.sleep(0.1)

    def end() -> None:
        world.write("a/2")
        watcher.end()
        world.write("a/3")

    first.noting(order, "first", then=end)
    world.write("a/1")
    await asyncio.sleep(0.1)
    assert shown(last) == [b"a/1", b"a/2"]
    assert world.tasks[1].done()
    assert world.tasks[1].exception() is None


@run_with(in_virtual_time)
async def test_a_watch_whose_task_was_cancelled_during_a_round_sends_nothing_more() -> None:
    world, order = World(), list[str]()
    first, last = world.watch(), world.watch()
    await asyncio.sleep(0.1)
    first.noting(order, "first", then=lambda: world.tasks[1].cancel())
    world.write("a/1")
    await asyncio.sleep(0.1)
    assert shown(first) == [b"a/1"]
    assert shown(last) == []


def test_no_bookmark_overtakes_events_that_are_about_to_be_sent() -> None:
    async def body() -> None:
        world, order = World(), list[str]()
        first, _, last = world.watch(), world.watch(), world.watch(bookmarks=True)
        await asyncio.sleep(BOOKMARK_SECONDS - 1)
        first.noting(order, "first", then=lambda: loop.work(2))
        world.write("a/1")
        await asyncio.sleep(1)
        assert order == ["first"]
        assert shown(last) == [b"a/1", b"bookmark"]

    with asyncio.Runner(loop_factory=WorkingLoop) as runner:
        loop: Any = runner.get_loop()
        runner.run(body())


@run_with(in_virtual_time)
async def test_between_two_rounds_is_as_much_time_as_the_last_one_took() -> None:
    loop = asyncio.get_running_loop()
    lost = [0.0]
    world = World(lambda: loop.time() + lost[0])
    connection = world.watch()
    await asyncio.sleep(0.1)
    taken = connection.write

    def slowly(frames: bytes | memoryview) -> None:
        lost[0] += 0.01
        taken(frames)

    connection.write = slowly  # type: ignore[method-assign]
    world.write("a/1")
    await asyncio.sleep(0.001)
    assert shown(connection) == [b"a/1"]
    world.write("a/2")
    await asyncio.sleep(0.005)
    world.write("a/3")
    assert shown(connection) == [b"a/1"]
    await asyncio.sleep(0.005)
    assert shown(connection) == [b"a/1", b"a/2 a/3"]


@pytest.fixture
async def server() -> AsyncIterator[APIServer]:
    config = ServerConfig(definitions=plain_definitions())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    await made.serve(ServeOptions())
    yield made
    await made.close()


class Watching:
    """A watch over a socket, chunk by chunk."""

    @classmethod
    async def begin(cls, server: APIServer, query: str = "", accept: str = "application/json") -> Watching:
        made = cls()
        made.reader, made.writer = await asyncio.open_connection("127.0.0.1", server.port)
        path = f"/api/v1/configmaps?watch=true&{query}"
        made.writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n\r\n".encode())
        await made.reader.readuntil(b"\r\n\r\n")
        return made

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def lines(self, count: int) -> list[Any]:
        """That many events."""
        text = b""
        async with asyncio.timeout(60):
            while text.count(b"\n") < count:
                size = int(await self.reader.readuntil(b"\r\n"), 16)
                text += (await self.reader.readexactly(size + 2))[:-2]
        return [json.loads(line) for line in text.splitlines()]


async def test_watches_over_sockets_see_every_change_in_their_form(server: APIServer) -> None:
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    watches = [
        await Watching.begin(server),
        await Watching.begin(server),
        await Watching.begin(server, "labelSelector=odd=yes"),
        await Watching.begin(server, accept=table),
    ]
    api = server.transport()
    for number in range(20):
        labels = {"odd": "yes" if number % 2 else "no"}
        metadata = ObjectMeta(name=f"m{number}", namespace="default", labels=labels)
        await api.call(APICall("create", CONFIGMAPS, "default", body=ConfigMap(metadata=metadata)))
    seen = [await watch.lines(10 if number == 2 else 20) for number, watch in enumerate(watches)]
    assert seen[0] == seen[1]
    names = [event["object"]["metadata"]["name"] for event in seen[0]]
    assert names == [f"m{number}" for number in range(20)]
    assert seen[2] == [event for event in seen[0] if event["object"]["metadata"]["labels"] == {"odd": "yes"}]
    assert [event["object"]["rows"][0]["cells"][0] for event in seen[3]] == names
    assert ["columnDefinitions" in event["object"] for event in seen[3]].index(True) == 0
    for watch in watches:
        watch.writer.close()
