"""Priority and fairness: FlowSchemas assign requests to flows of PriorityLevelConfigurations, whose seats they take
in turn.

The matching schema with the lowest precedence decides. Its level has a share of the seats of the server, or is
exempt. Flows are distinguished by user or by namespace. A server without such objects has one level in which users
take turns, and administrators never wait: they have to be able to examine an overloaded server.

A level has seats of its own, and lends a part of them: other levels borrow seats that are lent and not in use, as
far as they may. When none is left requests wait in queues, and free seats go round the queues, so that a user with a
thousand requests does not keep others waiting. A request that finds its queue full, or waits too long, is refused
(429 with ``Retry-After``).
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import BoundedCache
from cathedra.api.core.flowcontrol_v1 import (
    FlowSchema,
    NonResourcePolicyRule,
    PriorityLevelConfiguration,
    ResourcePolicyRule,
    Subject,
)
from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError, failure
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.asgi.direct import header_lines
from cathedra.histogram import Histogram

SEATS: Final = 600
QUEUE: Final = 200
"""Limit of waiting requests of one user where no priority level has another."""
WAIT_SECONDS: Final = 15.0
WAIT_BUCKETS: Final = (0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30)
_GROUP: Final = "flowcontrol.apiserver.k8s.io"
_SCHEMAS: Final = GroupResource(_GROUP, "flowschemas")
_LEVELS: Final = GroupResource(_GROUP, "prioritylevelconfigurations")
_ALL: Final = "*"
_MOST_KNOWN: Final = 4096
_KNOWN_BYTES: Final = 8 * 1024 * 1024
"""Limit of the users and requests that are cached, in characters."""
_ACCOUNT: Final = "system:serviceaccount:"
_DEFAULT_SHARES: Final = 30
_DEFAULT_QUEUES: Final = (64, 8, 50)
_ONE_LEVEL_QUEUES: Final = 4096


class FlowCounts(msgspec.Struct, eq=False):
    """The counts of one schema and its level, for metrics."""

    schema: str = ""
    level: str = ""
    dispatched: int = 0
    """Requests that had their seat, if they need one."""
    ended: int = 0
    """Those of them that are over."""
    waiting: int = 0
    """Number of requests that wait in queues."""
    rejected: Counter[str] = msgspec.field(default_factory=Counter)
    """Refused requests by reason: ``queue-full``, ``concurrency-limit`` or ``time-out``."""
    waits: Histogram = msgspec.field(default_factory=lambda: Histogram(WAIT_BUCKETS))
    """Seconds that dispatched requests waited, those that found a free seat left out."""
    refused_after: Histogram = msgspec.field(default_factory=lambda: Histogram(WAIT_BUCKETS))
    """Seconds that refused requests waited."""


class Classification(msgspec.Struct, frozen=True):
    """The flow and the priority level of a request."""

    level: PriorityLevel | None
    """None: it needs no seat."""
    flow: str = ""
    """Requests of one flow share their queues."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The headers of answers that name schema and level."""
    lines: bytes = b""
    """The same headers as lines in the head of an answer."""
    counts: FlowCounts = msgspec.field(default_factory=FlowCounts)
    """Shared by all requests of its schema."""


