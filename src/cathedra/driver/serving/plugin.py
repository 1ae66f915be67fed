"""The gRPC servers of a driver: DRA and health in versions v1 and v1beta1/v1alpha1, and registration.

They only translate between messages and the plain objects of `cathedra.driver.preparing.service`; the older versions
are the newer ones repacked (docs/spec/protocols.md §3 to §7).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import grpc
import grpc.aio

from cathedra._proto import (
    dra_health_v1_pb2,
    dra_health_v1_pb2_grpc,
    dra_health_v1alpha1_pb2,
    dra_health_v1alpha1_pb2_grpc,
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    pluginregistration_v1_pb2,
    pluginregistration_v1_pb2_grpc,
)
from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.driver.claim import Ref
from cathedra.driver.errors import CallFailed, RegistrationFailed
from cathedra.driver.health import DeviceHealth, HealthBoard
from cathedra.driver.preparing.checkpoint import DeviceAnswer
from cathedra.driver.preparing.service import CALL_TIMEOUT, ClaimService, PrepareResult
from cathedra.driver.serving.registration import (
    DRA_OF_131,
    DRA_V1,
    DRA_V1BETA1,
    HEALTH_V1,
    HEALTH_V1ALPHA1,
    Registration,
)
from cathedra.files.inotify import is_removal, wait_for_files

_GRACE = 5.0
"""Seconds that calls in progress get to finish when a server stops."""
_RETRY: Final = (1.0, 30.0)
"""First and longest pause, in seconds, before a socket that was removed is made again."""
_LOG = logging.getLogger(__name__)


class _Context(Protocol):
    """The methods of a gRPC context that the servers use."""

    def time_remaining(self) -> float | None: ...

    async def abort(self, code: grpc.StatusCode, details: str) -> Any: ...


class HealthSource(NamedTuple):
    """The reports of a driver's devices, and the pool of a device whose report names none."""

    board: HealthBoard
    pool_of: Callable[[str], str]


