"""One round of churn: a namespace with claims, pods and their owners is created, watched, changed and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import CELDeviceSelector, DeviceClass, DeviceClassSpec, DeviceSelector
from cathedra.client.client import Client
from cathedra.client.resources import (
    CONFIGMAPS,
    DEVICECLASSES,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    RESOURCECLAIMS,
    SERVICEACCOUNTS,
)
from cathedra.client.transport import EventType, PatchType, ResourceRef
from cathedra.cluster.manifests import read_manifests
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import is_true

__all__ = ["Churn"]

PATIENCE: Final = 120.0
PATCHES: Final = 20
CLASS: Final = "soak"
DRIVER: Final = 'device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].type == "gpu"'
PODS_OF_ROUND: Final = 4


class Churn:
    """Actions of users on the cluster, round after round."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._workload = read_manifests(Path(__file__).with_name("workload.yaml"), FeatureGates.for_release())
        self.pods = 0
        """Pods that have run."""
        self.events = 0
        """Events of watches that were received."""

    async def prepare(self) -> None:
        """Create the class of devices that all rounds use."""
        selector = DeviceSelector(cel=CELDeviceSelector(expression=DRIVER))
        spec = DeviceClassSpec(selectors=(selector,))
        await self._of(DEVICECLASSES).create(DeviceClass(metadata=ObjectMeta(name=CLASS), spec=spec))

    async def round(self, number: int) -> None:
        """Create a namespace and what is in it, wait until all of it runs, change it, delete it, wait until it is gone.

        Raises:
            TimeoutError: something did not happen.
        """
        name = f"soak-{number}"
        async with asyncio.timeout(PATIENCE), self._watching(PODS), self._watching(RESOURCECLAIMS):
            await self._of(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=name)))
            await self._until(SERVICEACCOUNTS, name, bool)
            for ref, obj in self._workload:
                await self._of(ref, name).create(obj)
            await self._until(PODS, name, _all_have_run)
            self.pods += PODS_OF_ROUND
            await self._until(JOBS, name, lambda jobs: is_true(jobs["train"].status.conditions, "Complete"))
            await self._change(name)
            await self._of(NAMESPACES).delete(name)
            await self._until(NAMESPACES, "", lambda found: name not in found)
            await self._of(EVENTS, "default").delete_collection()

    async def _change(self, name: str) -> None:
        maps = self._of(CONFIGMAPS, name)
        for number in range(PATCHES):
            await maps.patch("settings", PatchType.MERGE, {"data": {"value": str(number)}})
        page = await self._of(PODS, name).list(limit=1)
        while page.continue_:
            page = await self._of(PODS, name).list(limit=1, continue_=page.continue_)

    @asynccontextmanager
    async def _watching(self, ref: ResourceRef[Any]) -> AsyncIterator[None]:
        """Watch a resource in all namespaces for as long as the block lasts."""
        page = await self._of(ref).list()

        async def watch() -> None:
            async with self._of(ref).watch(resource_version=page.resource_version) as events:
                async for _ in events:
                    self.events += 1

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _until(self, ref: ResourceRef[Any], namespace: str, done: Callable[[dict[str, Any]], bool]) -> None:
        """Follow a resource until its objects, by name, satisfy ``done``."""
        page = await self._of(ref, namespace).list()
        found = {obj.metadata.name: obj for obj in page.items}
        if done(found):
            return
        async with self._of(ref, namespace).watch(resource_version=page.resource_version, bookmarks=False) as events:
            async for event in events:
                found[event.object.metadata.name] = event.object
                if event.type is EventType.DELETED:
                    del found[event.object.metadata.name]
                if done(found):
                    return
        raise ConnectionError(f"the watch of {ref.resource} ended")

    def _of(self, ref: ResourceRef[Any], namespace: str = "") -> Any:
        return self._client.resource(ref, namespace if ref.namespaced else "")


def _all_have_run(pods: dict[str, Any]) -> bool:
    return len(pods) >= PODS_OF_ROUND and all(pod.status.phase in ("Running", "Succeeded") for pod in pods.values())
