"""Claims: the cache of all claims, and the claims of a pod.

The response to a write of the scheduler arrives before the informer's event. Until then a reader of the informer would
see a claim without its allocation. The response is therefore kept in the cache and wins until the informer has caught
up (docs/spec/scheduling.md §11).

A pod finds its claims by name, by the name that was generated for a template, or through its PodGroup. The error texts
are Kubernetes' own (docs/spec/scheduling.md §2 and §14).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from cathedra.api.core.core_v1 import Pod, PodResourceClaim
from cathedra.api.core.scheduling_v1beta1 import PodGroup
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference
from cathedra.client.informer import Informer
from cathedra.client.store import Store
from cathedra.semantics.owners import BY_OWNER, owner_uids, same_owners
from cathedra.semantics.podclaims import (
    NotOwner,
    PodClaimError,
    check_group_owner,
    check_owner,
    entry_claim,
    group_consumer,
    group_entry_claim,
    is_reserved_for,
    pod_consumer,
    pod_group_name,
    shares_claim,
)

OnChange = Callable[[ResourceClaim | None, ResourceClaim | None], None]
"""Called with the claim as it was and as it is now; None: not there."""

Key = tuple[str, str]


class ClaimCache:
    """Claims by namespace and name, with the newest known version of each."""

    def __init__(self, informer: Informer[ResourceClaim]) -> None:
        self._store = informer.store
        self._informer = informer
        self._assumed: dict[Key, ResourceClaim] = {}
        self._on_change: OnChange | None = None
        self._waiters: dict[Key, asyncio.Event] = {}
        self._store.add_index(BY_OWNER, owner_uids, same_owners)

    def listen(self, on_change: OnChange) -> None:
        """Register the callback for all changes in order; existing claims are reported first."""
        self._on_change = on_change
        self._informer.add_handler(self._added, self._updated, self._deleted)

    def get(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return the newest known version of a claim, or None."""
        # Fast path: nearly always no write is waiting for its event, and the tuple of the key need not be built.
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
        """Keep the response to a write of the scheduler, unless the informer already has a newer version."""
        key = _key(claim)
        known = self._store.by_key.get(key)
        # A response for a deleted or recreated claim, or one older than the informer's version, must not hide the
        # informer's object.
        if known is None or known.metadata.uid != claim.metadata.uid or _version(known) >= _version(claim):
            return
        # The callback gets the last version that was reported, which may be an assumed one: the ledger takes the
        # difference of both.
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

    def of_namespace(self, namespace: str) -> Iterator[ResourceClaim]:
        """Yield the newest known version of each claim of a namespace."""
        for key, claim in self._store.by_key.items():
            if key[0] == namespace:
                yield self._newest(claim)

    def owned_by(self, uid: str) -> list[ResourceClaim]:
        """Claims that have the object of that UID among their owners."""
        return [self._newest(claim) for claim in self._store.by_index(BY_OWNER, uid)]

    def _newest(self, claim: ResourceClaim) -> ResourceClaim:
        return self._assumed.get(_key(claim), claim)

    def _added(self, claim: ResourceClaim) -> None:
        self._tell(None, claim)

    def _updated(self, old: ResourceClaim, new: ResourceClaim) -> None:
        assumed = self._assumed.get(_key(new)) if self._assumed else None
        if assumed is None:
            self._tell(old, new)
            return
        # An event older than the response is an echo of an earlier write. Passing it on would take the allocation back
        # in the ledger for a moment, and the device could be given away twice.
        ahead = _version(new) - _version(assumed)
        if ahead < 0:
            return
        del self._assumed[_key(new)]
        # An equal version is the event of the assumed write itself, which was reported.
        if ahead:
            self._tell(assumed, new)

    def _deleted(self, claim: ResourceClaim) -> None:
        self._tell(self._assumed.pop(_key(claim), claim), None)

    def _tell(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if self._on_change is not None:
            self._on_change(old, new)
        if not self._waiters:
            return
        claim = new or old
        if claim is not None and (waiter := self._waiters.pop(_key(claim), None)) is not None:
            waiter.set()


def _key(claim: ResourceClaim) -> Key:
    return claim.metadata.namespace, claim.metadata.name


def _version(claim: ResourceClaim) -> int:
    """Return the resource version as a number, which grows. If it is not numeric, return 0, older than all others, so
    that the informer's state wins."""
    version = claim.metadata.resource_version
    return int(version) if version.isdigit() else 0


# --- claims of a pod


FindClaim = Callable[[str, str], ResourceClaim | None]
"""Namespace and name → claim."""
FindProblem = Callable[[str, str], str]
"""Namespace and name of a claim that is not found → the reason, or ""."""


class UnresolvedClaim(Exception):
    """Some claim of a pod is not there, not its own, or going away."""


class Resolver:
    """Resolves the claims of pods, and their consumer references."""

    def __init__(self, find: FindClaim, groups: Store[PodGroup] | None, problem: FindProblem = lambda *_: "") -> None:
        """``groups`` is None while PodGroups have no claims; ``problem`` returns the reason why a claim is not
        found."""
        self._find = find
        self._problem = problem
        self._groups = groups

    def claims(self, pod: Pod) -> list[ResourceClaim]:
        """Return the pod's claims in the order of its spec; an entry that needed no claim is left out.

        Raises:
            UnresolvedClaim: at the first entry that has no usable claim.
        """
        group = None if pod.spec.scheduling_group is None else self._group_of(pod)
        claims = []
        for entry in pod.spec.resource_claims:
            claim = self._claim(pod, entry, group)
            if claim is not None:
                claims.append(claim)
        return claims

    def lacks_claims(self, pod: Pod) -> bool:
        """Return True if a claim of the pod certainly does not exist yet; cheaper than the exception of `claims`."""
        if pod.status.resource_claim_statuses or pod.spec.scheduling_group is not None:
            return False
        for entry in pod.spec.resource_claims:
            if entry.resource_claim_template_name is not None and entry.resource_claim_name is None:
                return entry.source is None
        return False

    def entries(self, pod: Pod) -> dict[str, str]:
        """Return the UIDs of the pod's claims, by the names of their entries; an entry that needed no claim is left
        out.

        Raises:
            UnresolvedClaim: as `claims`.
        """
        group = self._group_of(pod)
        found = ((entry.name, self._claim(pod, entry, group)) for entry in pod.spec.resource_claims)
        return {name: claim.metadata.uid for name, claim in found if claim is not None}

    def is_reserved(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Return True if the pod, or its PodGroup, is among the claim's consumers."""
        return bool(claim.status.reserved_for) and is_reserved_for(claim, pod, self._group_of(pod))

    def consumer(self, pod: Pod, claim: ResourceClaim) -> ResourceClaimConsumerReference:
        """Return the consumer reference of the claim for ``pod``: the pod, or its PodGroup."""
        group = None if pod.spec.scheduling_group is None else self._group_of(pod)
        if group is not None and claim.metadata.name in _shared_names(pod, group):
            return group_consumer(group)
        return pod_consumer(pod)

    def _group_of(self, pod: Pod) -> PodGroup | None:
        if self._groups is None or pod.spec.scheduling_group is None:
            return None
        name = pod_group_name(pod)
        return self._groups.get(pod.metadata.namespace, name) if name else None

    def _claim(self, pod: Pod, entry: PodResourceClaim, group: PodGroup | None) -> ResourceClaim | None:
        namespace = pod.metadata.namespace
        shared = group if group is not None and shares_claim(entry, group) else None
        try:
            named = group_entry_claim(shared, entry) if shared is not None else entry_claim(pod, entry)
        except PodClaimError as error:
            raise UnresolvedClaim(str(error)) from error
        if named is None:
            return None
        claim = self._find(namespace, named.name)
        if claim is None:
            problem = self._problem(namespace, named.name)
            raise UnresolvedClaim(problem or f'could not find ResourceClaim "{namespace}/{named.name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise UnresolvedClaim(f'resourceclaim "{named.name}" is being deleted')
        if not named.generated:
            return claim
        try:
            if shared is not None:
                check_group_owner(claim, shared)
            else:
                check_owner(claim, pod, group.metadata.name if group is not None else "")
        except NotOwner as error:
            raise UnresolvedClaim(str(error)) from error
        return claim


def _shared_names(pod: Pod, group: PodGroup) -> Iterator[str]:
    """Yield the names of the claims that the pod has through its PodGroup, as far as they are known."""
    for entry in pod.spec.resource_claims:
        if not shares_claim(entry, group):
            continue
        try:
            named = group_entry_claim(group, entry)
        except PodClaimError:
            continue
        if named is not None:
            yield named.name
