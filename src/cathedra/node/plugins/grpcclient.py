"""gRPC client of a driver: registration, prepare, unprepare and health, in all versions of the protocol.

docs/spec/node.md §2.2, §4.2 and §7; docs/spec/protocols.md §4, §5 and §7. One channel per instance carries all calls.
It stays connected while nothing is called, because its loss is the only sign of a dead driver. The errors of the
registration socket are those of the calls; its users decide what they mean for a registration.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
import msgspec

from cathedra.client.backoff import ExponentialBackoff
from cathedra.clock import Clock
from cathedra.node.grpcsocket import go_status, open_channel
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import (
    CALL_TIMEOUT,
    ClaimReference,
    DeviceCondition,
    PluginCallError,
    PluginDevice,
    PrepareOutcome,
    ReportedHealth,
)

_LONGEST_PAUSE: Final = 5.0
"""Before another connection to a driver that ends each one, in seconds."""

DRA_SERVICES: Final = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
"""Services that this node can call. The driver's order decides."""

ALPHA_SERVICE: Final = "v1alpha3.NodeService"
"""Name under which drivers of 1.32 and 1.33 advertise ``v1alpha3.Node``; its messages are those of v1beta1."""
NO_SERVICE: Final = "1.0.0"
"""Version that drivers of 1.31 advertise, when versions were no service names. It means ``v1alpha3.Node``."""

HEALTH_SERVICES: Final = ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""Health services by preference."""


def call_error(error: grpc.aio.AioRpcError) -> PluginCallError:
    """Return a failed call in the words of Go's gRPC."""
    return PluginCallError(*go_status(error))


