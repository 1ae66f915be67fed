"""The server's end of one connection: its users, and the requests under way.

The connection belongs to a process of the same cluster, over a unix socket, or to one user over the network, whose
requests take seats and have deadlines as over HTTP.

A frame may hold thousands of requests, each of which may list thousands of objects. So requests are begun a few at a
time, and other connections are served in between. Nothing is read while requests wait to be begun, and nothing is begun
for a client that does not read its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any, Final

import msgspec

from cathedra.api.status import StatusError, internal_error, unauthorized
from cathedra.api.struct import encode
from cathedra.apiserver.authentication.authenticator import authenticated
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import always_allows
from cathedra.apiserver.pipeline.audit import shortened_agent
from cathedra.apiserver.pipeline.operations import manager_named
from cathedra.apiserver.pipeline.pipeline import CLIENT_GONE, NO_MEMORY
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.asgi.upgrade import Connections
from cathedra.frames import MOST_ASKED, FrameError, MessageReader
from cathedra.session.answers import AnswerSender
from cathedra.session.protocol import (
    PROTOCOL,
    Attach,
    Cancel,
    FailureMessage,
    FromClient,
    NotBegun,
    RequestMessage,
    Retiring,
)
from cathedra.session.requests import SessionContext, record_of, request_path
from cathedra.session.watches import Watches

LOG: Final = logging.getLogger(__name__)
MOST_REQUESTS: Final = 4096
"""Limit of the requests of a connection that are under way; more stay in the socket."""
MOST_UNDER_WAY: Final = 16 * 1024 * 1024
"""Limit of the bytes of their bodies."""
MOST_LISTS: Final = 64
"""Limit of the lists, and watches whose first events are not sent, under way: each holds all objects of a table."""
RETIRING_SECONDS: Final = 60.0
"""Time for which a client may still take answers from a connection that begins nothing more."""
MOST_BEGUN: Final = 256
"""Limit of the cost of the requests that are begun in one turn of the loop."""
TURN_SECONDS: Final = 0.01
"""Duration of a turn from which fewer requests are begun in the next one."""
_COSTLY: Final = frozenset({"list", "watch", "deletecollection"})
_COST: Final = 16
"""Cost of such a request, if that of another one is 1."""
_COST_BYTES: Final = 16 * 1024
"""Bytes of a body that cost as much as a request."""


def cost(message: Attach | RequestMessage | Cancel) -> int:
    """Return the share of a turn of the loop that a message may take; most take 1."""
    if not isinstance(message, RequestMessage):
        return 1
    return (_COST if message.verb in _COSTLY else 1) + len(message.body) // _COST_BYTES


class Backlog:
    """Messages that have arrived and are not begun, with the allowance of each turn of the loop.

    The allowance halves after a turn that took long, with everything that ran beside it, and doubles after a short one.
    """

    def __init__(self) -> None:
        self._reader = MessageReader(FromClient, MOST_ASKED)
        self._messages: deque[Attach | RequestMessage | Cancel] = deque()
        self._turn_ended = 0.0
        self.allowance = MOST_BEGUN // 4
        """Cost of what may be begun in the next turn."""

    def __len__(self) -> int:
        """Return the number of messages that are decoded and not begun."""
        return len(self._messages)

    def add(self, data: bytes) -> None:
        """Keep bytes that have arrived."""
        self._reader.add(data)

    def next(self) -> Attach | RequestMessage | Cancel | None:
        """Return the next message; None if there is none.

        Raises:
            FrameError: what has arrived is no message.
        """
        # Frames are decoded one at a time, when their messages are due: what waits in bytes takes less memory.
        if not self._messages:
            batch = self._reader.take()
            if not batch:
                return None
            self._messages.extend(batch)
        return self._messages.popleft()

    def clear(self) -> None:
        """Drop all messages, also those that are not decoded."""
        self._messages.clear()
        self._reader = MessageReader(FromClient, MOST_ASKED)

    def end_turn(self, now: float) -> None:
        """Note when a turn used up its allowance, so that another one follows."""
        self._turn_ended = now

    def begin_turn(self, now: float) -> None:
        """Set the allowance of the next turn by the duration of the last one."""
        if now - self._turn_ended > TURN_SECONDS:
            # At least one, or a busy loop would stop this connection for good.
            self.allowance = max(1, self.allowance // 2)
        else:
            self.allowance = min(MOST_BEGUN, self.allowance * 2)


class SessionUser(msgspec.Struct, frozen=True):
    """A user of a connection."""

    info: UserInfo
    agent: str
    trusted: bool
    """True if the authorizer allows the user everything."""
    manager: str
    """The field manager of writes that name none."""


class ServerSession(asyncio.Protocol):
    """The server's end of one connection."""

    def __init__(self, server: SessionContext, sessions: Connections) -> None:
        """Create a session, which is in ``sessions`` as long as its connection lasts."""
        self._server = server
        self._sessions = sessions
        self._requests = server.requests
        self._pipeline = server.requests.pipeline
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._backlog = Backlog()
        self._users: dict[int, SessionUser] = {}
        self._turn: asyncio.Handle | None = None
        """The turn of the loop in which more of the backlog is begun."""
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way = 0
        """Bytes of the bodies of the tasks' requests."""
        self._lists = 0
        """Lists among the tasks."""
        self._reading = True
        self._retiring: asyncio.TimerHandle | None = None
        self._sender = AnswerSender(server.requests, lambda: self._watches.put_events())
        self._watches = Watches(server, self._sender, self._go_on)

    @property
    def watches(self) -> int:
        """The number of watches that are under way."""
        return len(self._watches)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send, and enter the set of open sessions."""
        self._transport = transport
        self._sessions.add(self)
        self._sender.open(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what is under way. Writes that have begun are carried out."""
        self._sessions.discard(self)
        for timer in (self._retiring, self._turn):
            if timer is not None:
                timer.cancel()
        self._turn = None
        self._backlog.clear()
        for task in self._tasks.values():
            # Not cancelled here: a task that has not run yet would end without its ``finally``, and not be recorded.
            self._loop.call_soon(task.cancel)
        self._watches.close()
        self._sender.close()
        self._transport = None
        self._users.clear()  # calls still under way hold the session; these are not theirs

    def close(self) -> None:
        """End the connection after what was put is written."""
        if self._sender.is_open:
            self._sender.flush()
            self._transport.close()

    shutdown = close
    """The name under which a server ends the connections on its port."""

    def retire(self) -> None:
        """Begin nothing more: watches end, requests under way are answered, and the client opens another session."""
        if not self._sender.is_open or self._retiring is not None:
            return
        self._retiring = self._loop.call_later(RETIRING_SECONDS, self.close)
        self._watches.retire()
        self._sender.put(Retiring())

    def data_received(self, data: bytes) -> None:
        """Begin the requests that arrived, or keep them for later turns."""
        if self._transport is None or self._transport.is_closing():
            return
        self._backlog.add(data)
        # A turn that is scheduled takes these too; to begin more now would exceed the allowance of this turn.
        if self._turn is None:
            self._begin_some()

    def pause_writing(self) -> None:
        """Hold up requests and watches: the client reads slowly."""
        self._sender.pause()
        self._read_or_wait()

    def resume_writing(self) -> None:
        """Go on: the client reads again."""
        self._sender.resume()
        self._go_on()
        self._watches.resume()

    def _begin_some(self) -> None:
        """Begin messages up to the allowance of a turn, and schedule another turn for the rest."""
        self._turn = None
        if self._transport is None or self._transport.is_closing():
            return
        left = self._backlog.allowance
        try:
            while left > 0 and not self._is_full() and (message := self._backlog.next()) is not None:
                self._receive(message)
                left -= cost(message)
            if left <= 0:
                self._backlog.end_turn(self._loop.time())
                self._turn = self._loop.call_soon(self._begin_more)
        except FrameError as error:
            LOG.warning("a connection is closed: %s", error)
            self._backlog.clear()
            self._transport.close()
        self._read_or_wait()

    def _begin_more(self) -> None:
        self._backlog.begin_turn(self._loop.time())
        self._begin_some()

    def _is_full(self) -> bool:
        """Return True if a limit of what is under way is reached, or the client is slow."""
        return (
            self._sender.is_slow
            or len(self._tasks) >= MOST_REQUESTS
            or self._under_way >= MOST_UNDER_WAY
            or self._lists + len(self._watches.beginning) >= MOST_LISTS
        )

    def _go_on(self) -> None:
        """Begin more of the backlog if there is room again."""
        if not self._reading and self._turn is None and not self._is_full():
            self._turn = self._loop.call_soon(self._begin_some)

    def _read_or_wait(self) -> None:
        """Stop reading while messages wait to be begun, so that the backlog stays bounded, and resume afterwards."""
        if self._transport is None or self._transport.is_closing():
            return
        behind = self._turn is not None or self._is_full()
        if self._reading and behind:
            self._reading = False
            self._transport.pause_reading()
        elif not self._reading and not behind:
            self._reading = True
            self._transport.resume_reading()

    def _receive(self, message: Attach | RequestMessage | Cancel) -> None:
        if type(message) is RequestMessage:
            self._begin(message)
        elif type(message) is Cancel:
            self._cancel(message.id)
        elif type(message) is Attach:
            self._attach(message)

    def _attach(self, message: Attach) -> None:
        if message.protocol != PROTOCOL:
            raise FrameError(f"protocol {message.protocol}; this server speaks {PROTOCOL}")
        # Each user costs memory for as long as the connection lasts, and a client can attach them at no cost of its
        # own.
        if len(self._users) >= self._server.most_users:
            raise FrameError("too many users")
        # No answer to an unknown token: its requests are refused one by one, as over HTTP.
        info = self._server.tokens.user_of(message.token)
        if info is None:
            LOG.warning("a connection showed a token that is not known")
            return
        user = authenticated(info)
        self._users[message.user] = SessionUser(
            user,
            shortened_agent(message.agent),
            trusted=always_allows(self._requests.context.authorizer, user),
            manager=manager_named(message.agent) if self._server.limited else "",
        )

    def _begin(self, request: RequestMessage) -> None:
        if self._retiring is not None:
            self._sender.put(NotBegun(request.id))
            return
        user = self._users.get(request.user)
        if user is None:
            self._sender.put(FailureMessage(request.id, encode(unauthorized().status)))
            return
        # With two requests of one number, neither answers nor cancellations would be unambiguous.
        if request.id in self._tasks or request.id in self._watches:
            raise FrameError(f"a second request {request.id}")
        record = record_of(self._pipeline, request, user.info, agent=user.agent)
        # Decided once per user and not per request: the components of the cluster send thousands of requests per
        # second.
        record.trusted = user.trusted
        record.source = self._server.source
        self._pipeline.begin(record)
        if request.verb == "watch":
            self._watches.begin(request, record)
            return
        self._tasks[request.id] = self._loop.create_task(self._answer(request, user, record))
        self._under_way += len(request.body)
        self._lists += request.verb == "list"

    def _cancel(self, number: int) -> None:
        self._watches.cancel(number)
        task = self._tasks.get(number)
        if task is not None:
            # As in `connection_lost`: a task must have run before it is cancelled.
            self._loop.call_soon(task.cancel)

    async def _answer(self, request: RequestMessage, user: SessionUser, record: RequestRecord) -> None:
        record.status, pipeline, requests = CLIENT_GONE, self._pipeline, self._requests
        try:
            # A client that does not read gets nothing done: its answers would pile up in memory.
            await self._sender.until_taken()
            route = requests.find(request, record.info, limited=self._server.limited)
            run = pipeline.run if self._server.limited else pipeline.authorized
            answer = await run(record, lambda: requests.carry_out(request, route, record, user.manager))
            await self._sender.answer(request, record, answer)
        except StatusError as error:
            self._sender.refuse(request.id, record, error)
        except StorageError as error:
            LOG.error("the store failed: %s", error)
            self._sender.refuse(request.id, record, internal_error(str(error)))
        except MemoryError:
            LOG.error("%s %s failed: %s", request.verb, request_path(request), NO_MEMORY)
            self._sender.refuse(request.id, record, internal_error(NO_MEMORY))
        except Exception as error:
            # The last resort, as over HTTP: whatever failed, the client gets an answer.
            LOG.exception("%s %s failed", request.verb, request_path(request))
            self._sender.refuse(request.id, record, internal_error(f"{type(error).__name__}: {error}"))
        finally:
            pipeline.end(record)
            del self._tasks[request.id]
            self._under_way -= len(request.body)
            self._lists -= request.verb == "list"
            self._go_on()
