"""A user's transport over the binary protocol: each call becomes one message.

A connection carries many users; each has a transport of its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cathedra.api.struct import encode
from cathedra.client.local.connection import Connection
from cathedra.client.local.messages import LocalRequest, Options
from cathedra.client.transport import APICall, WatchEvent

__all__ = ["LocalTransport", "options_of"]

_NO_OPTIONS = Options()


class LocalTransport:
    """A `cathedra.client.transport.Transport` over a connection, which its opener closes."""

    def __init__(self, connection: Connection, token: str, *, agent: str = "cathedra") -> None:
        self._connection = connection
        self._user = connection.attach(token, agent)

    async def call(self, call: APICall) -> Any:
        """Send a call and wait for its answer."""
        # The request is numbered here and not earlier: a coroutine that is never awaited must use up no number.
        return await self._connection.request(self._request(call), probe=call.selection.probe)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[AsyncIterator[WatchEvent[Any]]]:
        """Stream changes until the server ends the stream or the context exits."""
        watching = await self._connection.watch(self._request(call))
        try:
            yield watching.events()
        finally:
            watching.close()

    async def close(self) -> None:
        """Do nothing: the connection has other users."""

    def _request(self, call: APICall) -> LocalRequest:
        connection, ref = self._connection, call.ref
        return LocalRequest(
            connection.next_id(),
            self._user,
            call.verb,
            ref.group,
            ref.version,
            ref.resource,
            call.namespace,
            call.name,
            call.subresource,
            connection.form_of(ref.type),
            options_of(call),
            b"" if call.body is None else encode(call.body),
        )


def options_of(call: APICall) -> Options:
    """Return the selection or the write options of a call, in the form of the protocol."""
    if call.verb in ("get", "delete"):
        return _NO_OPTIONS
    if call.verb in ("list", "watch", "deletecollection"):
        selection = call.selection
        return Options(
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=selection.limit,
            continue_=selection.continue_,
            resource_version=selection.resource_version,
            resource_version_match=selection.resource_version_match,
            bookmarks=call.verb == "watch" and selection.bookmarks,
        )
    options = call.options
    return Options(
        dry_run=options.dry_run,
        field_manager=options.field_manager,
        field_validation=options.field_validation,
        force=options.force,
        patch_type="" if call.patch_type is None else call.patch_type.name,
    )