class PluginServers:
    """Both servers of a driver, for as long as the context lasts.

    async with PluginServers(...).serving():
        ...
    """

    def __init__(
        self,
        service: ClaimService,
        registration: Registration,
        registration_socket: Path,
        *,
        clock: Clock,
        health: HealthSource | None,
        interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
    ) -> None:
        self._service = service
        self._registration = registration
        self._registration_socket = registration_socket
        self._clock = clock
        self._health = health
        self._interceptors = tuple(interceptors)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen on both sockets; they are gone when the context ends, and calls in progress have finished.

        A socket that is removed meanwhile, alone or with its directory, is made again.
        """
        # The service first: what the node agent will call is there when it finds the registration socket.
        service = _KeptSocket(
            Path(self._registration.info.endpoint), self._add_service, self._interceptors, self._clock
        )
        registration = _KeptSocket(self._registration_socket, self._add_registration, self._interceptors, self._clock)
        async with service.serving(), registration.serving(), asyncio.TaskGroup() as group:
            tasks = [group.create_task(service.keep()), group.create_task(registration.keep())]
            try:
                yield
            finally:
                # Calls in progress are waited for, and a stream would go on for ever.
                if self._health is not None:
                    self._health.board.close()
                for task in tasks:
                    task.cancel()

    def _add_service(self, server: grpc.aio.Server) -> None:
        served = self._registration.info.supported_versions
        if DRA_V1 in served:
            dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_DRA(self._service, dra_v1_pb2, shares=True), server)
        if DRA_V1BETA1 in served:
            older = _DRA(self._service, dra_v1beta1_pb2, shares=False)
            dra_v1beta1_pb2_grpc.add_DRAPluginServicer_to_server(older, server)
        if DRA_OF_131 in served:
            server.add_generic_rpc_handlers((_alpha_handler(_DRA(self._service, dra_v1beta1_pb2, shares=False)),))
        if self._health is None:
            return
        for name, module, add in (
            (HEALTH_V1, dra_health_v1_pb2, dra_health_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server),
            (
                HEALTH_V1ALPHA1,
                dra_health_v1alpha1_pb2,
                dra_health_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server,
            ),
        ):
            if name in served:
                add(_Health(self._health, module, self._clock), server)

    def _add_registration(self, server: grpc.aio.Server) -> None:
        pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(
            RegistrationServicer(self._registration), server
        )


class _KeptSocket:
    """A unix socket that is served, and made again if it is removed."""

    def __init__(
        self,
        path: Path,
        add: Callable[[grpc.aio.Server], object],
        interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]],
        clock: Clock,
    ) -> None:
        self._path = path
        self._add = add
        self._interceptors = interceptors
        self._clock = clock
        self._server: grpc.aio.Server | None = None
        self._mine: int | None = None

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve the socket. At the end it is gone, and calls in progress have finished.

        Raises:
            OSError: the socket cannot be made.
        """
        await self._start()
        try:
            yield
        finally:
            await self._stop()
            _clear_away(self._path, self._mine)

    async def keep(self) -> None:
        """Serve the socket again each time it was removed, until cancelled."""
        while True:
            # Another instance's socket in its place is not ours to remove, and is left.
            folders = (self._path.parent, self._path.parent.parent)
            await wait_for_files(lambda: _identity(self._path) is None, folders, is_removal)
            _LOG.warning("%s was removed and is made again", self._path)
            # Before the next server starts: gRPC removes whatever has the socket's name when a server stops.
            await self._stop()
            await self._start_again()

    async def _start(self) -> None:
        self._server, self._mine = await _started(self._path, self._add, self._interceptors)

    async def _start_again(self) -> None:
        pauses = DoublingPauses(*_RETRY)
        while True:
            try:
                return await self._start()
            except (OSError, RuntimeError) as error:  # gRPC raises RuntimeError where it cannot bind
                pause = pauses.take()
                _LOG.error("%s cannot be made again, next attempt in %g s: %s", self._path, pause, error)
            await self._clock.sleep(pause)

    async def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_GRACE)


@contextlib.asynccontextmanager
async def listening(
    socket: Path,
    add: Callable[[grpc.aio.Server], object],
    interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]] = (),
) -> AsyncIterator[None]:
    """Yield a server on a unix socket with what ``add`` puts into it; the socket is gone when the context ends."""
    server, mine = await _started(socket, add, interceptors)
    try:
        yield
    finally:
        await server.stop(_GRACE)
        _clear_away(socket, mine)


async def _started(
    socket: Path,
    add: Callable[[grpc.aio.Server], object],
    interceptors: Sequence[grpc.aio.ServerInterceptor[Any, Any]],
) -> tuple[grpc.aio.Server, int | None]:
    """Start a server; return it with the identity of its socket."""
    # Removed and created again: the node agent notices a restarted driver by the new socket.
    _make_way(socket)
    server = grpc.aio.server(interceptors=interceptors, options=(("grpc.so_reuseport", 0),))
    add(server)
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    return server, _identity(socket)


def _make_way(socket: Path) -> None:
    # A file left by a killed process would make the address look taken.
    socket.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)


def _clear_away(socket: Path, mine: int | None) -> None:
    # During an update a new instance may listen under the same name already; its file is not ours to remove.
    if _identity(socket) == mine:
        socket.unlink(missing_ok=True)


def _identity(socket: Path) -> int | None:
    try:
        return socket.stat().st_ino
    except FileNotFoundError:
        return None


