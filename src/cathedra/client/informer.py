"""A local view of a resource that follows the API server: list once, watch, and begin again when history is lost.

Every part of Cathedra reads from informers and writes to the API. Handlers are plain functions, called on the event
loop in the order of events; they note what is to be done (usually a key in a `WorkQueue`) and return
(docs/spec/apimachinery.md §8 and §9).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.api.undecodable import Undecodable
from cathedra.client.backoff import ExponentialBackoff
from cathedra.client.client import Client
from cathedra.client.objects import key_of
from cathedra.client.store import Store
from cathedra.client.transport import EventType, MalformedAnswer, Page, ResourceRef, WatchEvent, in_batches
from cathedra.clock import Clock

__all__ = ["Handler", "Informer", "InformerObserver", "InformerSelection", "SharedInformers", "Unobserved"]

T = TypeVar("T", bound=KubeObject)

_LOG = logging.getLogger(__name__)
_DELETED: Final = EventType.DELETED
_BOOKMARK: Final = EventType.BOOKMARK
"""Read for every event; reading them off their class takes 0.4 µs."""
PAGE: Final = 500
"""Objects of a page of a list, as in client-go: the answer to a list of 100,000 pods is neither made nor decoded as a
whole, which would stop both ends for seconds."""
_TURN: Final = 100
"""Objects of a list that are entered in one turn of the loop, with a dozen handlers some 10 ms."""


class InformerObserver(Protocol):
    """Counts what an informer could not use."""

    def undecodable(self, resource: str, kind: str) -> None:
        """Count an object that was added or updated and cannot be decoded."""

    def informer_failed(self, resource: str, reason: str) -> None:
        """Count a failure: a handler raised (``handler``), an answer was ``malformed``, or the informer has a
        ``defect``."""


class Unobserved:
    """Observer that counts nothing."""

    def undecodable(self, resource: str, kind: str) -> None:
        """Ignore it: nothing is counted."""

    def informer_failed(self, resource: str, reason: str) -> None:
        """Ignore it: nothing is counted."""


class Handler(msgspec.Struct, Generic[T], frozen=True):
    """Callbacks of one subscriber. Called synchronously, after the store has changed."""

    on_add: Callable[[T], None] | None = None
    on_update: Callable[[T, T], None] | None = None
    on_delete: Callable[[T], None] | None = None
    on_undecodable: Callable[[Undecodable], None] | None = None
    """The object exists, and its present version cannot be decoded. Without this callback an object that was known is
    reported deleted; with it, it is not."""
    on_resolved: Callable[[Undecodable, T | None], None] | None = None
    """An object that could not be decoded can be now, and is reported as added next; None: it has been deleted."""


@dataclass(frozen=True, slots=True)
class InformerSelection:
    """The objects of a resource that an informer follows: in one namespace ("": in all), and by selectors."""

    namespace: str = ""
    field_selector: str = ""
    label_selector: str = ""


class Informer(Generic[T]):
    """A store that follows one resource, and its handlers.

    An object that vanished while the informer was not watching is reported deleted with the last state known here. A
    resource that the server does not serve counts as empty. An object that cannot be decoded is in
    ``store.undecodable`` alone.
    """

    def __init__(
        self,
        client: Client,
        ref: ResourceRef[T],
        selection: InformerSelection = InformerSelection(),
        *,
        clock: Clock,
        resync_seconds: float = 0.0,
        observer: InformerObserver | None = None,
    ) -> None:
        self.ref = ref
        self.store: Store[T] = Store()
        self._resource = client.resource(ref, selection.namespace)
        self._clock = clock
        self._selection = selection
        self._resync_seconds = resync_seconds
        self._observer = observer or Unobserved()
        self._handlers: list[Handler[T]] = []
        self._transform: Callable[[T], T] | None = None
        self._on_add: list[Callable[[T], None]] = []
        self._on_update: list[Callable[[T, T], None]] = []
        self._on_delete: list[Callable[[T], None]] = []
        self.synced = False
        """True if the first list has arrived and been handed to all handlers."""
        self._first_list = asyncio.Event()
        self._resource_version = ""
        self._listed_at = 0.0

    def has_reached(self, resource_version: str) -> bool:
        """Return True if the store shows the state after the write that answered ``resource_version``.

        Resource versions of one resource are numbers that grow; one that is no number counts as reached.
        """
        if not resource_version.isdigit() or not self._resource_version.isdigit():
            return self.synced
        return int(self._resource_version) >= int(resource_version)

    async def wait_synced(self) -> None:
        """Wait for the first list."""
        await self._first_list.wait()

    def set_transform(self, transform: Callable[[T], T]) -> None:
        """Apply ``transform`` to each object before it is stored and before handlers are called (as client-go does).

        It must keep the object's name, namespace, UID and resource version. Set it before the informer runs.
        """
        self._transform = transform

    def add_handler(
        self,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
        *,
        on_undecodable: Callable[[Undecodable], None] | None = None,
        on_resolved: Callable[[Undecodable, T | None], None] | None = None,
    ) -> None:
        """Register callbacks (`Handler`); existing objects are reported at once."""
        handler = Handler(on_add, on_update, on_delete, on_undecodable, on_resolved)
        self._handlers.append(handler)
        if on_add is not None:
            self._on_add.append(on_add)
        if on_update is not None:
            self._on_update.append(on_update)
        if on_delete is not None:
            self._on_delete.append(on_delete)
        if on_undecodable is not None:
            for what in tuple(self.store.undecodable.values()):
                self._call(on_undecodable, what)
        if on_add is not None:
            for obj in self.store.list():
                self._call(on_add, obj)

    def run(self) -> Coroutine[Any, Any, None]:
        """Follow the resource until cancelled; lost connections and lost history are made up for."""
        return self._follow() if self._resync_seconds <= 0 else self._follow_and_resync()

    async def _follow_and_resync(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._resync())

    async def _follow(self) -> None:
        backoff = ExponentialBackoff(self._clock, base=0.8, factor=2.0, maximum=30.0, reset_after=120.0)
        while True:
            try:
                if not self._resource_version:
                    await self._list()
                await self._watch()
            except StatusError as error:
                # The next attempt begins with a list: 410 demands it, and after any other refusal it is safe.
                self._resource_version = ""
                # An expired watch lists again at once. If the list is fresh, the server is failing, and the back-off
                # applies.
                if error.is_expired and self._clock.monotonic() - self._listed_at > 1.0:
                    continue
                if error.is_not_found:
                    self._nothing_served()
                expected = error.is_not_found or error.is_expired
                _LOG.log(
                    logging.DEBUG if expected else logging.WARNING,
                    "%s: list and watch refused: %s",
                    self.ref.resource,
                    error,
                )
                await self._clock.sleep(backoff.delay())
            except MalformedAnswer as error:
                self._resource_version = ""  # the object of the event is unknown: the next list shows it
                self._observer.informer_failed(self.ref.resource, "malformed")
                _LOG.warning("%s: listed again: %s", self.ref.resource, error)
                await self._clock.sleep(backoff.delay())
            except ConnectionError as error:
                _LOG.info("%s: no connection: %s", self.ref.resource, error)
                await self._clock.sleep(backoff.delay())
            except Exception:
                # Whatever else a server can bring about must not end the part that follows it: as after a refusal.
                self._resource_version = ""
                self._observer.informer_failed(self.ref.resource, "defect")
                _LOG.exception("%s: list and watch broke, and begin again", self.ref.resource)
                await self._clock.sleep(backoff.delay())

    def _nothing_served(self) -> None:
        """Show an empty store for a resource that the server lacks; it may be served later, so the list is retried."""
        for obj in self.store.list():
            self._remove(obj)
        for key in tuple(self.store.undecodable):
            self._resolve(key, None)
        self._set_synced()

    def _set_synced(self) -> None:
        self.synced = True
        self._first_list.set()

    async def _list(self) -> None:
        page = await self._pages()
        # Deletions first: an index must not hold an old and a new owner of one device at the same time.
        if self.store or self.store.undecodable:
            self._remove_absent(page)
        for what in page.undecodable:
            self._put_undecodable(what)
        for begin in range(0, len(page.items), _TURN):
            # Handlers of 100,000 pods take seconds. Whatever else runs on this loop, the API server in the same process
            # or the renewal of a lease, must not wait for all of them.
            if begin:
                await asyncio.sleep(0)
            self._receive([WatchEvent(EventType.ADDED, obj) for obj in page.items[begin : begin + _TURN]])
        # Last: a failure above must lead to another list, not to a watch that skips changes.
        self._resource_version = page.resource_version
        self._listed_at = self._clock.monotonic()
        self._set_synced()

    def _remove_absent(self, page: Page[T]) -> None:
        """Remove what a complete list lacks."""
        present: set[tuple[str, str]] = {key_of(obj) for obj in page.items}
        present.update(what.key for what in page.undecodable)
        for obj in self.store.list():
            if key_of(obj) not in present:
                self._remove(obj)
        for key in tuple(self.store.undecodable):
            if key not in present:
                self._resolve(key, None)

    async def _pages(self) -> Page[T]:
        """Return all objects, read page by page."""
        labels, fields = self._selection.label_selector, self._selection.field_selector
        page = await self._resource.list(labels, fields, limit=PAGE)
        if not page.continue_:
            return page
        items, undecodable = [*page.items], [*page.undecodable]
        while page.continue_:
            # The API server in the same process answers without suspending, for 100 ms if there are 100,000 pods.
            await asyncio.sleep(0)
            try:
                page = await self._resource.list(labels, fields, limit=PAGE, continue_=page.continue_)
            except StatusError as error:
                # The history no longer reaches back to the first page. A list without pages cannot expire, so a server
                # with very many writes is followed as well (client-go's pager does the same).
                if error.is_expired:
                    return await self._resource.list(labels, fields)
                raise
            items += page.items
            undecodable += page.undecodable
        return Page(tuple(items), page.resource_version, undecodable=tuple(undecodable))

    async def _watch(self) -> None:
        started = self._clock.monotonic()
        event = None
        stream = self._resource.watch(
            self._selection.label_selector, self._selection.field_selector, resource_version=self._resource_version
        )
        async with stream as events:
            async for batch in in_batches(events):
                self._receive(batch)
                for event in reversed(batch):
                    # An event without a version does not move the position of the watch.
                    if version := event.object.metadata.resource_version:
                        self._resource_version = version
                        break
        if event is None and self._clock.monotonic() - started < 1.0:
            # A server that ends streams at once (overload, shutting down) must not be called again in a tight loop.
            await self._clock.sleep(1.0)

    def _undecodable_event(self, event: WatchEvent[T], what: Undecodable) -> None:
        if event.type is not _DELETED:
            self._put_undecodable(what)
            return
        self._remove(self.store.by_key.get(what.key))  # with the last state known here
        self._resolve(what.key, None)

    def _receive(self, batch: Sequence[WatchEvent[T]]) -> None:
        """Enter changes into the store, and call the handlers for each."""
        store, undecodable, transform = self.store, self.store.undecodable, self._transform
        for event in batch:
            obj, kind = event.object, event.type
            if event.undecodable is not None:
                self._undecodable_event(event, event.undecodable)
                continue
            if kind is _DELETED:
                self._remove(obj)
                continue
            if kind is _BOOKMARK:
                continue
            if transform is not None:
                obj = transform(obj)
            metadata = obj.metadata
            if undecodable:
                self._resolve((metadata.namespace, metadata.name), obj)
            old = store.put(obj)
            if old is not None:
                before = old.metadata
                if before.uid == metadata.uid:
                    # The same state once more, as after a list: handlers have seen it.
                    if before.resource_version == metadata.resource_version:
                        continue
                    for on_update in self._on_update:
                        try:
                            on_update(old, obj)
                        except Exception:
                            self._handler_failed(obj)
                    continue
                # Another object of that name: during the notification that the first is deleted, the store has neither.
                self._remove(old)
                store.put(obj)
            for on_add in self._on_add:
                try:
                    on_add(obj)
                except Exception:
                    self._handler_failed(obj)

    def _remove(self, obj: T | None) -> None:
        if obj is None:
            return
        key = (obj.metadata.namespace, obj.metadata.name)
        if self.store.undecodable:
            self._resolve(key, None)
        # Unknown here, so no handler has seen it.
        if self.store.remove(key) is None:
            return
        for on_delete in self._on_delete:
            try:
                on_delete(obj)
            except Exception:
                self._handler_failed(obj)

    def _put_undecodable(self, what: Undecodable) -> None:
        """Enter an object that cannot be decoded; it is absent for all but the handlers of such objects."""
        known = self.store.undecodable.get(what.key)
        if known is not None and known.same_state(what):
            return
        self._observer.undecodable(self.ref.resource, what.kind)
        _LOG.error("%s; it is left out until it changes (resource version %s)", what, what.resource_version)
        old = self.store.by_key.get(what.key)
        if known is not None and known.uid != what.uid:
            self._resolve(what.key, None)
        if old is not None and old.metadata.uid != what.uid and what.uid:
            self._remove(old)
            old = None
        self.store.put_undecodable(what)
        for handler in self._handlers:
            if handler.on_undecodable is None and handler.on_delete is not None and old is not None:
                # First those for which the object is gone, then those that know better, so that no index holds both.
                self._call(handler.on_delete, old)
        for handler in self._handlers:
            if handler.on_undecodable is not None:
                self._call(handler.on_undecodable, what)

    def _resolve(self, key: tuple[str, str], obj: T | None) -> None:
        """Note that the object of that key can be decoded again, as ``obj``, or was deleted."""
        what = self.store.remove_undecodable(key)
        if what is None:
            return
        now = obj if obj is not None and what.uid in ("", obj.metadata.uid) else None
        for handler in self._handlers:
            if handler.on_resolved is not None:
                self._call(handler.on_resolved, what, now)

    def _call(self, callback: Callable[..., None], *about: Any) -> None:
        """Call a handler; a defect in it ends neither the informer nor the part, and keeps nothing from the others."""
        try:
            callback(*about)
        except Exception:
            self._handler_failed(about[0])

    def _handler_failed(self, about: T | Undecodable) -> None:
        self._observer.informer_failed(self.ref.resource, "handler")
        key = about.where if isinstance(about, Undecodable) else key_of(about)
        _LOG.exception("%s: a handler failed on %s", self.ref.resource, key)

    async def _resync(self) -> None:
        while True:
            await self._clock.sleep(self._resync_seconds)
            for obj in self.store.list():
                for on_update in self._on_update:
                    self._call(on_update, obj, obj)


class SharedInformers:
    """One informer per resource and selection, for all parts of a process."""

    def __init__(self, client: Client, clock: Clock, observer: InformerObserver | None = None) -> None:
        """``observer`` counts the objects that the informers could not decode."""
        self._client = client
        self._clock = clock
        self._observer = observer
        self._informers: dict[tuple[ResourceRef[Any], InformerSelection], Informer[Any]] = {}
        self._group: asyncio.TaskGroup | None = None

    def of(
        self, ref: ResourceRef[T], *, namespace: str = "", field_selector: str = "", label_selector: str = ""
    ) -> Informer[T]:
        """Return the informer of that resource and selection; it runs while `run` does, also if it is created later."""
        selection = InformerSelection(namespace, field_selector, label_selector)
        key = (ref, selection)
        informer = self._informers.get(key)
        if informer is None:
            informer = Informer(self._client, ref, selection, clock=self._clock, observer=self._observer)
            self._informers[key] = informer
            if self._group is not None:
                self._group.create_task(informer.run())
        return informer

    async def run(self) -> None:
        """Run all informers until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                for informer in self._informers.values():
                    group.create_task(informer.run())
                # The group lives until its owner cancels it: informers that are created later join it.
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def unlisted(self) -> list[str]:
        """Return the resources that could not be listed so far."""
        return sorted({informer.ref.resource for informer in self._informers.values() if not informer.synced})

    async def wait_synced(self) -> None:
        """Wait until every informer has its first list."""
        for informer in tuple(self._informers.values()):
            await informer.wait_synced()
