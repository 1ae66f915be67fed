"""Calls to etcd: one endpoint at a time, the next one if it does not answer.

A call that cannot be made is tried again for a moment, so that a restart of etcd passes unnoticed. Then it fails; the
error distinguishes a call that was never sent from one that may have been carried out. A transaction that may have been
sent is never sent again: meanwhile another client may have undone it, or built on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from cathedra._proto import etcd_pb2_grpc
from cathedra.apiserver.storage.etcd.address import EtcdAddress
from cathedra.apiserver.storage.protocol import StorageError, StoreUnavailable
from cathedra.clock import Clock

__all__ = ["EtcdConnection", "Stubs"]

T = TypeVar("T")

LOG: Final = logging.getLogger(__name__)
CALL_SECONDS: Final = 5.0
"""Time limit of one call."""
TRY_SECONDS: Final = 2.0
"""Time for which a call that reaches no endpoint is retried."""
_PAUSE_SECONDS: Final = 0.1
_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
)
_NOT_NOW: Final = (grpc.StatusCode.UNAVAILABLE,)
_LOST: Final = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNKNOWN)


class Stubs:
    """The services of one endpoint."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.kv: Any = etcd_pb2_grpc.KVStub(channel)
        self.watch: Any = etcd_pb2_grpc.WatchStub(channel)
        self.maintenance: Any = etcd_pb2_grpc.MaintenanceStub(channel)


class EtcdConnection:
    """Channels to the endpoints of one etcd cluster."""

    def __init__(self, address: EtcdAddress, clock: Clock) -> None:
        self.healthy = True
        self._address = address
        self._clock = clock
        self._current = 0
        self._channels: dict[str, tuple[grpc.aio.Channel, Stubs]] = {}

    @property
    def endpoint(self) -> str:
        """The endpoint that is called at present."""
        return self._address.endpoints[self._current]

    @property
    def stubs(self) -> Stubs:
        """Return the stubs of the current endpoint; the channel is opened when first used."""
        found = self._channels.get(self.endpoint)
        if found is None:
            channel = self._channel(self.endpoint)
            found = self._channels[self.endpoint] = (channel, Stubs(channel))
        return found[1]

    def failed(self, endpoint: str, error: grpc.aio.AioRpcError) -> None:
        """Note that an endpoint does not answer, and use the next one, unless that was done already."""
        self._leave(endpoint, error.details() or "")

    async def call(self, make: Callable[[Stubs], Awaitable[T]]) -> T:
        """Return the result of ``make``, which may be carried out twice. It is retried while no endpoint answers.

        Raises:
            StoreUnavailable: no answer.
            StorageError: etcd refused.
        """
        return await self._retried(make, lambda error: error.code() in _NOT_NOW)

    async def call_once(self, make: Callable[[Stubs], Awaitable[T]]) -> T:
        """Return the result of ``make``, which is retried only if it was never sent.

        Raises:
            StoreUnavailable: no answer; ``unknown`` if the request may have been carried out.
            StorageError: etcd refused.
        """
        return await self._retried(make, _never_sent)

    async def close(self) -> None:
        """Close the channels to all endpoints."""
        channels, self._channels = self._channels, {}
        for channel, _ in channels.values():
            await channel.close(None)

    async def _retried(
        self, make: Callable[[Stubs], Awaitable[T]], retryable: Callable[[grpc.aio.AioRpcError], bool]
    ) -> T:
        # Monotonic: a step of the wall clock must neither end the attempts nor prolong them.
        until = self._clock.monotonic() + TRY_SECONDS
        while True:
            endpoint = self.endpoint
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    answer = await make(self.stubs)
            except TimeoutError:
                why = f"gave no answer in {CALL_SECONDS:g} s"
                self._leave(endpoint, why)
                raise StoreUnavailable(f"etcd at {endpoint} {why}", unknown=True) from None
            except grpc.aio.AioRpcError as error:
                if error.code() in _LOST:
                    raise StoreUnavailable(f"etcd at {endpoint}: {error.details()}", unknown=True) from error
                # Everything else is etcd's own decision, as a quota that is used up. Repeating it would only add load.
                if error.code() not in _NOT_NOW:
                    raise StorageError(f"etcd at {endpoint}: {error.details()}") from error
                self.failed(endpoint, error)
                if not retryable(error):
                    raise StoreUnavailable(
                        f"the answer of etcd at {endpoint} was lost: {error.details()}", unknown=True
                    ) from error
                if self._clock.monotonic() >= until:
                    where = ", ".join(self._address.endpoints)
                    raise StoreUnavailable(
                        f"etcd at {where} cannot be reached: {error.details()}", unknown=not _never_sent(error)
                    ) from error
                await self._clock.sleep(_PAUSE_SECONDS)
            else:
                self.healthy = True
                return answer

    def _leave(self, endpoint: str, why: str) -> None:
        # Logged once per outage and not for each attempt.
        if self.healthy:
            LOG.warning("etcd at %s does not answer: %s", endpoint, why)
        self.healthy = False
        # Several calls may fail on one endpoint at the same time. Only the first moves on, or they would skip healthy
        # ones.
        if endpoint == self.endpoint:
            self._current = (self._current + 1) % len(self._address.endpoints)

    def _channel(self, endpoint: str) -> grpc.aio.Channel:
        address = self._address
        if not address.tls:
            return grpc.aio.insecure_channel(endpoint, options=_CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=address.ca_file.read_bytes() if address.ca_file else None,
            private_key=address.key_file.read_bytes() if address.key_file else None,
            certificate_chain=address.certificate_file.read_bytes() if address.certificate_file else None,
        )
        return grpc.aio.secure_channel(endpoint, credentials, options=_CHANNEL_OPTIONS)


def _never_sent(error: grpc.aio.AioRpcError) -> bool:
    """Return True if nothing can have been carried out: no connection could be made, or the server refused the stream
    before it read the request (HTTP/2's REFUSED_STREAM)."""
    details = (error.details() or "").lower()
    return "failed to connect" in details or "rst_stream with error code 7" in details