class _DRA:
    """NodePrepareResources and NodeUnprepareResources in one version."""

    def __init__(self, service: ClaimService, messages: Any, *, shares: bool) -> None:
        self._service = service
        self._messages = messages
        self._shares = shares

    async def NodePrepareResources(self, request: Any, context: _Context) -> Any:  # noqa: N802
        try:
            results = await self._service.node_prepare_resources(_refs(request.claims), timeout=_remaining(context))
        except CallFailed as error:
            return await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        response = self._messages.NodePrepareResourcesResponse()
        for uid, result in results.items():
            self._fill(response.claims[uid], result)
        return response

    async def NodeUnprepareResources(self, request: Any, context: _Context) -> Any:  # noqa: N802
        errors: Mapping[str, str] = await self._service.node_unprepare_resources(
            _refs(request.claims), timeout=_remaining(context)
        )
        response = self._messages.NodeUnprepareResourcesResponse()
        for uid, error in errors.items():
            # An entry without content is still an entry: «done without error».
            response.claims[uid].SetInParent()
            response.claims[uid].error = error
        return response

    def _fill(self, message: Any, result: PrepareResult) -> None:
        message.SetInParent()
        message.error = result.error
        for device in result.devices:
            message.devices.append(self._device(device))

    def _device(self, device: DeviceAnswer) -> Any:
        message = self._messages.Device(
            request_names=device.request_names,
            pool_name=device.pool_name,
            device_name=device.device_name,
            cdi_device_ids=device.cdi_device_ids,
        )
        if self._shares and device.share_id is not None:
            message.share_id = device.share_id
        return message


def _alpha_handler(service: _DRA) -> grpc.GenericRpcHandler[Any, Any]:
    """``v1alpha3.Node`` as 1.31 to 1.33 had it: a name of its own for the calls of v1beta1."""
    messages = dra_v1beta1_pb2
    return grpc.method_handlers_generic_handler(
        "v1alpha3.Node",
        {
            "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
                service.NodePrepareResources,
                request_deserializer=messages.NodePrepareResourcesRequest.FromString,
                response_serializer=messages.NodePrepareResourcesResponse.SerializeToString,
            ),
            "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
                service.NodeUnprepareResources,
                request_deserializer=messages.NodeUnprepareResourcesRequest.FromString,
                response_serializer=messages.NodeUnprepareResourcesResponse.SerializeToString,
            ),
        },
    )


class _Health:
    """NodeWatchResources in one version."""

    def __init__(self, source: HealthSource, messages: Any, clock: Clock) -> None:
        self._source = source
        self._messages = messages
        self._clock = clock

    async def NodeWatchResources(self, request: Any, context: _Context) -> AsyncIterator[Any]:  # noqa: N802
        async for reports in self._source.board.watch():
            yield self._messages.NodeWatchResourcesResponse(devices=[self._report(report) for report in reports])

    def _report(self, report: DeviceHealth) -> Any:
        return self._messages.DeviceHealth(
            device=self._messages.DeviceIdentifier(
                pool_name=report.pool or self._source.pool_of(report.device), device_name=report.device
            ),
            health=report.state.value,
            last_updated_time=int(self._clock.now() if report.updated_at is None else report.updated_at),
            health_check_timeout_seconds=report.timeout or 0,
            message=report.message,
        )


class RegistrationServicer:
    """GetInfo and NotifyRegistrationStatus, as the node agent calls them."""

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    async def GetInfo(self, request: Any, context: _Context) -> Any:  # noqa: N802
        info = self._registration.get_info()
        return pluginregistration_v1_pb2.PluginInfo(
            type=info.type, name=info.name, endpoint=info.endpoint, supported_versions=info.supported_versions
        )

    async def NotifyRegistrationStatus(self, request: Any, context: _Context) -> Any:  # noqa: N802
        try:
            self._registration.notify(registered=request.plugin_registered, error=request.error)
        except RegistrationFailed as error:
            return await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return pluginregistration_v1_pb2.RegistrationStatusResponse()


def _refs(claims: Iterable[Any]) -> list[Ref]:
    return [Ref(claim.namespace, claim.name, claim.uid) for claim in claims]


def _remaining(context: _Context) -> float:
    remaining = context.time_remaining()
    return CALL_TIMEOUT if remaining is None else min(remaining, CALL_TIMEOUT)
