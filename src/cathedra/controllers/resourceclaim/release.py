"""Takes reservations back, frees devices and deletes claims that will not be used again.

A claim leaves its devices when the last consumer is gone: reservation and allocation are cleared in one status update,
then the finalizer that protected the allocation is removed (docs/spec/controllers.md §2.5).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.informer import Informer, SharedInformers
from cathedra.client.objects import with_metadata
from cathedra.client.resources import PODGROUPS, PODS, RESOURCECLAIMS
from cathedra.client.transport import ResourceRef
from cathedra.semantics.owners import controller_of
from cathedra.semantics.podclaims import SCHEDULING_GROUP, is_done_with_claims

__all__ = ["FINALIZER", "ClaimRelease", "DeletedPods"]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_REMEMBERED: Final = 500

T = TypeVar("T", bound=KubeObject)


class DeletedPods:
    """The uids of pods that were seen going away: no question to the API server is needed for them."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def add(self, uid: str) -> None:
        """Remember; the oldest is forgotten when there are too many."""
        self._uids[uid] = None
        if len(self._uids) > _REMEMBERED:
            self._uids.popitem(last=False)

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids


class ClaimRelease:
    """Brings one claim into the state that its consumers justify."""

    def __init__(self, client: Client, informers: SharedInformers, deleted: DeletedPods, *, groups: bool) -> None:
        """``groups``: whether PodGroups are served and may hold reservations that end."""
        self._client = client
        self._deleted = deleted
        self._pods = informers.of(PODS)
        self._groups = informers.of(PODGROUPS) if groups else None

    async def sync(self, claim: ResourceClaim) -> None:
        """Drop what is over; a refusal (mostly a conflict) means that the caller tries again."""
        namespace = claim.metadata.namespace
        reserved = claim.status.reserved_for
        valid = tuple([consumer for consumer in reserved if await self._still_needs(namespace, consumer)])
        claims = self._client.resource(RESOURCECLAIMS, namespace)
        protected = FINALIZER in claim.metadata.finalizers
        leaving = protected and claim.metadata.deletion_timestamp is not None and not valid
        if len(valid) < len(reserved) or (leaving and claim.status.allocation is not None):
            status = replace(claim.status, reserved_for=valid)
            if not valid:
                status = self.unused(claim, status)
            claim = await claims.update_status(replace(claim, status=status))
            leaving = protected and not valid
        if leaving and claim.status.allocation is None:
            finalizers = tuple(name for name in claim.metadata.finalizers if name != FINALIZER)
            claim = await claims.update(with_metadata(claim, finalizers=finalizers))
        if not valid:
            await self._delete_if_owner_is_done(claim)

    def unused(self, claim: ResourceClaim, status: ResourceClaimStatus) -> ResourceClaimStatus:
        """The status of a claim whose last consumer is gone: what the scheduler allocated is free."""
        if FINALIZER not in claim.metadata.finalizers:
            return status
        return replace(status, allocation=None, devices=())

    async def _still_needs(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.api_group == "" and consumer.resource == "pods":
            return await self._pod_needs(namespace, consumer)
        is_group = consumer.api_group == SCHEDULING_GROUP and consumer.resource == "podgroups"
        if is_group and self._groups is not None:
            return await self._exists(self._groups, PODGROUPS, namespace, consumer) is not None
        return True

    async def _pod_needs(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        if consumer.uid in self._deleted:
            return False
        pod = await self._exists(self._pods, PODS, namespace, consumer)
        return pod is not None and not is_done_with_claims(pod)

    async def _exists(
        self, informer: Informer[T], ref: ResourceRef[T], namespace: str, consumer: ResourceClaimConsumerReference
    ) -> T | None:
        """The consumer itself, asked from the API server if the informer does not know it (yet)."""
        found = informer.store.get(namespace, consumer.name)
        if found is None:
            try:
                found = await self._client.resource(ref, namespace).get(consumer.name)
            except StatusError as error:
                if error.is_not_found:
                    return None
                raise
        return found if found.metadata.uid == consumer.uid else None

    async def _delete_if_owner_is_done(self, claim: ResourceClaim) -> None:
        owner = controller_of(claim)
        if owner is None or (owner.kind, owner.api_version) != ("Pod", "v1"):
            return
        pod = self._pods.store.get(claim.metadata.namespace, owner.name)
        # A pod that is not there at all leaves its claims to the garbage collector.
        if pod is None or (pod.metadata.uid == owner.uid and not is_done_with_claims(pod)):
            return
        try:
            await self._client.resource(RESOURCECLAIMS, claim.metadata.namespace).delete(claim.metadata.name)
        except StatusError as error:
            if not error.is_not_found:
                raise
