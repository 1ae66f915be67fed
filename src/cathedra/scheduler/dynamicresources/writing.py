"""Writing a decision into claims: finalizer, allocation, reservation; and taking a reservation back.

Allocation and reservation go into one status update, so that no claim is ever allocated by the scheduler without
a consumer. Another client may write in between: a conflict is tried again on a fresh copy, and a fresh copy
that contradicts the decision ends the attempt (docs/spec/scheduling.md §8 and §9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import AllocationResult, ResourceClaim, ResourceClaimConsumerReference
from cathedra.api.status import StatusError
from cathedra.api.struct import Time, replace
from cathedra.client.client import Client, ResourceClient
from cathedra.client.objects import key_of, with_metadata
from cathedra.client.resources import PODS, RESOURCECLAIMS
from cathedra.client.transport import PatchType
from cathedra.clock import Clock

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
PAUSES_SECONDS: Final = (0.01, 0.02, 0.04, 0.08)
"""Pauses of kube-scheduler after a conflict, before each further attempt to write a claim."""


class WriteFailed(Exception):
    """A claim could not be written, or the API no longer agrees with what was decided."""


class ClaimWriter:
    """Writes claims for the scheduler."""

    def __init__(self, client: Client, clock: Clock, assume: Callable[[ResourceClaim], None], *, stamps: bool) -> None:
        """``assume`` is called with each claim that was bound or released, as the server has it now. ``stamps``:
        allocations carry the time of writing, from which binding conditions time out."""
        self.client = client
        self.clock = clock
        self._assume = assume
        self._stamps = stamps

    async def bind(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> ResourceClaim:
        """Reserve ``claim`` for ``consumer``, storing ``allocation`` if it is given; answers the claim as written.

        Raises:
            WriteFailed: the claim was deleted, allocated or deallocated meanwhile, or the server refused.
        """
        claims = self._of(claim)
        pauses = iter(PAUSES_SECONDS)
        while True:
            _check(claim, allocation)
            what = "add finalizer to"
            try:
                if allocation is not None and FINALIZER not in claim.metadata.finalizers:
                    protected = replace(claim.metadata, finalizers=(*claim.metadata.finalizers, FINALIZER))
                    claim = await claims.update(replace(claim, metadata=protected))
                # Otherwise another pod of the same PodGroup was faster.
                if allocation is not None or consumer not in claim.status.reserved_for:
                    what = "add allocation and reservation to" if allocation else "add reservation to"
                    claim = await claims.update_status(self._reserved(claim, allocation, consumer))
                self._assume(claim)
                return claim
            except StatusError as error:
                # A conflict is usual, because the claim's controller writes to the same object.
                pause = next(pauses, None) if error.is_conflict else None
                if pause is None:
                    raise WriteFailed(f"{what} claim {key_of(claim)}: {error}") from error
            await self.clock.sleep(pause)
            claim = await _refreshed(claims, claim)

    async def release(self, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        """Take the pod out of the claim's consumers; the allocation stays.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        patch = {
            "metadata": {"uid": claim.metadata.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
        }
        released = await self._of(claim).patch(claim.metadata.name, PatchType.STRATEGIC, patch, "status")
        self._assume(released)
        return released

    async def has_node(self, pod: Pod) -> bool:
        """Return True if the pod has a node by now. Another scheduler that works at the same time, or a former leader,
        may have placed it, and this one not have seen that yet.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        try:
            live = await self.client.resource(PODS, pod.metadata.namespace).get(pod.metadata.name)
        except StatusError as error:
            if error.is_not_found:
                return False
            raise
        return live.metadata.uid == pod.metadata.uid and bool(live.spec.node_name)

    async def deallocate(self, claim: ResourceClaim) -> ResourceClaim:
        """Clear allocation, consumers and device status of a claim without consumers.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        status = replace(claim.status, allocation=None, reserved_for=(), devices=())
        return await self._of(claim).update_status(replace(claim, status=status))

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim of the scheduler's own making, finalizer first; one that is gone is fine.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        claims = self._of(claim)
        try:
            # The API server keeps a deleted claim with a finalizer until it is removed, and no other component would
            # remove the scheduler's.
            if FINALIZER in claim.metadata.finalizers:
                finalizers = tuple(f for f in claim.metadata.finalizers if f != FINALIZER)
                claim = await claims.update(with_metadata(claim, finalizers=finalizers))
            # With the UID: a claim of the same name that was created meanwhile is not deleted.
            await claims.delete(claim.metadata.name, uid=claim.metadata.uid)
        except StatusError as error:
            if not error.is_not_found:
                raise

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim of the scheduler's own making.

        Raises:
            WriteFailed, ConnectionError: the server refused or cannot be reached.
        """
        try:
            return await self._of(claim).create(claim)
        except StatusError as error:
            raise WriteFailed(f"create claim for extended resources {key_of(claim)}: {error}") from error

    async def latest(self, claim: ResourceClaim) -> ResourceClaim | None:
        """Return the claim as the server has it; None if it is gone.

        Raises:
            StatusError, ConnectionError: the server refused or cannot be reached.
        """
        try:
            return await self._of(claim).get(claim.metadata.name)
        except StatusError as error:
            if error.is_not_found:
                return None
            raise

    def _reserved(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ResourceClaimConsumerReference
    ) -> ResourceClaim:
        """Return the claim with its allocation, and with ``consumer`` among its consumers."""
        stored = allocation or claim.status.allocation
        if self._stamps:
            if stored is None:
                raise WriteFailed(f"claim {key_of(claim)} got deallocated elsewhere in the meantime")
            if stored.allocation_timestamp is None:
                stored = replace(stored, allocation_timestamp=Time(self.clock.now()))
        status = replace(claim.status, allocation=stored, reserved_for=(*claim.status.reserved_for, consumer))
        return replace(claim, status=status)

    def _of(self, claim: ResourceClaim) -> ResourceClient[ResourceClaim]:
        return self.client.resource(RESOURCECLAIMS, claim.metadata.namespace)


async def _refreshed(claims: ResourceClient[ResourceClaim], claim: ResourceClaim) -> ResourceClaim:
    try:
        return await claims.get(claim.metadata.name)
    except StatusError as error:
        raise WriteFailed(f"get updated claim {key_of(claim)} after conflict: {error}") from error


def _check(claim: ResourceClaim, allocation: AllocationResult | None) -> None:
    """Raise if the claim no longer is as it was when it was decided to store ``allocation`` in it."""
    if claim.metadata.deletion_timestamp is not None:
        raise WriteFailed(f"claim {key_of(claim)} got deleted in the meantime")
    # Another scheduler was faster. Overwriting its allocation would take devices away from a pod that may run.
    if allocation is not None and claim.status.allocation is not None:
        raise WriteFailed(f"claim {key_of(claim)} got allocated elsewhere in the meantime")
