"""Release of claims: reservations are removed, devices deallocated, and claims of finished pods deleted.

A claim is deallocated when its last consumer has ended: reservation and allocation are cleared in one status update,
then the finalizer that protected the allocation is removed (docs/spec/controllers.md §2.5).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.resources import PODGROUPS, PODS, RESOURCECLAIMS
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import SCHEDULING_GROUP, is_done_with_claims

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_REMEMBERED: Final = 500


class DeletedPods(OrderedDict[str, None]):
    """The uids of pods that were seen going away: no question to the API server is needed for them."""

    def add(self, uid: str) -> None:
        """Add an entry; the oldest is dropped when there are too many."""
        self[uid] = None
        # Bounded: a forgotten UID only costs a read from the API server.
        if len(self) > _REMEMBERED:
            self.popitem(last=False)


class ClaimRelease:
    """Brings one claim into the state that its consumers justify."""

    def __init__(self, client: Client, informers: SharedInformers, deleted: DeletedPods, *, groups: bool) -> None:
        """``groups``: whether PodGroups are served and may hold reservations that end."""
        self._client = client
        self._deleted = deleted
        self._pods = informers.of(PODS)
        self._consumers: dict[tuple[str, str], Informer[Any]] = {("", "pods"): self._pods}
        """Group and resource of consumers → informer. Reservations of others are never released."""
        if groups:
            self._consumers[SCHEDULING_GROUP, "podgroups"] = informers.of(PODGROUPS)

    def may_have_work(self, claim: ResourceClaim) -> bool:
        """Return True if `sync` might do anything. If not, only an event of a consumer or of the owner can
        change that.
        """
        metadata = claim.metadata
        if metadata.deletion_timestamp is not None or not self._pods.synced:
            return True
        reserved = claim.status.reserved_for
        if not reserved:
            return self._owner_is_done(claim)
        for consumer in reserved:  # noqa: SIM110  # most claims have one consumer, for which a generator costs more
            if not self._needs(metadata.namespace, consumer):
                return True
        return False

    async def sync(self, claim: ResourceClaim) -> None:
        """Drop what is over; a refusal (mostly a conflict) means that the caller tries again."""
        namespace = claim.metadata.namespace
        reserved = claim.status.reserved_for
        valid = []
        for consumer in reserved:  # a comprehension that awaits is a coroutine of its own
            needs = self._needs(namespace, consumer)
            if needs or (needs is None and await self._needs_by_server(namespace, consumer)):
                valid.append(consumer)
        claims = self._client.resource(RESOURCECLAIMS, namespace)
        protected = FINALIZER in claim.metadata.finalizers
        leaving = protected and claim.metadata.deletion_timestamp is not None and not valid
        if len(valid) < len(reserved) or (leaving and claim.status.allocation is not None):
            # Reservations and allocation in one write: a claim that is allocated and unreserved could be reserved again
            # in between, and then lose its devices.
            status = replace(claim.status, reserved_for=tuple(valid)) if valid else self.unused(claim)
            claim = await claims.update_status(replace(claim, status=status))
            leaving = protected and not valid
        if leaving and claim.status.allocation is None:
            # Only after the deallocation was written. The other order would let a deleted claim disappear while its
            # devices count as allocated.
            finalizers = tuple([name for name in claim.metadata.finalizers if name != FINALIZER])
            claim = await claims.update(replace(claim, metadata=replace(claim.metadata, finalizers=finalizers)))
        if not valid and self._owner_is_done(claim):
            try:
                await claims.delete(claim.metadata.name)
            except StatusError as error:
                if not error.is_not_found:
                    raise

    def unused(self, claim: ResourceClaim) -> ResourceClaimStatus:
        """Return the status of a claim whose last consumer is gone: the allocation of the scheduler is removed."""
        # Without the finalizer the allocation was not made by the scheduler, but by a driver's controller (up to 1.31),
        # which deallocates itself.
        if FINALIZER not in claim.metadata.finalizers:
            return replace(claim.status, reserved_for=())
        return replace(claim.status, reserved_for=(), allocation=None, devices=())

    def _needs(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool | None:
        """Return True if the consumer still needs the claim, None if only the API server knows (yet)."""
        informer = self._consumers.get((consumer.api_group, consumer.resource))
        if informer is None:
            return True
        key = (namespace, consumer.name)
        found = informer.store.by_key.get(key)
        if found is not None:
            return consumer.uid not in self._deleted and _is_using(found, consumer)
        what = informer.store.undecodable.get(key)
        if what is not None:
            # It exists. Whether it is done with its claims is not known, so that they stay with it.
            return what.uid in ("", consumer.uid)
        return False if consumer.uid in self._deleted else None

    async def _needs_by_server(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        """Return True if the consumer, as the API server has it, needs the claim."""
        informer = self._consumers[consumer.api_group, consumer.resource]
        try:
            found = await self._client.resource(informer.ref, namespace).get(consumer.name)
        except StatusError as error:
            if error.is_not_found:
                return False
            raise
        return _is_using(found, consumer)

    def _owner_is_done(self, claim: ResourceClaim) -> bool:
        """Return True if the claim's pod no longer needs it, or if it was created for an earlier pod of the
        same name.
        """
        owner = controller_of(claim)
        if owner is None or owner.kind != "Pod" or owner.api_version != "v1":
            return False
        pod = self._pods.store.by_key.get((claim.metadata.namespace, owner.name))
        # A pod that is not there at all leaves its claims to the garbage collector.
        return pod is not None and (pod.metadata.uid != owner.uid or is_done_with_claims(pod))


def _is_using(found: KubeObject, consumer: ResourceClaimConsumerReference) -> bool:
    """Return True if what has the consumer's name is the consumer, and not done with its claims."""
    return found.metadata.uid == consumer.uid and not (isinstance(found, Pod) and is_done_with_claims(found))
