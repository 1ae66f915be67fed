"""The one way of a request through the API server, whatever transport it came by.

A transport (HTTP, the binary session, the in-process calls) reads a request into a `RequestRecord` and writes the
outcome. In between every request takes the same steps, in the order of Kubernetes' handler chain
(``DefaultBuildHandlerChain`` in staging/src/k8s.io/apiserver/pkg/server/config.go):

1. `Recorder.begin` counts it;
2. `Pipeline.authenticate` finds its user, and the user to impersonate. A session authenticates once, when it opens;
3. `Pipeline.run` finds its flow and waits for a seat,
4. sets its deadline. Here the deadline begins with the seat, and reads have none: they are served from memory;
5. `Recorder.authorize` decides;
6. the transport's ``work`` carries it out, and
7. `Recorder.end` counts the answer and writes the audit event, however the request ended.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self, TypeVar

from cathedra.api.goquote import go_quote
from cathedra.api.status import bad_request
from cathedra.apiserver.authentication.authenticator import Authenticator
from cathedra.apiserver.authorization.authorizer import REASON, Attributes, refusal
from cathedra.apiserver.authorization.impersonation import asks_to_impersonate, impersonated
from cathedra.apiserver.computation import timed_out
from cathedra.apiserver.names import generate_uid
from cathedra.apiserver.pipeline.audit import AuditLog
from cathedra.apiserver.pipeline.consistency import HasStatus, carried_out
from cathedra.apiserver.pipeline.flowcontrol import FlowController, Seat
from cathedra.apiserver.pipeline.metrics import Metrics
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.asgi.application import PeerCertificate, RequestHeaders

CLIENT_GONE: Final = 499
"""The status that is recorded if the client left before its answer."""
NO_MEMORY: Final = "no memory, or no thread, is left for this request"
R = TypeVar("R", bound=HasStatus | None)


class Recorder:
    """Authorization, metrics and audit of requests: the steps that calls in this process take, too."""

    def __init__(self, server: ServerContext, metrics: Metrics | None, audit: AuditLog | None) -> None:
        """Without ``metrics`` nothing is counted, without ``audit`` nothing is written."""
        self._server = server
        self._metrics = metrics
        self._audit = audit
        self._now = server.clock.monotonic
        self.audits = audit is not None
        """True if requests are written to an audit log: then bodies, paths and names must be recorded."""

    def record(self, info: RequestInfo, query: bytes) -> RequestRecord:
        """Return the record of a request that arrives now, without an identity unless it is audited."""
        audit_id = generate_uid(self._server.random) if self.audits else ""
        return RequestRecord(info, query, audit_id, self._now())

    def wants_response(self, record: RequestRecord) -> bool:
        """Return True if the audit event of a request shows the body of its answer."""
        return self._audit is not None and self._audit.level(record) == "RequestResponse"

    def begin(self, record: RequestRecord) -> None:
        """Count a request that has arrived."""
        if self._metrics is not None:
            self._metrics.begin(record)

    def authorize(self, record: RequestRecord) -> None:
        """Let the request pass.

        Raises:
            StatusError: 403, its user may not do that.
        """
        # Calls of this process's own components. They are recorded as allowed, so that the audit log has no gap.
        if record.trusted:
            record.allowed = True
            record.annotations[REASON] = ""
            return
        attributes = Attributes.of(
            record.info,
            record.acting,
            field_selector=record.field_selector,
            label_selector=record.label_selector,
        )
        decision = self._server.authorizer.authorize(attributes)
        # Before the refusal is raised: audit events of denied requests show the reason, too.
        record.annotations[REASON] = decision.reason
        allowed = record.allowed = decision.allowed
        if not allowed:
            raise refusal(attributes, decision)

    def started(self, record: RequestRecord, status: int) -> None:
        """Write the audit event of a long-running request whose answer has begun."""
        record.status = status
        if self._audit is not None:
            self._write(self._audit, record, "ResponseStarted")

    def end(self, record: RequestRecord) -> None:
        """Count a request that is over, and write its audit event."""
        if self._metrics is not None:
            self._metrics.end(record, self._now() - record.began)
        if self._audit is not None:
            self._write(self._audit, record, "ResponseComplete")

    def _write(self, audit: AuditLog, record: RequestRecord, stage: str) -> None:
        now = self._server.clock.now()
        # The wall clock may be set while a request is under way, so its arrival is counted back from now.
        audit.write(record, stage, now - (self._now() - record.began), now)


class Pipeline(Recorder):
    """The steps of requests that come from outside this process: all of them."""

    def __init__(
        self,
        server: ServerContext,
        authenticator: Authenticator,
        flow: FlowController,
        *,
        metrics: Metrics,
        audit: AuditLog | None = None,
        passes_on: Callable[[RequestInfo], object],
    ) -> None:
        """``passes_on`` returns something true for a request that another server answers."""
        super().__init__(server, metrics, audit)
        if audit is not None:
            metrics.audit_events = lambda: audit.written
        self.authenticator = authenticator
        self._passes_on = passes_on
        self.flow = flow
        self.deadlines = Deadlines()
        self.metrics = metrics

    def authenticate(self, record: RequestRecord, headers: RequestHeaders, certificate: PeerCertificate | None) -> None:
        """Set the user of a request, and the user on whose behalf it is to be carried out.

        Raises:
            StatusError: 401, the credentials are invalid; 403, the user may not impersonate the other.
        """
        der, ended = None, False
        if certificate is not None:
            der, ended = certificate.der, certificate.has_ended(self._server.clock.now())
        user = self.authenticator.authenticate(headers, der, path=record.info.path, ended=ended)
        # Set before impersonation is checked: the audit event of a denied impersonation names the user that tried.
        record.user = record.acting = user
        if asks_to_impersonate(headers):
            record.impersonated = record.acting = impersonated(user, headers, self._server.authorizer)

    async def run(self, record: RequestRecord, work: Callable[[], Awaitable[R]]) -> R:
        """Carry out an authenticated request by ``work`` once it has a seat, in its time, if it is authorized.

        Raises:
            StatusError: 429, there is no seat; 504, it took too long; 403, its user may not do that; 400, its timeout
                is no duration; or what ``work`` raises.
        """
        info = record.info
        classification = record.classification = self.flow.classify(record.acting, info)
        if info.verb == "watch":
            return await self._begin_watch(record, work)
        # Connections to nodes and pods last for days: a seat for each would leave none for others.
        if info.long_running:
            return await self.authorized(record, work)
        seconds = deadline_of(record.timeout) if record.timeout else REQUEST_SECONDS
        level, counts = classification.level, classification.counts
        if level is not None and not level.acquire():
            await level.queue_up(classification.flow, counts)
        # After the wait: requests that are refused or cancelled in the queue were never dispatched.
        counts.dispatched += 1
        try:
            # Served from memory, without waiting: there is nothing for a deadline to end. Reads that are passed on to
            # other servers end with their clients.
            if info.reads:
                return await self.authorized(record, work)
            try:
                with self.deadlines.within(seconds):
                    return await self.authorized(record, work)
            except TimeoutError:
                raise timed_out() from None
        finally:
            counts.ended += 1
            if level is not None:
                # In any case, cancellation included. A seat that is not returned is lost until the server restarts.
                level.release()

    def authorized(self, record: RequestRecord, work: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        """Authorize a request and carry it out by ``work``, by a state that contains every earlier acknowledged write.

        Raises:
            StatusError: 403, its user may not do that; or what ``work`` raises.
        """
        # Not a coroutine: every frame on the way of a request costs time.
        if not self._server.registry.shared:
            self.authorize(record)
            return work()
        return self._consistent(record, work)

    def _consistent(self, record: RequestRecord, work: Callable[[], Awaitable[R]]) -> Awaitable[R]:
        def attempt() -> Awaitable[R]:
            self.authorize(record)
            return work()

        return carried_out(self._server.registry, record, attempt)

    async def _begin_watch(self, record: RequestRecord, work: Callable[[], Awaitable[R]]) -> R:
        """Carry out a watch. It holds a seat until its first events are sent: they are as much work as a list."""
        if not self._passes_on(record.info) and not self.take_seat(record):
            await self.wait_for_seat(record)
        try:
            return await self.authorized(record, work)
        finally:
            record.seat.release()

    def take_seat(self, record: RequestRecord) -> bool:
        """Take a seat for a watch, to be released by its transport. Return False if none is free now."""
        classification = record.classification = self.flow.classify(record.acting, record.info)
        if classification.level is not None:
            if not classification.level.acquire():
                return False
            classification.counts.dispatched += 1
            classification.counts.ended += 1  # its first events are sent at once
            record.seat = Seat(classification.level)
        return True

    async def wait_for_seat(self, record: RequestRecord) -> None:
        """Wait for a seat for a watch that could not take one.

        Raises:
            StatusError: 429, the queue is full, or no seat became free in time.
        """
        classification = record.classification
        if classification.level is not None:
            await classification.level.queue_up(classification.flow, classification.counts)
            classification.counts.dispatched += 1
            classification.counts.ended += 1  # its first events are sent at once
            record.seat = Seat(classification.level)


REQUEST_SECONDS: Final = 60.0
"""Limit of a whole request in seconds, the arrival of its body included: a client that sends byte by byte holds its
seat no longer.
"""

_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST: Final = 128
"""Limit of a duration in letters. To parse longer ones would take time that no deadline ends."""
_MOST_SECONDS: Final = (1 << 63) / 1e9
"""Limit of a Go duration, 64 bits of nanoseconds, in seconds."""
_TICK: Final = 0.002
"""Seconds by which a timer of the loop may come early: it counts in milliseconds."""
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def deadline_of(text: str) -> float:
    """Return the seconds that a request has; "" and zero mean the limit of the server.

    Raises:
        StatusError: 400, the text is no duration.
    """
    if not text:
        return REQUEST_SECONDS
    seconds = _seconds(text)
    if seconds is None:
        shown = go_quote(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
        raise bad_request(f"invalid timeout specified in the request URL - time: invalid duration {shown}")
    # A client may shorten its deadline and not lengthen it, or a slow body could hold its seat for hours.
    return min(seconds, REQUEST_SECONDS) if seconds > 0 else REQUEST_SECONDS


def _seconds(text: str) -> float | None:
    if len(text) > _LONGEST:
        return None
    sign = -1.0 if text.startswith("-") else 1.0
    rest = text[1:] if text[:1] in {"+", "-"} else text
    if rest == "0":
        return 0.0
    parts = list(_PART.finditer(rest))
    if not parts or "".join(part[0] for part in parts) != rest:
        return None
    seconds = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    return sign * seconds if seconds < _MOST_SECONDS else None


class Deadlines:
    """Cancels requests that take too long, with one timer for all requests of a server.

    `asyncio.timeout` sets a timer of the loop for each request and cancels it when the request is done, which nearly
    always takes less than a hundredth of its time. This timer fires when the first deadline could be over, and then
    checks all of them."""

    def __init__(self) -> None:
        self._under_way: dict[_Deadline, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop of all requests; it is kept because finding the running loop is a system call."""

    def within(self, seconds: float) -> _Deadline:
        """Return a context that cancels the current task after ``seconds``, and then raises a `TimeoutError`."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return _Deadline(self, self._loop, seconds)

    def enter(self, deadline: _Deadline) -> None:
        """Add the deadline of a request that begins."""
        self._under_way[deadline] = None
        timer = self._timer
        # Nearly all requests have the same timeout, so a later request never moves the timer.
        if timer is None or deadline.at < timer.when():
            self._set_timer(deadline.at)

    def leave(self, deadline: _Deadline) -> None:
        """Remove a deadline. The timer stays: the next request needs it."""
        # Not `del`: an expired deadline has been removed already.
        self._under_way.pop(deadline, None)

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._look)

    def _look(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time() + _TICK
        # A copy: an expired request removes itself.
        for deadline in [one for one in self._under_way if one.at <= now]:
            del self._under_way[deadline]
            deadline.expire()
        if self._under_way:
            self._set_timer(min(one.at for one in self._under_way))


class _Deadline:
    """The deadline of one request."""

    __slots__ = ("_cancelling", "_deadlines", "_expired", "_task", "at")

    def __init__(self, deadlines: Deadlines, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        task = asyncio.current_task(loop)
        assert task is not None  # a request is answered by a task
        self._deadlines = deadlines
        self._task = task
        # Cancellations that were requested before this context began are not its own. Without the count a shutdown of
        # the server would be reported as a timeout.
        self._cancelling = task.cancelling()
        self._expired = False
        self.at = loop.time() + seconds
        """The time of its end, by the clock of the loop."""

    def expire(self) -> None:
        """Cancel the task of the request."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        self._deadlines.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._deadlines.leave(self)
        # A cancellation from elsewhere goes on, even when it came together with this one.
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
