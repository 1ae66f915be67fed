"""The node plugin of a classic driver: subclass `NodeDriver`, and `serve` it where kubelets of 1.26 to 1.30 look.

All three services of that time are served at once, so one plugin works with each of those kubelets.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from cathedra._proto import dra_classic_pb2 as messages
from cathedra._proto import pluginregistration_v1_pb2_grpc
from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.classic.nodes.listing import LIST_METHOD, encode_listing
from cathedra.driver.serving.plugin import RegistrationServicer, listening
from cathedra.driver.serving.registration import PluginInfo, Registration, socket_paths

__all__ = ["NodeClaim", "NodeDriver", "StructuredHandle", "serving"]

VERSION: Final = "1.0.0"
"""The version with which plugins of that time registered."""


@dataclass(frozen=True, slots=True)
class StructuredHandle:
    """An allocation of the scheduler of 1.30: names of instances, and their parameters."""

    node: str
    instances: tuple[str, ...] = ()
    class_parameters: bytes = b""
    """Parameters of the class as JSON; empty if there are none."""
    claim_parameters: bytes = b""
    request_parameters: tuple[bytes, ...] = ()
    """One for each instance."""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """A claim, as a node plugin receives it."""

    namespace: str
    uid: str
    name: str
    handle: str = ""
    """Data that the driver's controller wrote for this plugin."""
    structured: StructuredHandle | None = None


class NodeDriver(ABC):
    """Makes claims ready on one node. Both methods may be called again for the same claim."""

    @abstractmethod
    async def prepare(self, claim: NodeClaim) -> Sequence[str]:
        """Make a claim ready; the qualified CDI names of its devices. Whatever is raised is shown to the user."""

    @abstractmethod
    async def unprepare(self, claim: NodeClaim) -> None:
        """Unprepare a claim. An unknown claim is no error."""

    def resources(self) -> AsyncIterator[Sequence[v1alpha2.NamedResourcesResources]] | None:
        """Yield the resources of this node, and again after each change. Node agents of 1.30 publish them as
        ResourceSlices.

        None: the driver lists nothing. When the iterator ends, the last list stays valid.
        """
        return None


@contextlib.asynccontextmanager
async def serving(
    name: str, driver: NodeDriver, *, plugin_dir: Path, registry_dir: Path
) -> AsyncIterator[Registration]:
    """Serve ``driver`` under its name, and offer it for registration, until the context ends.

    Raises:
        OptionError: a directory's name is too long for a socket in it.
    """
    paths = socket_paths(name, plugin_dir, registry_dir)
    registration = Registration(PluginInfo(name, str(paths.service), (VERSION,)))

    def add_registration(server: grpc.aio.Server) -> None:
        pluginregistration_v1_pb2_grpc.add_RegistrationServicer_to_server(RegistrationServicer(registration), server)

    async with (
        listening(paths.service, _Services(driver).add_to),
        # Registered last: the node agent calls the services as soon as it finds the socket.
        listening(paths.registration, add_registration),
    ):
        yield registration


Method = Callable[[Any, Any], Awaitable[Any]]


class _Services:
    """v1alpha1.Node, v1alpha2.Node and v1alpha3.Node of one driver."""

    def __init__(self, driver: NodeDriver) -> None:
        self._driver = driver

    def add_to(self, server: grpc.aio.Server) -> None:
        """Register all three services with a server."""
        first = messages.NodeUnprepareResourceRequestV1alpha1
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("v1alpha1.Node", self._one_by_one(first)),
                grpc.method_handlers_generic_handler(
                    "v1alpha2.Node", self._one_by_one(messages.NodeUnprepareResourceRequest)
                ),
                grpc.method_handlers_generic_handler(
                    "v1alpha3.Node",
                    {
                        "NodePrepareResources": _handler(self._prepare_all, messages.NodePrepareResourcesRequest),
                        "NodeUnprepareResources": _handler(self._unprepare_all, messages.NodeUnprepareResourcesRequest),
                        LIST_METHOD: grpc.unary_stream_rpc_method_handler(self._list),
                    },
                ),
            )
        )

    def _one_by_one(self, unprepare: type[Any]) -> dict[str, grpc.RpcMethodHandler[Any, Any]]:
        return {
            "NodePrepareResource": _handler(self._prepare, messages.NodePrepareResourceRequest),
            "NodeUnprepareResource": _handler(self._unprepare, unprepare),
        }

    async def _prepare(self, request: Any, context: Any) -> Any:
        try:
            devices = await self._driver.prepare(_claim(request))
        except Exception as error:
            # Whatever a driver raises is the call's error, which the user sees at the pod.
            return await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return messages.NodePrepareResourceResponse(cdi_devices=devices)

    async def _unprepare(self, request: Any, context: Any) -> Any:
        try:
            await self._driver.unprepare(_claim(request))
        except Exception as error:
            # As above.
            return await context.abort(grpc.StatusCode.UNKNOWN, str(error))
        return messages.NodeUnprepareResourceResponse()

    async def _prepare_all(self, request: Any, context: Any) -> Any:
        answer = messages.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                entry.cdi_devices.extend(await self._driver.prepare(_batched(claim)))
            except Exception as error:
                # As above, for one claim of several.
                entry.error = str(error) or type(error).__name__
        return answer

    async def _unprepare_all(self, request: Any, context: Any) -> Any:
        answer = messages.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            entry = answer.claims[claim.uid]
            entry.SetInParent()
            try:
                await self._driver.unprepare(_batched(claim))
            except Exception as error:
                # As above, for one claim of several.
                entry.error = str(error) or type(error).__name__
        return answer

    async def _list(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        resources = self._driver.resources()
        if resources is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"method {LIST_METHOD} not implemented")
            return
        async for models in resources:
            yield encode_listing(models)


def _handler(method: Method, request: type[Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        method,
        request_deserializer=request.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )


def _claim(request: Any) -> NodeClaim:
    """Return the claim of a request. In v1alpha1 the request to unprepare has no handle."""
    return NodeClaim(
        request.namespace,
        request.claim_uid,
        request.claim_name,
        getattr(request, "resource_handle", ""),
        _structured(getattr(request, "structured_resource_handle", ())),
    )


def _batched(claim: Any) -> NodeClaim:
    return NodeClaim(
        claim.namespace, claim.uid, claim.name, claim.resource_handle, _structured(claim.structured_resource_handle)
    )


def _structured(handles: Iterable[Any]) -> StructuredHandle | None:
    for handle in handles:
        return StructuredHandle(
            node=handle.node_name,
            instances=tuple(result.allocation_result_model.named_resources.name for result in handle.results),
            class_parameters=handle.vendor_class_parameters.raw,
            claim_parameters=handle.vendor_claim_parameters.raw,
            request_parameters=tuple(result.vendor_request_parameters.raw for result in handle.results),
        )
    return None
