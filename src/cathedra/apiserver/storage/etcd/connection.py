"""Calls to etcd: one endpoint at a time, the next one if it does not answer.

A call that cannot be made is tried again for a moment, so that a restart of etcd passes unnoticed. Then it fails; the
error distinguishes a call that was never sent from one that may have been carried out. A transaction that may have been
sent is never sent again: meanwhile another client may have undone it, or built on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote

import grpc
import grpc.aio

from cathedra._proto import etcd_pb2, etcd_pb2_grpc
from cathedra.apiserver.storage.protocol import StorageError, StoreUnavailable
from cathedra.clock import Clock

__all__ = ["EtcdConnection", "Stubs"]

T = TypeVar("T")

LOG: Final = logging.getLogger(__name__)
CALL_SECONDS: Final = 5.0
"""Time limit of one call."""
READ_SECONDS: Final = 2.0
"""Time that one endpoint has for a call that may be repeated; the next one is called after that."""
TRY_SECONDS: Final = 2.0
"""Time for which a call that reaches no endpoint is retried."""
_PAUSE_SECONDS: Final = 0.1
_CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # etcd and kine close connections with a ping more often than every 5 s. Without the last option a watch without
    # events gets two pings and no more, and a member that hangs would be noticed only by a call.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 2_000),
    ("grpc.http2.max_pings_without_data", 0),
)
_NOT_NOW: Final = (grpc.StatusCode.UNAVAILABLE,)
_LOST: Final = (
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)
"""Ends of a call after which nothing is known about it: they may come from the connection and not from etcd."""


class CallUnanswered(StoreUnavailable):
    """An endpoint took a call and did not answer in time."""


class Stubs:
    """The services of one endpoint."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.transact: Any = channel.unary_unary(
            "/etcdserverpb.KV/Txn", request_serializer=None, response_deserializer=etcd_pb2.TxnResponse.FromString
        )
        """As ``kv.Txn``, for a request that is encoded already."""
        self.kv: Any = etcd_pb2_grpc.KVStub(channel)
        self.lease: Any = etcd_pb2_grpc.LeaseStub(channel)
        self.watch: Any = etcd_pb2_grpc.WatchStub(channel)
        self.maintenance: Any = etcd_pb2_grpc.MaintenanceStub(channel)


class EtcdConnection:
    """Channels to the endpoints of one etcd cluster."""

    def __init__(self, address: EtcdAddress, clock: Clock, left: Callable[[str], None]) -> None:
        """``left`` is called with an endpoint that has not answered: streams on it are of no use any more."""
        self.problem = ""
        """Reason why the last call failed; "" if it did not."""
        self._left = left
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

    def leave(self, endpoint: str, why: str) -> None:
        """Note that an endpoint does not answer, and use the next one, unless that was done already."""
        # Logged once per outage and not for each attempt.
        if not self.problem:
            LOG.warning("etcd at %s does not answer: %s", endpoint, why)
        self.problem = f"etcd at {endpoint} does not answer: {why}"
        # Several calls may fail on one endpoint at the same time. Only the first moves on, or they would skip healthy
        # ones.
        if endpoint == self.endpoint:
            self._current = (self._current + 1) % len(self._address.endpoints)
        self._left(endpoint)

    def answered(self, endpoint: str) -> None:
        """Note that an endpoint answers."""
        if endpoint == self.endpoint:
            self.problem = ""

    async def call(self, make: Callable[[Stubs], Awaitable[T]]) -> T:
        """Return the result of ``make``, which may be carried out twice. It is retried while no endpoint answers.

        Raises:
            StoreUnavailable: no answer.
            StorageError: etcd refused.
        """
        until = self._clock.monotonic() + CALL_SECONDS
        while True:
            try:
                return await self._retried(make, READ_SECONDS, lambda error: error.code() in _NOT_NOW)
            except CallUnanswered:
                # A member that hangs takes calls and never answers. The others of its cluster do.
                if self._clock.monotonic() >= until:
                    raise

    async def call_once(self, make: Callable[[Stubs], Awaitable[T]]) -> T:
        """Return the result of ``make``, which is retried only if it was never sent.

        Raises:
            StoreUnavailable: no answer; ``unknown`` if the request may have been carried out.
            StorageError: etcd refused.
        """
        return await self._retried(make, CALL_SECONDS, _never_sent)

    async def close(self) -> None:
        """Close the channels to all endpoints."""
        channels, self._channels = self._channels, {}
        for channel, _ in channels.values():
            await channel.close(None)

    async def _retried(
        self,
        make: Callable[[Stubs], Awaitable[T]],
        limit: float,
        retryable: Callable[[grpc.aio.AioRpcError], bool],
    ) -> T:
        # Monotonic: a step of the wall clock must neither end the attempts nor prolong them.
        until = self._clock.monotonic() + TRY_SECONDS
        while True:
            endpoint = self.endpoint
            try:
                async with asyncio.timeout(limit):
                    answer = await make(self.stubs)
            except TimeoutError:
                self.leave(endpoint, f"no answer in {limit:g} s")
                raise CallUnanswered(f"etcd at {endpoint} gave no answer in {limit:g} s", unknown=True) from None
            except grpc.aio.AioRpcError as error:
                if error.code() in _LOST:
                    raise StoreUnavailable(f"etcd at {endpoint}: {error.details()}", unknown=True) from error
                # Everything else is etcd's own decision, as a quota that is used up. Repeating it would only add load.
                if error.code() not in _NOT_NOW:
                    raise StorageError(f"etcd at {endpoint}: {error.details()}") from error
                self.leave(endpoint, error.details() or "")
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
                self.problem = ""
                return answer

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


