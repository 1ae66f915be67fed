"""What drivers of 1.30 list to the node agent, and the ResourceSlices in which it publishes that.

The stream ``v1alpha3.Node/NodeListAndWatchResources`` (docs/spec/protocols.md §6). Each of its messages is everything
that the driver has on the node; slices that say something else are rewritten or removed.
Source: ``pkg/kubelet/cm/dra/plugin/noderesources.go`` of Kubernetes 1.30.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.protobuf.messages import decode_message, encode_message
from cathedra.api.protobuf.wire import LENGTH, ProtobufError, delimited, fields, tag
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.classic.resources import SLICES
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import Clock
from cathedra.node.concurrency import BlockTasks
from cathedra.node.plugins.client import PluginCallError

__all__ = ["LIST_METHOD", "ResourceListing", "decode_listing", "encode_listing"]

LIST_METHOD: Final = "NodeListAndWatchResources"
_MESSAGE: Final = "NodeListAndWatchResourcesResponse"
_RESOURCES: Final = tag(1, LENGTH)
_RECONNECT: Final = 5.0
"""Seconds before a broken stream is asked for again."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0
_FAREWELL: Final = 5.0
"""Seconds that removing a driver's slices may take when it is gone."""
_LOG = logging.getLogger(__name__)

Model = v1alpha2.NamedResourcesResources
"""What one slice says."""
Listen = Callable[[], AsyncGenerator[bytes]]
"""Asks for the stream of messages; raises `PluginCallError` when it breaks."""


def encode_listing(models: Sequence[Model]) -> bytes:
    """The message with which a driver lists its resources."""
    parts = (encode_message(v1alpha2.ResourceModel(named_resources=model)) for model in models)
    return b"".join(_RESOURCES + delimited(part) for part in parts)


def decode_listing(data: bytes) -> tuple[Model, ...]:
    """What a driver listed; a model of a kind that 1.30 does not know is left out.

    Raises:
        ProtobufError: the bytes are no such message.
    """
    found = (decode_message(v1alpha2.ResourceModel, bytes(part)) for part in _parts(data))
    return tuple(model.named_resources for model in found if model.named_resources is not None)


def _parts(data: bytes) -> list[bytes]:
    number = int.from_bytes(_RESOURCES)
    return [value for key, value in fields(data, _MESSAGE) if key == number and isinstance(value, bytes)]


class ResourceListing:
    """The slices of one driver on one node."""

    def __init__(self, api: Client, node: str, driver: str, *, clock: Clock) -> None:
        """``api`` writes slices as the node."""
        self._nodes = api.resource(NODES)
        self._slices = api.resource(SLICES)
        self._node = node
        self._driver = driver
        self._clock = clock
        self._models: tuple[Model, ...] | None = None
        """None: the driver has listed nothing."""
        self._changed = asyncio.Event()
        self._complete = False
        """Whether the driver has no more to say."""

    async def follow(self, listen: Listen) -> None:
        """Publish what the driver lists until it has no more to say; its slices stay."""
        async with BlockTasks() as tasks:
            publishing = tasks.start(self._publish())
            await self._read(listen)
            self._complete = True
            self._changed.set()
            await publishing

    async def end(self) -> None:
        """Remove the slices: the driver is not registered any more."""
        if self._models is None:
            return
        try:
            async with asyncio.timeout(_FAREWELL):
                await self._sync(())
        except (StatusError, ConnectionError, TimeoutError) as error:
            _LOG.warning("the ResourceSlices of driver %s, which is gone, stay: %s", self._driver, error)

    async def _read(self, listen: Listen) -> None:
        while True:
            try:
                async with contextlib.aclosing(listen()) as messages:
                    async for message in messages:
                        self._models = decode_listing(message)
                        self._changed.set()
            except (PluginCallError, ProtobufError) as error:
                if isinstance(error, PluginCallError) and error.code == "Unimplemented":
                    return
                _LOG.warning("reading the resources of driver %s failed: %s", self._driver, error)
                await self._clock.sleep(_RECONNECT)
            else:
                return

    async def _publish(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._changed.wait()
            self._changed.clear()
            complete = self._complete
            if self._models is not None:
                try:
                    await self._sync(self._models)
                except (StatusError, ConnectionError) as error:
                    _LOG.warning("publishing the resources of driver %s failed: %s", self._driver, error)
                    await self._clock.sleep(pause)
                    pause = min(pause * 2, _LONGEST_PAUSE)
                    self._changed.set()
                    continue
                pause = _FIRST_PAUSE
            if complete:
                return

    async def _sync(self, models: Sequence[Model]) -> None:
        """Keep what is already there; what is not goes into slices that say something else, then into new ones."""
        selector = f"nodeName={self._node},driverName={self._driver}"
        found = (await self._slices.list(field_selector=selector)).items
        kept = [piece.named_resources for piece in found if piece.named_resources in models]
        obsolete = [piece for piece in found if piece.named_resources not in models]
        for model in models:
            if model in kept:
                continue
            kept.append(model)
            if obsolete:
                await self._slices.update(replace(obsolete.pop(), named_resources=model))
            else:
                await self._slices.create(await self._new(model))
        for piece in obsolete:
            await self._slices.delete(piece.metadata.name)

    async def _new(self, model: Model) -> v1alpha2.ResourceSlice:
        node = await self._nodes.get(self._node)
        owner = OwnerReference(api_version="v1", kind="Node", name=self._node, uid=node.metadata.uid, controller=True)
        return v1alpha2.ResourceSlice(
            metadata=ObjectMeta(generate_name=f"{self._node}-{self._driver}-", owner_references=(owner,)),
            node_name=self._node,
            driver_name=self._driver,
            named_resources=model,
        )
