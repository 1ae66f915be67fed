"""What a session over the network pays for each request, as a request over HTTP does: a seat and a deadline; and what
it leaves to HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from cathedra.api.boundedcache import BoundedCache
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.computation import timed_out
from cathedra.apiserver.custom.objects import is_custom
from cathedra.apiserver.local.records import request_info_of
from cathedra.apiserver.traffic.deadlines import REQUEST_SECONDS, Deadlines
from cathedra.apiserver.traffic.flow import Flow, Place
from cathedra.apiserver.traffic.levels import Seat
from cathedra.client.local.messages import LocalRequest

__all__ = ["Traffic", "Turnstile"]

_MOST_PLACES: Final = 1024
_READS: Final = frozenset({"get", "list"})
_WHOLE_BODIES: Final = frozenset({"create", "update"})


class Traffic(msgspec.Struct, frozen=True):
    """What the requests of all sessions share with those over HTTP."""

    flow: Flow
    deadlines: Deadlines
    aggregated: Callable[[], Collection[tuple[str, str]]]
    """Groups and versions that other servers answer for."""


class Turnstile:
    """Lets the requests of one user through."""

    def __init__(self, traffic: Traffic, user: UserInfo) -> None:
        self._flow = traffic.flow
        self._deadlines = traffic.deadlines
        self._aggregated = traffic.aggregated
        self._user = user
        self._generation = -1
        self._places: BoundedCache[tuple[str, ...], Place] = BoundedCache(_MOST_PLACES)

    def serves(self, request: LocalRequest, kind: type[Any]) -> bool:
        """Whether sessions serve that: not what is passed on to another server, nor bodies of custom objects, which are
        pruned by their schemas as they are read."""
        if request.group and (request.group, request.version) in self._aggregated():
            return False
        return request.verb not in _WHOLE_BODIES or not is_custom(kind)

    async def carry(self, request: LocalRequest, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do the work of a request once it has a seat, in its time.

        Raises:
            StatusError: 429, it finds no seat; 504, it takes too long; or what the work raises.
        """
        seat = self.take_seat(request) or await self.wait_for_seat(request)
        try:
            return await self._in_time(request, work)
        finally:
            seat.release()

    def take_seat(self, request: LocalRequest) -> Seat | None:
        """Take a seat for a request; None if it has to wait for one."""
        level = self._place(request).level
        return Seat(level) if level is None or level.acquire() else None

    async def wait_for_seat(self, request: LocalRequest) -> Seat:
        """Wait for a seat for a request.

        Raises:
            StatusError: 429, it finds none.
        """
        place = self._place(request)
        if place.level is not None:
            await place.level.queue_up(place.flow)
        return Seat(place.level)

    async def _in_time(self, request: LocalRequest, work: Callable[[], Awaitable[Any]]) -> Any:
        if request.verb in _READS:
            return await work()  # served from memory, at once
        try:
            with self._deadlines.within(REQUEST_SECONDS):
                return await work()
        except TimeoutError:
            raise timed_out() from None

    def _place(self, request: LocalRequest) -> Place:
        """Where a request belongs; asked again when the levels have changed."""
        if self._generation != self._flow.generation:
            self._generation = self._flow.generation
            self._places.clear()
        key = (request.verb, request.group, request.resource, request.subresource, request.namespace)
        found = self._places.get(key)
        if found is None:
            found = self._places.keep(key, self._flow.place(self._user, request_info_of(request)), sum(map(len, key)))
        return found
