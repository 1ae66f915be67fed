"""Resources that drivers of 1.30 list to the node agent, and the ResourceSlices in which it publishes them.

The stream ``v1alpha3.Node/NodeListAndWatchResources`` (docs/spec/protocols.md §6). Each of its messages is everything
that the driver has on the node; slices of the node that differ are rewritten or removed, also those of drivers that are
not registered or have not listed anything. Source: ``pkg/kubelet/cm/dra/plugin/noderesources.go`` of Kubernetes 1.30.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from cathedra.api.core import resource_v1alpha2 as v1alpha2
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf.messages import decode_message, encode_message
from cathedra.api.protobuf.wire import LENGTH, ProtobufError, delimited, fields, tag
from cathedra.api.struct import replace
from cathedra.classic.resources import SLICES
from cathedra.client.client import Client
from cathedra.client.informer import Informer, InformerSelection
from cathedra.client.workqueue import WorkQueue, run_workers
from cathedra.clock import Clock
from cathedra.node.plugins.client import PluginCallError

LIST_METHOD: Final = "NodeListAndWatchResources"
_MESSAGE: Final = "NodeListAndWatchResourcesResponse"
_RESOURCES: Final = tag(1, LENGTH)
_RECONNECT: Final = 5.0
"""Seconds before a broken stream is opened again."""
_LOG = logging.getLogger(__name__)

Model = v1alpha2.NamedResourcesResources
"""The resources of one slice."""
Listen = Callable[[], AsyncGenerator[bytes]]
"""Opens the stream of messages. It raises `PluginCallError` when the stream breaks."""


def encode_listing(models: Sequence[Model]) -> bytes:
    """Return the message with which a driver lists its resources."""
    parts = (encode_message(v1alpha2.ResourceModel(named_resources=model)) for model in models)
    return b"".join(_RESOURCES + delimited(part) for part in parts)


def decode_listing(data: bytes) -> tuple[Model, ...]:
    """Decode a driver's list. Models of a kind that 1.30 does not know are left out.

    Raises:
        ProtobufError: the bytes are no such message.
    """
    found = (decode_message(v1alpha2.ResourceModel, bytes(part)) for part in _parts(data))
    return tuple(model.named_resources for model in found if model.named_resources is not None)


def _parts(data: bytes) -> list[bytes]:
    number = int.from_bytes(_RESOURCES)
    return [value for key, value in fields(data, _MESSAGE) if key == number and isinstance(value, bytes)]


class NodeSlices:
    """The slices of one node, as its kubelet keeps them."""

    def __init__(self, api: Client, node: str, *, clock: Clock) -> None:
        """``api`` reads and writes slices as the node."""
        self._slices = api.resource(SLICES)
        self._node = node
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._seen = Informer(api, SLICES, InformerSelection(field_selector=f"nodeName={node}"), clock=clock)
        self._listings: dict[str, ResourceListing] = {}
        """By driver, while it is registered."""
        self._seen.add_handler(self._look, lambda _, piece: self._look(piece), self._look)

    async def run(self) -> None:
        """Keep the slices until cancelled; at the start those of all drivers that have not registered go."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._seen.run())
            # Slices of drivers that never register again must be seen, so that they are removed.
            await self._seen.wait_synced()
            group.create_task(run_workers(self._queue, self._sync))

    def register(self, listing: ResourceListing) -> None:
        """Follow the resources that a driver lists; it replaces an earlier instance."""
        self._listings[listing.driver] = listing
        self._queue.add(listing.driver)

    def unregister(self, listing: ResourceListing) -> None:
        """Note that the driver is gone, unless another instance of it has registered."""
        if self._listings.get(listing.driver) is listing:
            del self._listings[listing.driver]
            self._queue.add(listing.driver)

    def changed(self, driver: str) -> None:
        """Note that a driver has listed something else."""
        self._queue.add(driver)

    def _look(self, piece: v1alpha2.ResourceSlice) -> None:
        self._queue.add(piece.driver_name)

    async def _sync(self, driver: str) -> None:
        """Keep slices that are up to date, rewrite those that differ, and create the missing ones."""
        models = self._listings[driver].models if driver in self._listings else ()
        # Read from the server: the informer may lag behind this controller's own writes.
        found = (await self._slices.list(field_selector=f"nodeName={self._node},driverName={driver}")).items
        kept = [piece.named_resources for piece in found if piece.named_resources in models]
        obsolete = [piece for piece in found if piece.named_resources not in models]
        for model in models:
            if model in kept:
                continue
            kept.append(model)
            # Rewritten instead of removed and created: the scheduler sees one change, without a moment of too few
            # resources.
            if obsolete:
                await self._slices.update(replace(obsolete.pop(), named_resources=model))
            else:
                await self._slices.create(self._new(driver, model))
        for piece in obsolete:
            await self._slices.delete(piece.metadata.name)

    def _new(self, driver: str, model: Model) -> v1alpha2.ResourceSlice:
        return v1alpha2.ResourceSlice(
            metadata=ObjectMeta(generate_name=f"{self._node}-{driver}-"),
            node_name=self._node,
            driver_name=driver,
            named_resources=model,
        )


class ResourceListing:
    """The resources that one instance of a driver lists."""

    def __init__(self, slices: NodeSlices, driver: str, *, clock: Clock) -> None:
        self.driver = driver
        self.models: tuple[Model, ...] = ()
        """Models of the driver's last list."""
        self._slices = slices
        self._clock = clock

    async def follow(self, listen: Listen) -> None:
        """Read the driver's lists until the stream ends. The last one stays published until `end`."""
        self._slices.register(self)
        while True:
            try:
                async with contextlib.aclosing(listen()) as messages:
                    async for message in messages:
                        self.models = decode_listing(message)
                        self._slices.changed(self.driver)
            except (PluginCallError, ProtobufError) as error:
                # Drivers without structured parameters have no list.
                if isinstance(error, PluginCallError) and error.code == "Unimplemented":
                    return
                _LOG.warning("reading the resources of driver %s failed: %s", self.driver, error)
                await self._clock.sleep(_RECONNECT)
            else:
                return

    def end(self) -> None:
        """Note that the driver is not registered any more."""
        self._slices.unregister(self)
