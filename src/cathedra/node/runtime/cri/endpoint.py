"""The connection to a container runtime's socket: calls with their time limits, and what the runtime can do.

docs/spec/protocols.md §11. The messages are those of ``runtime.v1``.

The images of a container runtime.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from cathedra._proto import cri_v1_pb2 as api
from cathedra._proto import cri_v1_pb2_grpc as stubs
from cathedra.cdi.catalogue import DEFAULT_DIRECTORIES
from cathedra.node.grpcsocket import go_status, open_channel
from cathedra.node.runtime.runtime import Image, ImageFailure, RegistryLogin

CALL_SECONDS: Final = 120.0
"""Time limit of a call, as the kubelet's ``runtimeRequestTimeout``; pulls have none."""
_CONTAINERD: Final = "containerd"


class CRIError(Exception):
    """A call to the runtime failed; the text is what Go's gRPC prints."""

    def __init__(self, code: str, description: str) -> None:
        self.code, self.description = code, description
        super().__init__(f"rpc error: code = {code} desc = {description}")


@dataclass(frozen=True, slots=True)
class CRIFeatures:
    """Name, version and features of a runtime, as it reported them first."""

    name: str
    version: str
    pod_networks: bool
    """True if pods can have a network of their own."""
    cdi_directories: tuple[Path, ...]
    """Directories in which the runtime resolves CDI devices; () if it does not."""
    systemd_cgroups: bool = False


def socket_path(endpoint: str) -> str:
    """Return the path of a socket that is given as one, or as ``unix:///PATH``."""
    return endpoint.removeprefix("unix://")


class CRIEndpoint:
    """Speaks to the runtime at a socket."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel = open_channel(socket_path(endpoint))
        make: Any = stubs  # the generated stubs are not annotated
        self._runtime = make.RuntimeServiceStub(self._channel)
        self._images = make.ImageServiceStub(self._channel)

    async def close(self) -> None:
        """Close the connection and cancel calls in progress."""
        with contextlib.suppress(asyncio.CancelledError):
            await self._channel.close(None)

    async def features(self) -> CRIFeatures:
        """Read the runtime's name, version and features.

        Raises:
            CRIError: there is no runtime that answers, or it speaks another protocol.
        """
        version = await self.call("Version", api.VersionRequest(version="0.1.0"), seconds=10.0)
        status = await self.call("Status", api.StatusRequest(verbose=True), seconds=10.0)
        conditions = {condition.type: condition for condition in status.status.conditions}
        network = conditions.get("NetworkReady")
        settings = _settings(status.info)
        return CRIFeatures(
            name=version.runtime_name,
            version=version.runtime_version,
            pod_networks=network is not None and network.status,
            cdi_directories=_cdi_directories(version.runtime_name, settings),
            systemd_cgroups=_systemd(settings),
        )

    async def call(self, method: str, request: Any, *, seconds: float | None = CALL_SECONDS) -> Any:
        """Make one call; ``seconds`` None is no time limit.

        Raises:
            CRIError: it failed.
        """
        stub = self._images if method in ("ImageStatus", "PullImage") else self._runtime
        try:
            return await getattr(stub, method)(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise CRIError(*go_status(error)) from error

    async def events(self) -> AsyncIterator[Any]:
        """Yield container events until the stream ends.

        Raises:
            CRIError: the stream broke; code Unimplemented if the runtime has no events.
        """
        stream = self._runtime.GetContainerEvents(api.GetEventsRequest())
        try:
            async for event in stream:
                yield event
        except grpc.aio.AioRpcError as error:
            raise CRIError(*go_status(error)) from error
        finally:
            stream.cancel()


def _settings(info: Any) -> dict[str, Any]:
    """containerd's configuration, as its verbose status has it; {} of other runtimes."""
    try:
        found = json.loads(info.get("config", "{}"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _cdi_directories(name: str, settings: dict[str, Any]) -> tuple[Path, ...]:
    """Return the runtime's CDI directories: containerd reports them from 1.7 on, if enabled; CRI-O always has them."""
    if name != _CONTAINERD:
        return DEFAULT_DIRECTORIES
    if not settings.get("enableCDI"):
        return ()
    said = settings.get("cdiSpecDirs")
    return tuple(Path(each) for each in said) if isinstance(said, list) and said else DEFAULT_DIRECTORIES


def _systemd(settings: dict[str, Any]) -> bool:
    """Return True if containerd names cgroups as systemd does."""
    if settings.get("systemdCgroup"):
        return True
    containerd = settings.get("containerd")
    if not isinstance(containerd, dict):
        return False
    runtimes, default = containerd.get("runtimes"), containerd.get("defaultRuntimeName")
    chosen = runtimes.get(default) if isinstance(runtimes, dict) else None
    options = chosen.get("options") if isinstance(chosen, dict) else None
    return bool(isinstance(options, dict) and options.get("SystemdCgroup"))


class CRIImages:
    """Finds and pulls images."""

    def __init__(self, endpoint: CRIEndpoint) -> None:
        self._endpoint = endpoint

    async def find(self, image: str) -> Image | None:
        """Return the image, if the runtime has it.

        Raises:
            ImageFailure: the call failed.
        """
        try:
            answer = await self._endpoint.call("ImageStatus", api.ImageStatusRequest(image=api.ImageSpec(image=image)))
        except CRIError as error:
            raise ImageFailure(str(error)) from error
        if not answer.HasField("image"):
            return None
        found = answer.image
        return Image(found.id, found.size, found.uid.value if found.HasField("uid") else None, found.username)

    async def pull(self, image: str, login: RegistryLogin | None) -> None:
        """Pull the image, without a time limit.

        Raises:
            ImageFailure: the pull failed.
        """
        auth = None
        if login is not None:
            auth = api.AuthConfig(
                username=login.username,
                password=login.password,
                auth=login.auth,
                server_address=login.server,
                identity_token=login.identity_token,
                registry_token=login.registry_token,
            )
        request = api.PullImageRequest(image=api.ImageSpec(image=image), auth=auth)
        try:
            await self._endpoint.call("PullImage", request, seconds=None)
        except CRIError as error:
            raise ImageFailure(str(error)) from error