class PluginChannel:
    """The connection to one driver instance: calls with their time limit and metrics, in the words of Go's gRPC."""

    def __init__(
        self, driver: str, endpoint: str, *, clock: Clock, metrics: NodeMetrics, timeout: float = CALL_TIMEOUT
    ) -> None:
        self._driver = driver
        self._clock = clock
        self._metrics = metrics
        self._timeout = timeout
        self._channel = open_channel(endpoint)

    async def follow_connection(self, on_connection: Callable[[bool], None]) -> None:
        """Keep connecting, and report each beginning and end, until cancelled.

        gRPC backs off from a socket that takes no connection, and starts over with each that it takes. So here is the
        back-off for a socket that takes connections and ends them.
        """
        ended = ExponentialBackoff(self._clock, base=0.1, factor=2.0, maximum=_LONGEST_PAUSE, reset_after=30.0)
        state = self._channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.SHUTDOWN:
            connected = state is grpc.ChannelConnectivity.READY
            on_connection(connected)
            await self._channel.wait_for_state_change(state)
            if connected:
                on_connection(False)
                await self._clock.sleep(ended.delay())
            state = self._channel.get_state(try_to_connect=True)
        on_connection(False)

    async def close(self) -> None:
        """Close the connection and cancel calls in progress."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._channel.close(None)

    async def _call(self, method: str, call: Callable[..., Any], request: Any) -> Any:
        """Make one call; ``method`` is its full path, for metrics."""
        started = self._clock.monotonic()
        code = "OK"
        try:
            return await call(request, timeout=self._timeout, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            failure = call_error(error)
            code = failure.code
            raise failure from error
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            # gRPC also raises this if the connection is closed during a call; the caller must survive that.
            failure = PluginCallError("Canceled", "grpc: the client connection is closing")
            code = failure.code
            raise failure from None
        finally:
            self._metrics.call(self._driver, method, code, self._clock.monotonic() - started)

    async def _received(self, call: Callable[..., Any]) -> AsyncGenerator[Any]:
        """Yield the messages of a stream; ``call`` lacks only its options.

        If the stream breaks, the error has the words of Go's gRPC.
        """
        stream = call(wait_for_ready=True)
        try:
            async for message in stream:
                yield message
        except grpc.aio.AioRpcError as error:
            raise call_error(error) from error
        except asyncio.CancelledError:
            if _is_being_cancelled():
                raise
            raise PluginCallError("Canceled", "grpc: the client connection is closing") from None
        finally:
            stream.cancel()


class PluginServices(NamedTuple):
    """The gRPC services of a driver that are called: for claims, and for health if it has one."""

    dra: str
    health: str | None = None


class GRPCPluginClient(PluginChannel):
    """A driver instance with the current protocol."""

    def __init__(
        self,
        driver: str,
        endpoint: str,
        services: PluginServices,
        *,
        clock: Clock,
        metrics: NodeMetrics,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        super().__init__(driver, endpoint, clock=clock, metrics=metrics, timeout=timeout)
        self._messages, stub = _dra_stubs(services.dra)
        self._stub = stub(self._channel)
        self._method = f"/{_full_name(services.dra)}/"
        self._health_service = services.health

    async def prepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, PrepareOutcome]:
        """Make the claims' devices ready; by claim UID.

        Raises:
            PluginCallError: the call failed as a whole.
        """
        request = self._messages.NodePrepareResourcesRequest(claims=self._claims(claims))
        reply = await self._call(f"{self._method}NodePrepareResources", self._stub.NodePrepareResources, request)
        return {uid: _outcome(answer) for uid, answer in reply.claims.items()}

    async def unprepare(self, claims: Sequence[ClaimReference]) -> Mapping[str, str]:
        """Unprepare the claims. Return an error text or "" by claim UID.

        Raises:
            PluginCallError: the call failed as a whole.
        """
        request = self._messages.NodeUnprepareResourcesRequest(claims=self._claims(claims))
        reply = await self._call(f"{self._method}NodeUnprepareResources", self._stub.NodeUnprepareResources, request)
        return {uid: answer.error for uid, answer in reply.claims.items()}

    def _claims(self, claims: Sequence[ClaimReference]) -> list[Any]:
        return [self._messages.Claim(namespace=c.namespace, uid=c.uid, name=c.name) for c in claims]

    async def watch_health(self) -> AsyncGenerator[tuple[ReportedHealth, ...], None]:
        """Reports until the stream ends.

        Raises:
            PluginCallError: the stream broke; code Unimplemented if the driver has no such service.
        """
        if self._health_service is None:
            raise PluginCallError("Unimplemented", "the driver offers no health service")
        messages, stub = _health_stubs(self._health_service)
        call = partial(stub(self._channel).NodeWatchResources, messages.NodeWatchResourcesRequest())
        async with contextlib.aclosing(self._received(call)) as reports:
            async for report in reports:
                yield tuple(_device_health(device) for device in report.devices)


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


# Stubs are loaded when a driver serves them: most speak one version of two.


def _full_name(service: str) -> str:
    """Return the name of the gRPC service for what a driver advertises."""
    if service in {ALPHA_SERVICE, NO_SERVICE}:
        return "v1alpha3.Node"
    return f"k8s.io.kubelet.pkg.apis.dra.{service.partition('.')[0]}.DRAPlugin"


def _dra_stubs(service: str) -> tuple[Any, Any]:
    if service == "v1.DRAPlugin":
        # see above
        from cathedra._proto import dra_v1_pb2, dra_v1_pb2_grpc

        return dra_v1_pb2, dra_v1_pb2_grpc.DRAPluginStub
    # see above
    from cathedra._proto import dra_v1beta1_pb2, dra_v1beta1_pb2_grpc

    if service in {ALPHA_SERVICE, NO_SERVICE}:
        return dra_v1beta1_pb2, partial(_AlphaStub, dra_v1beta1_pb2)
    return dra_v1beta1_pb2, dra_v1beta1_pb2_grpc.DRAPluginStub


class _AlphaStub:
    """``v1alpha3.Node``: a name of its own for the calls of v1beta1."""

    def __init__(self, messages: Any, channel: grpc.aio.Channel) -> None:
        for method in ("NodePrepareResources", "NodeUnprepareResources"):
            call = channel.unary_unary(
                f"/{_full_name(ALPHA_SERVICE)}/{method}",
                request_serializer=getattr(messages, f"{method}Request").SerializeToString,
                response_deserializer=getattr(messages, f"{method}Response").FromString,
            )
            setattr(self, method, call)


def _health_stubs(service: str) -> tuple[Any, Any]:
    if service == "v1.DRAResourceHealth":
        # see above
        from cathedra._proto import dra_health_v1_pb2, dra_health_v1_pb2_grpc

        return dra_health_v1_pb2, dra_health_v1_pb2_grpc.DRAResourceHealthStub
    # see above
    from cathedra._proto import dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc

    return dra_health_v1alpha1_pb2, dra_health_v1alpha1_pb2_grpc.DRAResourceHealthStub


def _outcome(answer: Any) -> PrepareOutcome:
    if answer.error:
        return PrepareOutcome(error=answer.error)
    return PrepareOutcome(tuple(_prepared(device) for device in answer.devices))


def _prepared(device: Any) -> PluginDevice:
    # Only v1 has share IDs; there, absent and empty differ.
    shared = "share_id" in device.DESCRIPTOR.fields_by_name and device.HasField("share_id")
    return PluginDevice(
        pool=device.pool_name,
        device=device.device_name,
        request_names=tuple(device.request_names),
        cdi_device_ids=tuple(device.cdi_device_ids),
        share_id=device.share_id if shared else None,
    )


_HEALTH: Final = {1: DeviceCondition.HEALTHY, 2: DeviceCondition.UNHEALTHY}


def _device_health(device: Any) -> ReportedHealth:
    return ReportedHealth(
        pool=device.device.pool_name,
        device=device.device.device_name,
        health=_HEALTH.get(device.health, DeviceCondition.UNKNOWN),
        timeout=float(device.health_check_timeout_seconds),
        message=device.message,
    )


DRIVER_TYPE: Final = "DRAPlugin"
GET_INFO_SECONDS: Final = 1.0
"""The kubelet's time limit for GetInfo; a slower driver is never registered."""
_NOTIFY: Final = 5.0