# Address of an etcd cluster: ``etcd://HOST:PORT[,HOST:PORT…][?cafile=…&certfile=…&keyfile=…&prefix=…]``.
#
# The names of the options are those of kube-apiserver's flags (``--etcd-cafile`` and so on).

_SCHEME: Final = "etcd://"
_DEFAULT_PORT: Final = 2379
_OPTIONS: Final = ("cafile", "certfile", "keyfile", "prefix")


@dataclass(frozen=True, slots=True)
class EtcdAddress:
    """Endpoints, the files of a TLS client, and the prefix of all keys."""

    endpoints: tuple[str, ...]
    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None
    prefix: str = "/registry"

    @property
    def tls(self) -> bool:
        """Return True if connections are encrypted."""
        return self.ca_file is not None or self.certificate_file is not None

    @classmethod
    def parse(cls, text: str) -> EtcdAddress:
        """Parse the value of ``--store``.

        Raises:
            ValueError: it is no address; the text names the problem.
        """
        if not text.startswith(_SCHEME):
            raise ValueError(f"{text!r} does not begin with {_SCHEME}")
        hosts, _, query = text.removeprefix(_SCHEME).partition("?")
        endpoints = tuple(_endpoint(host, text) for host in hosts.rstrip("/").split(","))
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        unknown = sorted(options.keys() - set(_OPTIONS))
        if unknown:
            raise ValueError(f"{text!r}: unknown option {unknown[0]!r}; there are {', '.join(_OPTIONS)}")
        files = {name: Path(options[name]) for name in _OPTIONS[:3] if name in options}
        if ("certfile" in files) != ("keyfile" in files):
            raise ValueError(f"{text!r}: certfile and keyfile go together")
        missing = [str(file) for file in files.values() if not file.is_file()]
        if missing:
            raise ValueError(f"{text!r}: there is no file {missing[0]}")
        prefix = "/" + options.get("prefix", "/registry").strip("/")
        return cls(endpoints, files.get("cafile"), files.get("certfile"), files.get("keyfile"), prefix)


def _endpoint(host: str, text: str) -> str:
    host = unquote(host.strip())
    name, colon, port = host.rpartition(":")
    if not colon or host.endswith("]"):
        name, port = host, str(_DEFAULT_PORT)
    if not name or "/" in name or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r}: {host!r} is not HOST:PORT")
    return f"{name}:{port}"
