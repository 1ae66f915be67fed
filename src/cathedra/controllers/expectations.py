"""A controller's own writes that its informers have not shown yet.

A controller that creates three pods and then reads a store with one of them would create two more. It therefore records
the resource version of its writes, and waits until the store is at least as new. If a write had no response, it is
unknown whether there is anything to wait for; then the API server is read before the next write.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.clock import Clock
from cathedra.semantics.owners import controller_of

K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=KubeObject)

LONGEST_WAIT = 300.0
"""Seconds after which a write that never showed up is no longer waited for."""


class Expectations(Generic[K]):
    """Per key: how new the store has to be."""

    def __init__(self, informer: Informer[T], clock: Clock) -> None:
        self._informer = informer
        self._clock = clock
        self._expected: dict[K, tuple[str, float]] = {}
        self._leaving: dict[K, dict[str, tuple[KubeObject, float]]] = {}
        """By key and uid: objects that lost their last hold with a write, and when (monotonic seconds)."""
        self._doubts: set[K] = set()

    def expect(self, key: K, written: KubeObject | None) -> None:
        """Wait for ``written``, as the API server answered it."""
        if written is None:
            return
        if _is_released(written):
            # The answer has the version before the deletion, so the version alone does not show it.
            self._leaving.setdefault(key, {})[written.metadata.uid] = (written, self._clock.monotonic())
        version = written.metadata.resource_version
        before = self._expected.get(key)
        if before is not None and before[0].isdigit() and version.isdigit() and int(before[0]) > int(version):
            return
        self._expected[key] = (version, self._clock.monotonic())

    def met(self, key: K) -> bool:
        """Return True if the store shows everything that was written for ``key``."""
        if not self._have_left(key):
            return False
        expected = self._expected.get(key)
        if expected is None:
            return True
        version, since = expected
        # The limit ends the wait if the informer's view never reaches the version, for example after the store was
        # restored from a backup.
        if not self._informer.has_reached(version) and self._clock.monotonic() - since < LONGEST_WAIT:
            return False
        del self._expected[key]
        return True

    def _have_left(self, key: K) -> bool:
        leaving = self._leaving.get(key, {})
        now = self._clock.monotonic()
        for uid, (obj, since) in tuple(leaving.items()):
            shown = self._informer.store.get(obj.metadata.namespace, obj.metadata.name)
            if shown is None or shown.metadata.uid != uid or now - since >= LONGEST_WAIT:
                del leaving[uid]
        if not leaving:
            self._leaving.pop(key, None)
        return not leaving

    def doubt(self, key: K) -> None:
        """Record a write for ``key`` that had no response and may have been executed."""
        self._doubts.add(key)

    async def find_out(self, key: K, client: Client, owner: KubeObject) -> None:
        """Resolve writes without response for ``key``: wait for every object that ``owner`` controls.

        Raises:
            StatusError, ConnectionError: the API server has not answered.
        """
        if key not in self._doubts:
            return
        metadata = owner.metadata
        page = await client.resource(self._informer.ref, metadata.namespace).list()
        self._doubts.discard(key)
        for obj in page.items:
            controller = controller_of(obj)
            if controller is not None and controller.uid == metadata.uid:
                self.expect(key, obj)

    def forget(self, key: K) -> None:
        """Note that the key's object is gone."""
        self._expected.pop(key, None)
        self._leaving.pop(key, None)
        self._doubts.discard(key)


def _is_released(obj: KubeObject) -> bool:
    """Return True if nothing keeps an object that is being deleted."""
    metadata = obj.metadata
    if metadata.deletion_timestamp is None:
        return False
    return not metadata.finalizers and not metadata.deletion_grace_period_seconds
