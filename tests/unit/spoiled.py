"""A way to the API server on which some objects cannot be decoded, for tests of what parts make of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from cathedra.api.struct import encode
from cathedra.api.undecodable import Undecodable, UndecodableObject, identify
from cathedra.client.transport import APICall, ResourceRef, WatchEvent, undecodable_event
from tests.unit.passedon import PassedOn

__all__ = ["SPOILED", "SpoiledTransport", "undecodable"]

SPOILED = "tests.cathedra.dev/spoiled"
"""The annotation of objects that cannot be decoded: its value is the path of the fault."""


def undecodable(ref: ResourceRef[Any], obj: Any) -> Undecodable:
    """Return an object with the annotation `SPOILED` as one that cannot be decoded."""
    path = obj.metadata.annotations[SPOILED]
    error = msgspec.ValidationError(f"Expected `array`, got `null` - at `$.{path}`")
    return identify(ref.kind, encode(obj), error)


class SpoiledTransport(PassedOn):
    """Another transport, without the objects that have the annotation `SPOILED`.

    ``hears`` is called with every event before it is handed out.
    """

    def __init__(self, inner: Any, hears: Callable[[WatchEvent[Any]], None] = lambda _: None) -> None:
        self._inner = inner
        self._hears = hears

    async def call(self, call: APICall) -> Any:
        answer = await self._inner.call(call)
        if call.verb != "list":
            return _decoded(call.ref, answer)
        return msgspec.structs.replace(
            answer,
            items=tuple(one for one in answer.items if not _is_spoiled(one)),
            undecodable=tuple(undecodable(call.ref, one) for one in answer.items if _is_spoiled(one)),
        )

    @asynccontextmanager
    async def watch(self, call: APICall) -> Any:
        async with self._inner.watch(call) as events:
            yield self._events(call.ref, events)

    async def _events(self, ref: Any, events: AsyncIterator[WatchEvent[Any]]) -> AsyncIterator[WatchEvent[Any]]:
        async for event in events:
            shown = event
            if _is_spoiled(event.object):
                shown = undecodable_event(ref.type, event.type, undecodable(ref, event.object))
            self._hears(shown)
            yield shown


def _decoded(ref: ResourceRef[Any], answer: Any) -> Any:
    if answer is not None and _is_spoiled(answer):
        raise UndecodableObject(undecodable(ref, answer))
    return answer


def _is_spoiled(obj: Any) -> bool:
    return SPOILED in (getattr(getattr(obj, "metadata", None), "annotations", None) or {})
