"""All claims as the scheduler knows them: the informer's, or its own newer ones.

The answer to the scheduler's own write arrives before the informer's event. Until then a reader that looked at the
informer would see a claim without its allocation; so the answer is kept here and wins until the informer has caught up
(docs/spec/scheduling.md §11).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cathedra.api.resource import ResourceClaim
from cathedra.client.informer import Informer
from cathedra.semantics.owners import same_owners

__all__ = ["ClaimCache", "OnChange"]

OnChange = Callable[[ResourceClaim | None, ResourceClaim | None], None]
"""Called with the claim as it was and as it is now; None: not there."""

Key = tuple[str, str]
_BY_OWNER = "cathedra.scheduler/owner"


class ClaimCache:
    """Claims by namespace and name, with the newest known version of each."""

    def __init__(self, informer: Informer[ResourceClaim]) -> None:
        self._store = informer.store
        self._informer = informer
        self._assumed: dict[Key, ResourceClaim] = {}
        self._listeners: list[OnChange] = []
        self._waiters: dict[Key, asyncio.Event] = {}
        self._store.add_index(_BY_OWNER, _owners, same_owners)

    def listen(self, on_change: OnChange) -> None:
        """Hear of every change from now on, in order; claims that are here already are reported first."""
        if not self._listeners:
            self._listeners.append(on_change)
            self._informer.add_handler(self._added, self._updated, self._deleted)
            return
        self._listeners.append(on_change)
        for claim in self._store.list():
            on_change(None, self._newest(claim))

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """The newest known version of a claim."""
        if self._assumed:
            assumed = self._assumed.get((namespace, name))
            if assumed is not None:
                return assumed
        return self._store.by_key.get((namespace, name))

    def problem(self, namespace: str, name: str) -> str:
        """Return why an existing claim of that name cannot be used (it cannot be decoded); "" otherwise."""
        what = self._store.undecodable.get((namespace, name))
        return "" if what is None else str(what)

    def assume(self, claim: ResourceClaim) -> None:
        """Keep the answer to a write of our own, unless the informer is ahead of it already."""
        key = _key(claim)
        known = self._store.by_key.get(key)
        if known is None or known.metadata.uid != claim.metadata.uid or _version(known) >= _version(claim):
            return
        before = self._assumed.get(key, known)
        self._assumed[key] = claim
        self._tell(before, claim)

    async def wait_changed(self, namespace: str, name: str, seconds: float) -> None:
        """Wait until the claim changes, but at most so long."""
        changed = self._waiters.setdefault((namespace, name), asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return

    def owned_by(self, uid: str) -> list[ResourceClaim]:
        """Claims that have the object of that UID among their owners."""
        return [self._newest(claim) for claim in self._store.by_index(_BY_OWNER, uid)]

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        return self._assumed.get(_key(claim), claim)

    def _added(self, claim: ResourceClaim) -> None:
        self._tell(None, claim)

    def _updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        assumed = self._assumed.get(_key(new)) if self._assumed else None
        if assumed is None:
            self._tell(old, new)
            return
        ahead = _version(new) - _version(assumed)
        if ahead < 0:
            return
        del self._assumed[_key(new)]
        if ahead:
            self._tell(assumed, new)

    def _deleted(self, claim: ResourceClaim) -> None:
        self._tell(self._assumed.pop(_key(claim), claim), None)

    def _tell(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for listener in self._listeners:
            listener(old, new)
        if not self._waiters:
            return
        claim = new or old
        if claim is not None and (waiter := self._waiters.pop(_key(claim), None)) is not None:
            waiter.set()


def _owners(claim: ResourceClaim) -> list[str]:
    return [owner.uid for owner in claim.metadata.owner_references]


def _key(claim: ResourceClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _version(claim: ResourceClaim) -> int:
    """A number that grows; one that is none is older than all others, so that the informer's state wins."""
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0
