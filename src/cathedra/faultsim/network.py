"""Connections between simulated parts and API servers, with the faults of networks and servers.

Each part has a `Link`: a transport that carries calls to a server that runs, applies the faults that are active for the
part, and refuses everything once the part is dead. Random numbers of the run are drawn only while
a fault is active, so a plan without faults is not changed by the list of fault kinds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from random import Random
from typing import Any, Final, Protocol

from cathedra.api.status import StatusError, expired, failure
from cathedra.apiserver.authentication.user import MASTERS_GROUP
from cathedra.apiserver.server import APIServer
from cathedra.client.transport import APICall, RawTransport, Transport, WatchEvent
from cathedra.clock import Clock

_WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_REFUSED_SECONDS: Final = 0.05
"""Time after which a connection to a server that is down is refused."""
_HANGING_SECONDS: Final = 5.0
"""Time after which a client gives up a call without an answer."""
_SLOWEST: Final = 5.0
"""Longest delay of a message in seconds."""


class Witness(Protocol):
    """Notified of what passes between parts and servers."""

    def acknowledged(self, call: APICall, result: Any) -> None:
        """Note that a part has received the result of a write."""

    def refused(self, call: APICall, error: StatusError) -> None:
        """Note that a server has refused a call."""

    def watched(self, stream: ObservedWatch, event: WatchEvent[Any]) -> None:
        """Note that a part has received an event."""


class ServerLife:
    """One life of an API server."""

    def __init__(self, name: str, server: APIServer) -> None:
        self.name = name
        self.server = server
        self.up = True
        self.streams: dict[ObservedWatch, None] = {}

    def hang_up(self) -> None:
        """Break all connections to the server."""
        self.up = False
        for stream in tuple(self.streams):
            stream.break_off()


class PartClock:
    """The clock of one part. Its wall clock may be wrong; durations are right."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.offset = 0.0

    def now(self) -> float:
        """Return the seconds since the epoch, as this part believes."""
        return self._clock.now() + self.offset

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the clock of the simulation."""
        await self._clock.sleep(seconds)


class PatientClock(PartClock):
    """The clock of a part whose pauses are longer than it believes: its rounds would otherwise be most of a run."""

    def __init__(self, clock: Clock, times: float) -> None:
        super().__init__(clock)
        self._times = times

    async def sleep(self, seconds: float) -> None:
        """Wait a multiple of the time."""
        await super().sleep(seconds * self._times)


class Network:
    """Active faults of messages, and the servers that run."""

    def __init__(self, random: Random, witness: Witness) -> None:
        self.random = random
        self.witness = witness
        self.servers: dict[str, ServerLife] = {}
        self.links: dict[str, Link] = {}
        self.met: dict[str, int] = {}
        """Messages that met each kind of fault."""
        self._active: list[tuple[str, str, float]] = []
        """Kind, part ("": all), share."""

    @contextmanager
    def disturbed(self, kind: str, part: str, share: float) -> Iterator[None]:
        """Keep a fault active within the context."""
        fault = (kind, part, share)
        self._active.append(fault)
        if kind in ("broken-watches", "expired-watches", "partition"):
            self._break_watches(kind, part, share)
        try:
            yield
        finally:
            self._active.remove(fault)

    def calm(self) -> None:
        """End all faults of messages."""
        self._active = []

    @property
    def quiet(self) -> bool:
        """Return True if no fault is active."""
        return not self._active

    def strikes(self, kind: str, part: str, server: str = "") -> bool:
        """Return True if a fault of the kind concerns the next message between a part and a server."""
        for active, where, share in self._active:
            if active != kind or where not in ("", part, server):
                continue
            if share >= 1.0 or self.random.random() < share:
                self.met[kind] = self.met.get(kind, 0) + 1
                return True
        return False

    def choose(self, part: str) -> ServerLife | None:
        """Return a server that the part can reach, or None."""
        usable = [
            life for life in self.servers.values() if life.up and not (self._active and self._cut(part, life.name))
        ]
        if len(usable) < 2:
            return usable[0] if usable else None
        # Spread by the part's name, as a load balancer that keeps clients at their server.
        return usable[sum(part.encode()) % len(usable)]

    def _cut(self, part: str, server: str) -> bool:
        return any(kind == "partition" and where in ("", part, server) for kind, where, _ in self._active)

    def _break_watches(self, kind: str, part: str, share: float) -> None:
        for life in self.servers.values():
            for stream in tuple(life.streams):
                if part in ("", stream.part, life.name) and (share >= 1.0 or self.random.random() < share):
                    self.met[kind] = self.met.get(kind, 0) + 1
                    stream.break_off(expired=kind == "expired-watches")


class Link:
    """A `Transport` of one life of one part."""

    def __init__(
        self,
        network: Network,
        part: str,
        user: str,
        groups: tuple[str, ...] = (MASTERS_GROUP,),
        *,
        on_death: Callable[[], None] = lambda: None,
        faulty: bool = True,
    ) -> None:
        """``on_death`` is called when the part is to die at a write. If not ``faulty``, messages have no faults."""
        self.part = part
        self.writes_left = 0
        """The part dies at the write that brings this to 0; 0: it does not."""
        self.dead = False
        self._network = network
        self._user = user
        self._groups = groups
        self._on_death = on_death
        self._faulty = faulty
        self._transports: dict[APIServer, Transport] = {}

    async def call(self, call: APICall) -> Any:
        """Carry out a call, or fail as networks and servers do.

        Raises:
            StatusError: the server refuses.
            ConnectionError: there is no answer.
        """
        if self.dead:
            raise ConnectionError("this part is dead")
        writes = call.verb in _WRITES
        before = False
        if writes and self.writes_left:
            self.writes_left -= 1
            if not self.writes_left:
                # Half of the deaths are before the write, half behind it and before its answer.
                before = self._network.random.random() < 0.5
                if before:
                    await self._die()
                result = await self._carry_out(call)
                await self._die()
                return result
        if self._network.quiet or not self._faulty:
            result = await self._carry_out(call)
        else:
            result = await self._disturbed(call, writes=writes)
        if writes:
            self._network.witness.acknowledged(call, result)
        return result

    async def _disturbed(self, call: APICall, *, writes: bool) -> Any:
        network, part, random = self._network, self.part, self._network.random
        if network.strikes("delays", part):
            await asyncio.sleep(random.uniform(0, _SLOWEST))
        if network.strikes("lost-requests", part):
            await asyncio.sleep(random.uniform(0, _HANGING_SECONDS))
            raise ConnectionError("the request was lost")
        if network.strikes("refusals", part):
            raise failure(random.choice((429, 500, 503)), "", "the server is currently unable to handle the request")
        if call.verb in ("update", "patch") and network.strikes("conflicts", part):
            raise failure(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        if writes and network.strikes("doubled-requests", part):
            # As a proxy that repeats a request whose answer it has lost; the client sees the second answer.
            with suppress(StatusError):
                await self._carry_out(call)
        result = await self._carry_out(call)
        if network.strikes("delays", part):
            await asyncio.sleep(random.uniform(0, _SLOWEST))
        if network.strikes("lost-answers", part):
            await asyncio.sleep(random.uniform(0, _HANGING_SECONDS))
            raise ConnectionError("the answer was lost")
        return result

    async def _carry_out(self, call: APICall) -> Any:
        life = await self._server()
        try:
            result = await self._transport(life).call(call)
        except StatusError as error:
            if not life.up:
                raise ConnectionError("the server has died") from error
            self._network.witness.refused(call, error)
            raise
        if not life.up:
            raise ConnectionError("the server has died")
        return result

    async def _server(self) -> ServerLife:
        life = self._network.choose(self.part)
        if life is None:
            # A hanging connection in a partition, a refused one if the server is down.
            cut = not self._network.quiet and any(one.up for one in self._network.servers.values())
            await asyncio.sleep(_HANGING_SECONDS if cut else _REFUSED_SECONDS)
            raise ConnectionError("no server can be reached")
        return life

    def _transport(self, life: ServerLife) -> Transport:
        found = self._transports.get(life.server)
        if found is None:
            # One at a time: servers that are gone must not be kept in memory.
            self._transports = {life.server: life.server.transport(self._user, self._groups)}
            found = self._transports[life.server]
        return found

    async def _die(self) -> None:
        self.dead = True
        self._on_death()
        # The supervisor cancels this task. Nothing of the part runs on.
        await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the server dies or a fault breaks the stream.

        Raises:
            ConnectionError: no server can be reached.
        """
        if self.dead:
            raise ConnectionError("this part is dead")
        life = await self._server()
        if self._faulty and not self._network.quiet and self._network.strikes("lost-requests", self.part):
            raise ConnectionError("the request was lost")
        async with self._transport(life).watch(call) as events:
            stream = ObservedWatch(self._network, self.part, call, events, faulty=self._faulty)
            life.streams[stream] = None
            try:
                yield stream
            finally:
                life.streams.pop(stream, None)

    async def get_raw(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Read a path that is no resource.

        Raises:
            StatusError: the server refuses.
            ConnectionError: there is no answer.
        """
        if self.dead:
            raise ConnectionError("this part is dead")
        life = await self._server()
        if self._faulty and not self._network.quiet and self._network.strikes("lost-requests", self.part):
            raise ConnectionError("the request was lost")
        transport = self._transport(life)
        assert isinstance(transport, RawTransport)
        return await transport.get_raw(path, query)

    async def close(self) -> None:
        """Do nothing: there are no sockets."""


class ObservedWatch:
    """Events of one watch of one part."""

    def __init__(
        self, network: Network, part: str, call: APICall, events: AsyncIterator[WatchEvent[Any]], *, faulty: bool
    ) -> None:
        self.part = part
        self.call = call
        self.last = int(call.selection.resource_version or 0)
        """Revision of the last event."""
        self._network = network
        self._events = events
        self._faulty = faulty
        self._scope: asyncio.Timeout | None = None
        self._broken: Exception | None = None
        self._held: WatchEvent[Any] | None = None
        """An event that is late."""

    def __aiter__(self) -> ObservedWatch:
        return self

    async def __anext__(self) -> WatchEvent[Any]:
        if self._broken is not None:
            raise self._broken
        network = self._network
        if self._held is None:
            # Without a deadline there is no timer: the scope exists so that `break_off` can end the wait.
            try:
                async with asyncio.timeout(None) as self._scope:
                    event = await anext(self._events)
            except TimeoutError:
                raise self._broken or ConnectionError("the watch broke") from None
            finally:
                self._scope = None
            if self._faulty and not network.quiet and network.strikes("slow-watches", self.part):
                # Held, because the reader may be cancelled meanwhile and read again: no event may be lost here.
                self._held = event
                await asyncio.sleep(network.random.uniform(0, _SLOWEST * 4))
            else:
                self._held = event
        event, self._held = self._held, None
        if self._broken is not None:
            raise self._broken
        network.witness.watched(self, event)
        return event

    def break_off(self, *, expired: bool = False) -> None:
        """End the stream with an error."""
        self._broken = _expired() if expired else ConnectionError("the watch broke")
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())


def _expired() -> StatusError:
    return expired("too old resource version")