class FlowController:
    """The priority levels of one server, and the schemas that assign requests to them."""

    def __init__(self, registry: Registry | None = None, *, seats: int = SEATS, wait: float = WAIT_SECONDS) -> None:
        self.seats = seats
        self.generation = 0
        """Changes with the objects."""
        self._registry = registry
        self._wait = wait
        self._alone = PriorityLevel(LevelLimits(own=seats, queues=_ONE_LEVEL_QUEUES), wait=wait)
        self._levels: dict[str, PriorityLevel | None] = {}
        self._counts: dict[tuple[str, str], FlowCounts] = {}
        """By schema and level; "" and "" for requests that no schema matches."""
        self._rules: tuple[_Rule, ...] | None = None
        self._known: BoundedCache[tuple[Any, ...], Classification] = BoundedCache(_MOST_KNOWN, most_bytes=_KNOWN_BYTES)
        if registry is not None:
            for resource in (_SCHEMAS, _LEVELS):
                registry.observe(resource, lambda _: self._forget())

    @property
    def taken(self) -> int:
        """The number of seats that are taken."""
        return sum(level.taken for level in self._all())

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a seat."""
        return sum(level.waiting for level in self._all())

    @property
    def rejected(self) -> int:
        """The number of requests that were refused."""
        return sum(level.rejected for level in self._all())

    def classify(self, user: UserInfo, info: RequestInfo) -> Classification:
        """Return flow and level of a request. They are cached until the objects change."""
        resource = (info.group, info.resource, info.subresource, info.namespace) if info.is_resource else (info.path,)
        # Everything that schemas can match: users, groups, verb, resource and namespace, or the path. Names of objects
        # are not among it.
        key = (user.name, user.groups, info.verb, *resource)
        # Matching walks all rules of all schemas, and the same few controllers send most requests.
        found = self._known.get(key)
        if found is None:
            found = self._matched(*_in_key(user, info))
            self._known.keep(key, found, sum(map(len, (user.name, *user.groups, info.verb, *resource))))
        return found

    def _matched(self, user: UserInfo, info: RequestInfo) -> Classification:
        if self._rules is None:
            self._rules = tuple(self._load())
        for rule in self._rules:
            if rule.matches(user, info):
                lines = header_lines(rule.headers)
                return Classification(rule.level, rule.flow(user, info), rule.headers, lines, rule.counts)
        return Classification(None if user.is_master else self._alone, user.name, counts=self._counted("", ""))

    def _counted(self, schema: str, level: str) -> FlowCounts:
        """Return the counts of a schema; they outlive changes of the objects, as counters must."""
        return self._counts.setdefault((schema, level), FlowCounts(schema, level))

    @property
    def counts(self) -> Iterable[FlowCounts]:
        """The counts of every schema and its level."""
        return self._counts.values()

    @property
    def levels(self) -> Iterator[tuple[str, PriorityLevel]]:
        """The levels with seats, by name; "exempt" ones have none."""
        return ((name, level) for name, level in self._levels.items() if level is not None)

    def _all(self) -> Iterator[PriorityLevel]:
        yield self._alone
        yield from (level for level in self._levels.values() if level is not None)

    def _forget(self) -> None:
        self.generation += 1
        self._rules = None
        # All of them: a changed schema may match any request that another one had before.
        self._known.clear()

    def _load(self) -> Iterator[_Rule]:
        configured = {one.metadata.name: one for one in self._objects(_LEVELS)}
        self._set_limits(configured)
        schemas = sorted(self._objects(_SCHEMAS), key=lambda one: (one.spec.matching_precedence, one.metadata.name))
        for schema in schemas:
            level = configured.get(schema.spec.priority_level_configuration.name)
            if level is not None:
                headers = (
                    (b"x-kubernetes-pf-flowschema-uid", schema.metadata.uid.encode()),
                    (b"x-kubernetes-pf-prioritylevel-uid", level.metadata.uid.encode()),
                )
                counts = self._counted(schema.metadata.name, level.metadata.name)
                yield _Rule(schema, self._levels[level.metadata.name], headers, counts)

    def _set_limits(self, configured: dict[str, PriorityLevelConfiguration]) -> None:
        """Give every level its seats. Requests of a level keep theirs; a removed level serves its requests to the
        end."""
        total = sum(_shares(one) for one in configured.values())
        for name, one in configured.items():
            limits = _limits(one, self.seats, total)
            known = self._levels.get(name)
            if limits is None:
                self._levels[name] = None
            elif known is None:
                self._levels[name] = PriorityLevel(limits, wait=self._wait)
            else:
                # The level itself stays, because requests under way return their seats to it. A new one would start at
                # zero taken seats, and more requests than permitted would run.
                known.limits = limits
        # A removed level with requests stays until they are done: they return their seats to it.
        for gone in self._levels.keys() - configured.keys():
            level = self._levels[gone]
            if level is None or not (level.taken or level.waiting):
                del self._levels[gone]
        shared = SharedSeats(level for level in self._levels.values() if level is not None)
        for level in shared.levels:
            level.join(shared)

    def _objects(self, resource: GroupResource) -> list[Any]:
        if self._registry is None:
            return []
        try:
            table = self._registry.table(resource)
        except KeyError:
            return []
        return [entry.object for entry in table.select(Selection(""))]


class Seat:
    """A seat of a level, or of none for requests that need no seat. It is released once."""

    __slots__ = ("_level",)

    def __init__(self, level: PriorityLevel | None = None) -> None:
        self._level = level

    def release(self) -> None:
        """Release the seat, if that was not done before."""
        level, self._level = self._level, None
        if level is not None:
            level.release()


class LevelLimits(msgspec.Struct, frozen=True):
    """The limits of a level."""

    own: int
    """Seats that no other level takes."""
    lent: int = 0
    """Seats that others may borrow while they are free."""
    most: int | None = None
    """Seats at most, borrowed ones included; None: no limit."""
    queues: int = 0
    """The number of queues; 0: requests without a seat are refused."""
    hand: int = 1
    """The number of queues that a flow may use."""
    length: int = QUEUE
    """Limit of the requests in a queue."""


class SharedSeats:
    """The seats that all levels of a server lend."""

    def __init__(self, levels: Iterable[PriorityLevel] = ()) -> None:
        self.levels = tuple(levels)

    def has_free(self) -> bool:
        """Return True if one of them is free."""
        # Seats are counted and not assigned: with some ten levels the sums cost less than keeping a balance correct
        # through cancellations.
        return sum(level.borrowed for level in self.levels) < sum(level.limits.lent for level in self.levels)

    def offer(self, returning: PriorityLevel) -> None:
        """Offer free seats to waiting requests, first to those of the level that returned them."""
        returning.serve()
        for level in self.levels:
            level.serve()


class PriorityLevel:
    """The seats and queues of one level."""

    def __init__(self, limits: LevelLimits, *, wait: float = WAIT_SECONDS) -> None:
        self.limits = limits
        self.taken = 0
        self.rejected = 0
        self._wait = wait
        self._queues: dict[int, deque[asyncio.Future[None]]] = {}
        self._shared = SharedSeats((self,))

    def join(self, shared: SharedSeats) -> None:
        """Share lent seats with other levels."""
        self._shared = shared

    @property
    def borrowed(self) -> int:
        """The seats that it has taken beyond its own; those that it lends and uses itself are among them."""
        return max(0, self.taken - self.limits.own)

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a seat."""
        return sum(map(len, self._queues.values()))

    def acquire(self) -> bool:
        """Take a seat if one is free and no request waits. Return False if it could not."""
        # A request that finds a free seat must not overtake requests that wait for it.
        if self._queues or not self._free():
            return False
        self.taken += 1
        return True

    async def queue_up(self, flow: str, counts: FlowCounts) -> None:
        """Wait for a seat and take it; requests of one ``flow`` share their queues.

        Raises:
            StatusError: 429, there is no queue, too many wait in it already, or no seat became free in time.
        """
        number = self._queue_of(flow)
        queue = self._queues.setdefault(number, deque()) if number is not None else None
        # Refused at once and not after a wait: clients back off by ``Retry-After``, and the queue stays short.
        if number is None or queue is None or len(queue) >= self.limits.length:
            self.rejected += 1
            counts.rejected["concurrency-limit" if number is None else "queue-full"] += 1
            counts.refused_after.add(0)
            raise refused()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        began = turn.get_loop().time()
        counts.waiting += 1
        try:
            async with asyncio.timeout(self._wait):
                await turn
            counts.waits.add(turn.get_loop().time() - began)
        # Also when the request is cancelled. A seat that was given in that very turn is passed on, or it would be lost
        # for ever.
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.release()  # the seat came at the last moment
            else:
                self._forget(number, turn)
            if isinstance(error, TimeoutError):
                self.rejected += 1
                counts.rejected["time-out"] += 1
                counts.refused_after.add(turn.get_loop().time() - began)
                raise refused() from None
            raise
        finally:
            counts.waiting -= 1

    def release(self) -> None:
        """Release a seat, and give it to a waiting request."""
        self.taken -= 1
        self._shared.offer(self)

    def serve(self) -> None:
        """Give free seats to waiting requests, one queue after the other."""
        while self._queues and self._free():
            # Round robin: the queue is taken out and put behind all others, so each gets a seat before any gets a
            # second.
            number = next(iter(self._queues))
            queue = self._queues.pop(number)
            turn = queue.popleft()
            if queue:
                self._queues[number] = queue  # behind all others
            # A cancelled request is skipped. It removes itself from its queue, but perhaps later in this turn.
            if not turn.done():
                self.taken += 1
                turn.set_result(None)

    def _free(self) -> bool:
        if self.limits.most is not None and self.taken >= self.limits.most:
            return False
        return self.taken < self.limits.own or self._shared.has_free()

    def _queue_of(self, flow: str) -> int | None:
        """Return the shortest of the queues of a flow; None if there are none."""
        if not self.limits.queues:
            return None
        dealt = _dealt(flow, self.limits.queues, self.limits.hand)
        # With several queues for each flow, a flow that floods its own rarely shares all of them with another one.
        return min(dealt, key=lambda number: len(self._queues.get(number, ())))

    def _forget(self, number: int, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(number)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[number]


class _Rule(msgspec.Struct, frozen=True):
    """A schema whose level exists."""

    schema: FlowSchema
    level: PriorityLevel | None
    headers: tuple[tuple[bytes, bytes], ...]
    counts: FlowCounts

    def matches(self, user: UserInfo, info: RequestInfo) -> bool:
        return any(
            any(_is_subject(subject, user) for subject in rule.subjects)
            and (
                any(_of_resource(one, info) for one in rule.resource_rules)
                if info.is_resource
                else any(_of_path(one, info) for one in rule.non_resource_rules)
            )
            for rule in self.schema.spec.rules
        )

    def flow(self, user: UserInfo, info: RequestInfo) -> str:
        method = self.schema.spec.distinguisher_method
        kind = method.type if method is not None else ""
        told_apart = {"ByUser": user.name, "ByNamespace": info.namespace}.get(kind, "")
        return f"{self.schema.metadata.name}/{told_apart}"


def _in_key(user: UserInfo, info: RequestInfo) -> tuple[UserInfo, RequestInfo]:
    """Return a user and a request with nothing but the fields that are in the key of `FlowController.classify`.

    A rule that reads another field then finds it empty for every request. With the whole request it would be right for
    the first one, and the cache would give its result to others.
    """
    user = UserInfo(user.name, user.groups)
    if not info.is_resource:
        return user, RequestInfo("", info.path, info.verb)
    return user, RequestInfo(
        method="",
        path="",
        verb=info.verb,
        is_resource=True,
        group=info.group,
        resource=info.resource,
        subresource=info.subresource,
        namespace=info.namespace,
    )


def _shares(level: PriorityLevelConfiguration) -> int:
    limited, exempt = level.spec.limited, level.spec.exempt
    if level.spec.type == "Exempt":
        return (exempt.nominal_concurrency_shares or 0) if exempt is not None else 0
    given = limited.nominal_concurrency_shares if limited is not None else None
    return _DEFAULT_SHARES if given is None else given


def _limits(level: PriorityLevelConfiguration, seats: int, total: int) -> LevelLimits | None:
    """Return the limits of a level; None if it is exempt."""
    limited = level.spec.limited
    if level.spec.type == "Exempt" or limited is None:
        return None
    # Rounded up, so that every level with a share has a seat; the sum may exceed the server's seats by one per level.
    nominal = math.ceil(seats * _shares(level) / total) if total else 0
    lent = _percent(nominal, limited.lendable_percent or 0)
    borrowing = limited.borrowing_limit_percent
    most = None if borrowing is None else nominal + _percent(nominal, borrowing)
    queuing = limited.limit_response.queuing
    if limited.limit_response.type != "Queue":
        return LevelLimits(nominal - lent, lent, most)
    queues, hand, length = _DEFAULT_QUEUES
    if queuing is not None:
        queues, hand, length = queuing.queues, queuing.hand_size, queuing.queue_length_limit
    return LevelLimits(nominal - lent, lent, most, queues, hand, length)


def _percent(seats: int, percent: int) -> int:
    """Return a part of the seats, with half a seat rounded up."""
    # Go's math.Round rounds halves away from zero. Python's round takes the even neighbour: half of 5 would be 2.
    return (2 * seats * percent + 100) // 200


def _is_subject(subject: Subject, user: UserInfo) -> bool:
    if subject.kind == "User":
        return subject.user is not None and subject.user.name in {_ALL, user.name}
    if subject.kind == "Group":
        return subject.group is not None and (subject.group.name == _ALL or subject.group.name in user.groups)
    account = subject.service_account
    if account is None:
        return False
    if account.name == _ALL:
        return user.name.startswith(f"{_ACCOUNT}{account.namespace}:")
    return user.name == f"{_ACCOUNT}{account.namespace}:{account.name}"


def _of_resource(rule: ResourcePolicyRule, info: RequestInfo) -> bool:
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    return (
        _has(rule.verbs, info.verb)
        and _has(rule.api_groups, info.group)
        and _has(rule.resources, resource)
        and (_has(rule.namespaces, info.namespace) if info.namespace else rule.cluster_scope)
    )


def _of_path(rule: NonResourcePolicyRule, info: RequestInfo) -> bool:
    return _has(rule.verbs, info.verb) and any(
        one == info.path or (one.endswith(_ALL) and info.path.startswith(one[:-1])) for one in rule.non_resource_urls
    )


def _has(values: tuple[str, ...], wanted: str) -> bool:
    return _ALL in values or wanted in values


def refused() -> StatusError:
    """Return the 429 of a request without a seat."""
    text = "Too many requests, please try again later."
    return failure(429, "TooManyRequests", text, StatusDetails(retry_after_seconds=1))


def _dealt(flow: str, queues: int, hand: int) -> list[int]:
    """Return the queues of a flow, always the same for a flow: shuffle sharding."""
    # ``hash`` differs from process to process. "surrogatepass", because the user's name may come from a header with any
    # bytes.
    seed = int.from_bytes(hashlib.sha256(flow.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    left = list(range(queues))
    dealt = []
    for _ in range(min(hand, queues)):
        seed, position = divmod(seed, len(left))
        dealt.append(left.pop(position))
    return dealt
