"""The gRPC calls of a driver as the node agent makes them: written down, and made to fail or to wait on command.

It sits in front of both servers, so it sees what never reaches the driver: the handshake of registration, calls whose
claims cannot be read, and each message of the health stream (docs/spec/driver-sdk.md §18).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio

from cathedra.drivers.example.controls import RecordedCall

Passing = Callable[[str], Awaitable[str]]
"""Waits while calls of that name are blocked; answers what they fail with, "" if they do not."""


class RecordingInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[type-arg]  # generic in its stubs alone
    """An interceptor of both servers of one driver."""

    def __init__(self, passing: Passing, record: Callable[[RecordedCall], None]) -> None:
        """``record`` is called with every call, in the order in which they end."""
        self._passing = passing
        self._record = record

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], handler_call_details: Any) -> Any:
        """Return the handler of a call, with a recorder around it."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        method = _short(handler_call_details.method)
        if handler.unary_unary is not None:
            return grpc.unary_unary_rpc_method_handler(
                self._unary(method, handler.unary_unary),
                request_deserializer=handler.request_deserializer,
                response_serializer=handler.response_serializer,
            )
        return grpc.unary_stream_rpc_method_handler(
            self._stream(method, handler.unary_stream),
            request_deserializer=handler.request_deserializer,
            response_serializer=handler.response_serializer,
        )

    def _unary(self, method: str, serve: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
        async def recorded(request: Any, context: Any) -> Any:
            await self._await_fault(method, request, context)
            try:
                response = await serve(request, context)
            except BaseException:
                # An aborted call is raised through here; what it was aborted with, the context knows.
                self._record(RecordedCall(method, _text(request), error=context.details() or "cancelled"))
                raise
            self._record(RecordedCall(method, _text(request), _text(response)))
            return response

        return recorded

    def _stream(
        self, method: str, serve: Callable[[Any, Any], AsyncIterator[Any]]
    ) -> Callable[[Any, Any], AsyncIterator[Any]]:
        async def recorded(request: Any, context: Any) -> AsyncIterator[Any]:
            await self._await_fault(method, request, context)
            async for response in serve(request, context):
                self._record(RecordedCall(method, _text(request), _text(response)))
                yield response

        return recorded

    async def _await_fault(self, method: str, request: Any, context: Any) -> None:
        error = await self._passing(method.rpartition("/")[2])
        if error:
            self._record(RecordedCall(method, _text(request), error=error))
            await context.abort(grpc.StatusCode.UNKNOWN, error)


def _short(path: str) -> str:
    """``v1.DRAPlugin/NodePrepareResources``, whatever package the service is in."""
    service, _, method = path.removeprefix("/").rpartition("/")
    return f"{'.'.join(service.split('.')[-2:])}/{method}"


def _text(message: Any) -> str:
    """Return a message on one line."""
    return " ".join(str(message).split())