class PluginAnnouncement(msgspec.Struct, frozen=True):
    """Name, endpoint and services that a driver announces on its registration socket."""

    socket: Path
    type: str
    name: str
    endpoint: str
    services: tuple[str, ...]


class RegistrationSocket:
    """A connection to a registration socket, open within a ``with`` block."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._channel = open_channel(str(path))

    async def __aenter__(self) -> RegistrationSocket:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._channel.close(None)

    async def connect(self, seconds: float) -> None:
        """Wait until the socket is served.

        Raises:
            TimeoutError: it is not within ``seconds``.
        """
        async with asyncio.timeout(seconds):
            await self._channel.channel_ready()

    async def get_info(self, seconds: float = GET_INFO_SECONDS) -> PluginAnnouncement:
        """GetInfo.

        Raises:
            PluginCallError: it did not answer.
        """
        # With the first driver: gRPC's stubs are heavy.
        from cathedra._proto import pluginregistration_v1_pb2 as messages

        try:
            info = await self._stub().GetInfo(messages.InfoRequest(), timeout=seconds, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise call_error(error) from error
        return PluginAnnouncement(self._path, info.type, info.name, info.endpoint, tuple(info.supported_versions))

    async def notify(self, *, registered: bool, error: str = "") -> None:
        """NotifyRegistrationStatus.

        Raises:
            PluginCallError: the driver did not take it.
        """
        # As above.
        from cathedra._proto import pluginregistration_v1_pb2 as messages

        status = messages.RegistrationStatus(plugin_registered=registered, error=error)
        try:
            await self._stub().NotifyRegistrationStatus(status, timeout=_NOTIFY, wait_for_ready=True)
        except grpc.aio.AioRpcError as problem:
            raise call_error(problem) from problem

    def _stub(self) -> Any:
        # As above.
        from cathedra._proto import pluginregistration_v1_pb2_grpc as services

        return services.RegistrationStub(self._channel)
