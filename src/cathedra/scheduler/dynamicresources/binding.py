"""The plugin's part of the binding cycle: what was decided goes into the API, or is taken back.

Spec: docs/spec/scheduling.md §8 to §10 and §12.5.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

from cathedra.api.core.core_v1 import Pod
from cathedra.api.resource import AllocatedDeviceStatus, AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.struct import replace, to_dict
from cathedra.client.backoff import ExponentialBackoff
from cathedra.client.events import EventRecorder
from cathedra.client.resources import PODS
from cathedra.client.transport import PatchType
from cathedra.scheduler.dynamicresources.claims import ClaimCache, Resolver
from cathedra.scheduler.dynamicresources.cycle import ClaimCycle, GroupClaims
from cathedra.scheduler.dynamicresources.devices import FreeDevices
from cathedra.scheduler.dynamicresources.extended_resources import IN_MEMORY_NAME
from cathedra.scheduler.dynamicresources.writing import ClaimWriter, WriteFailed
from cathedra.scheduler.framework.plugin import PluginObserver
from cathedra.scheduler.framework.status import Status, error
from cathedra.semantics.conditions import is_true
from cathedra.semantics.podclaims import is_reserved_for

APPEARANCE_SECONDS = 120.0
"""So long a created claim may take to come back from the informer."""

T = TypeVar("T")

_TAKEN = "nodeAllocatableResourceClaimStatuses"

_LOG = logging.getLogger(__name__)


class ClaimBinding:
    """Writes and withdraws the decisions of cycles."""

    def __init__(
        self,
        writer: ClaimWriter,
        claims: ClaimCache,
        devices: FreeDevices,
        resolver: Resolver,
        recorder: EventRecorder,
        timeout: float,
    ) -> None:
        """``timeout``: seconds until devices' binding conditions must be true."""
        self._observer: PluginObserver | None = None
        self._timeout = timeout
        self._client = writer.client
        self._writer = writer
        self._claims = claims
        self._devices = devices
        self._resolver = resolver
        self._recorder = recorder
        self._clock = writer.clock

    def observe(self, observer: PluginObserver) -> None:
        """Call ``observer`` when a wait for binding conditions ends, and when a claim was to be created."""
        self._observer = observer

    async def write(self, cycle: ClaimCycle | None, pod: Pod) -> Status | None:
        """Write every claim that is not reserved for the pod yet, and then the pod's status; None: nothing to write."""
        if cycle is None:
            return None
        try:
            for index, claim in enumerate(cycle.claims):
                # An earlier attempt may have written this claim before it failed. Writing it again would be refused for
                # a changed version.
                if self._resolver.is_reserved(pod, claim):
                    continue
                allocation = cycle.chosen.get(claim.metadata.uid)
                if allocation is None or cycle.group is None:
                    consumer = self._resolver.consumer(pod, claim)
                    cycle.claims[index] = await self._writer.bind(claim, allocation, consumer)
                else:
                    cycle.claims[index] = await self._bind_in_group(cycle.group, claim, allocation, pod)
            if cycle.special is not None:
                await self._write_special(cycle, cycle.special, pod)
            if pod.status.node_allocatable_resource_claim_statuses:
                await self._write_taken(cycle, pod)
        except ConnectionError as lost:
            # The connection was lost after the request may have been executed. `withdraw` must read the claim before it
            # frees the devices.
            cycle.uncertain = True
            return error(str(lost))
        except (WriteFailed, StatusError) as failure:
            return error(str(failure))
        # The claims are written and in the cache, so the in-flight entries can go. The other order would leave the
        # devices free for a moment.
        for claim in cycle.all_claims:
            self._devices.settle(claim, pod.metadata.uid)
        return None

    async def _bind_in_group(
        self, group: GroupClaims, claim: ResourceClaim, allocation: AllocationResult, pod: Pod
    ) -> ResourceClaim:
        uid = claim.metadata.uid
        # Pods of one group bind concurrently. Without the lock two of them could write the allocation of their common
        # claim, and the second write would be refused.
        async with group.writing[uid]:
            consumer = self._resolver.consumer(pod, claim)
            newest = self._claims.get(claim.metadata.namespace, claim.metadata.name)
            if newest is None or newest.metadata.uid != uid or newest.status.allocation is None:
                return await self._writer.bind(claim, allocation, consumer)
            # Another pod of the group, which was tried together with this one, has written the allocation.
            reserved = self._resolver.is_reserved(pod, newest)
            return newest if reserved else await self._writer.bind(newest, None, consumer)

    async def withdraw(self, cycle: ClaimCycle, pod: Pod) -> None:
        """Release everything that the cycle holds; idempotent. A PodGroup keeps its reservations.

        Responses of the server stay in the claim cache until the informer has caught up. If a response was lost, the
        server is read first: a device that may have been allocated is not free.
        """
        try:
            if cycle.uncertain:
                await self._find_out(cycle)
        finally:
            for claim in cycle.claims:
                self._devices.settle(claim, pod.metadata.uid)
            try:
                await self._release_claims(cycle, pod)
            finally:
                await self._withdraw_special(cycle, pod)

    async def _release_claims(self, cycle: ClaimCycle, pod: Pod) -> None:
        for index, claim in enumerate(tuple(cycle.claims)):
            if claim.status.allocation is not None and is_reserved_for(claim, pod, None):
                cycle.claims[index] = await self._release(claim, pod)

    async def _withdraw_special(self, cycle: ClaimCycle, pod: Pod) -> None:
        """Delete the claim for extended resources, and the node resources in the pod's status."""
        try:
            if cycle.special is not None:
                # Cleared first: a cancellation in the middle may call this method again, and the claim must not be
                # deleted twice.
                special, cycle.special = cycle.special, None
                try:
                    # The devices are free again only when the claim is gone, for its allocation may be written.
                    if cycle.special_created:
                        await self._delete(special)
                finally:
                    self._devices.settle(special, pod.metadata.uid)
        finally:
            if cycle.counted:
                cycle.counted = False
                await self._clear_taken(pod)

    async def _find_out(self, cycle: ClaimCycle) -> None:
        """Read the results of writes whose response was lost, and retry until the server responds."""
        for index, claim in enumerate(cycle.claims):
            try:
                latest = await self._insist(partial(self._writer.latest, claim))
            except StatusError as refusal:
                # Then the informer has the last word.
                _LOG.warning("what became of claim %s is not known: %s", claim.metadata.name, refusal)
                continue
            if latest is not None and latest.metadata.uid == claim.metadata.uid:
                cycle.claims[index] = latest
                self._claims.assume(latest)
        cycle.uncertain = False

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request until the server responds."""
        # There is no limit of attempts: as long as the result is unknown, the devices count as taken, which is the safe
        # side.
        backoff = ExponentialBackoff(self._clock, base=0.1, factor=2.0, maximum=30.0, reset_after=120.0)
        while True:
            try:
                return await ask()
            except ConnectionError:
                await self._clock.sleep(backoff.delay())

    async def wait_for_conditions(self, cycle: ClaimCycle, pod: Pod, node: str) -> Status | None:
        """Wait until every device with binding conditions is ready."""
        waiting = [claim for claim in cycle.all_claims if waits(claim)]
        if not waiting:
            return None
        message = f"waiting for binding conditions for device on node {node}"
        self._recorder.record(pod, "Normal", "BindingConditionsPending", message, action="Scheduling")
        began = self._clock.monotonic()
        try:
            # The timeout is that of the loop's clock; `progress` also compares the allocation's timestamp, which
            # survives a restart of the scheduler.
            async with asyncio.timeout(self._timeout):
                for claim in waiting:
                    await self._ready(claim)
        except BindingFailed as failure:
            outcome = "timeout" if "timeout" in str(failure) else "failed"
            self._tell_waits(pod, waiting, outcome, self._clock.monotonic() - began)
            return error(str(failure))
        except TimeoutError:
            self._tell_waits(pod, waiting, "timeout", self._clock.monotonic() - began)
            return error("device binding timeout: context deadline exceeded")
        self._tell_waits(pod, waiting, "success", self._clock.monotonic() - began)
        return None

    def _tell_waits(self, pod: Pod, waiting: Sequence[ResourceClaim], outcome: str, seconds: float) -> None:
        if self._observer is None:
            return
        drivers = {
            result.driver
            for claim in waiting
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
            if result.binding_conditions
        }
        for driver in sorted(drivers):
            self._observer.waited_for_devices(pod.spec.scheduler_name, driver, outcome, seconds)

    async def _ready(self, claim: ResourceClaim) -> None:
        """Wait for one claim; a change is seen at once, and time itself every few seconds."""
        namespace, name = claim.metadata.namespace, claim.metadata.name
        while True:
            newest = self._claims.get(namespace, name)
            if newest is None or newest.status.allocation is None:
                raise BindingFailed(f"claim {namespace}/{name} got deallocated elsewhere in the meantime")
            if progress(newest, self._clock.now(), self._timeout) is Progress.READY:
                return
            await self._claims.wait_changed(namespace, name, POLL_SECONDS)

    async def _write_special(self, cycle: ClaimCycle, special: ResourceClaim, pod: Pod) -> None:
        """Create and allocate the claim for extended resources, and record in the pod's status which container
        uses it."""
        if cycle.demand is None:
            return
        allocation = cycle.chosen[special.metadata.uid]
        blank = replace(special.metadata, name="", uid="")
        outcome = "failure"
        try:
            created = await self._writer.create(replace(special, metadata=blank))
            outcome = "success"
        finally:
            if self._observer is not None:
                self._observer.claim_created(outcome)
        # From here on the claim exists. If anything below fails, `withdraw` deletes it.
        cycle.special, cycle.special_created = created, True
        # The claim now has a UID. Its devices are held under the new UID before the temporary one is released, so that
        # they are never free in between.
        self._devices.take(created, allocation, pod.metadata.uid)
        self._devices.settle(special, pod.metadata.uid)
        # The claim's event must arrive before its allocation is assumed, because the cache ignores responses for claims
        # that it does not have.
        await self._appears(created)
        written = await self._writer.bind(created, allocation, self._resolver.consumer(pod, created))
        cycle.special = written
        mappings = cycle.demand.requests(cycle.special_resources).mappings
        if not mappings:
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise WriteFailed(f"nil or empty request mappings, no update of pod {where} ExtendedResourceClaimStatus")
        status = {
            "resourceClaimName": written.metadata.name,
            "requestMappings": [to_dict(mapping) for mapping in mappings],
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"extendedResourceClaimStatus": status}}
        pods = self._client.resource(PODS, pod.metadata.namespace)
        try:
            await pods.patch(pod.metadata.name, PatchType.STRATEGIC, patch, "status")
        except StatusError as refusal:
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise WriteFailed(f"update pod {where} ExtendedResourceClaimStatus: {refusal}") from refusal

    async def _write_taken(self, cycle: ClaimCycle, pod: Pod) -> None:
        """Write to the pod's status what its devices take of the node, for the node agent."""
        name = cycle.special.metadata.name if cycle.special is not None else ""
        statuses = [
            to_dict(replace(one, resource_claim_name=name) if one.resource_claim_name == IN_MEMORY_NAME else one)
            for one in pod.status.node_allocatable_resource_claim_statuses
        ]
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {_TAKEN: statuses}}
        pods = self._client.resource(PODS, pod.metadata.namespace)
        # Set before the request: if its response is lost, the status may have been written and must be cleared.
        cycle.counted = True
        try:
            await pods.patch(pod.metadata.name, PatchType.STRATEGIC, patch, "status")
        except StatusError as refusal:
            where = f"{pod.metadata.namespace}/{pod.metadata.name}"
            raise WriteFailed(f"updating pod {where} NodeAllocatableResourceClaimStatuses: {refusal}") from refusal

    async def _clear_taken(self, pod: Pod) -> None:
        # An explicit empty list; a client that does not know the field would omit it.
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {_TAKEN: []}}
        pods = self._client.resource(PODS, pod.metadata.namespace)
        try:
            await pods.patch(pod.metadata.name, PatchType.MERGE, patch, "status")
        except (StatusError, ConnectionError) as failure:
            _LOG.warning("%s: %s not cleared: %s", pod.metadata.name, _TAKEN, failure)

    async def _appears(self, claim: ResourceClaim) -> None:
        """Wait until the claim cache has the claim, or its listeners have failed."""
        namespace, name = claim.metadata.namespace, claim.metadata.name
        deadline = self._clock.monotonic() + APPEARANCE_SECONDS
        while self._claims.get(namespace, name) is None:
            left = deadline - self._clock.monotonic()
            if left <= 0:
                _LOG.error("claim %s/%s for extended resources has not appeared", namespace, name)
                return
            await self._claims.wait_changed(namespace, name, left)

    async def _release(self, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        try:
            return await self._writer.release(claim, pod)
        except (StatusError, ConnectionError) as failure:
            # The resource claim controller removes the reservation of a pod that is gone or done.
            _LOG.warning("%s: reservation of %s not removed: %s", pod.metadata.name, claim.metadata.name, failure)
            return claim

    async def _delete(self, claim: ResourceClaim) -> None:
        try:
            await self._insist(partial(self._writer.delete, claim))
        except StatusError as failure:
            # PostFilter of the next cycle finds the claim and deletes it.
            _LOG.warning("claim %s for extended resources not deleted: %s", claim.metadata.name, failure)


# --- binding conditions


POLL_SECONDS = 5.0


class BindingFailed(Exception):
    """A device reported a failure, or the time is over."""


class Progress(enum.Enum):
    """Progress of the devices of a claim."""

    READY = "ready"
    WAITING = "waiting"


def waits(claim: ResourceClaim) -> bool:
    """Return True if any allocated device has binding conditions."""
    allocation = claim.status.allocation
    if allocation is not None:
        for result in allocation.devices.results:
            if result.binding_conditions:
                return True
    return False


def progress(claim: ResourceClaim, now: float, timeout: float) -> Progress:
    """Return True if every device is ready.

    Raises:
        BindingFailed: a failure condition is true, or the claim was allocated too long ago.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return Progress.READY
    # All devices are read, because a failure counts even after one that is not ready.
    ready = [_is_ready(claim, result) for result in allocation.devices.results if result.binding_conditions]
    if all(ready):
        return Progress.READY
    since = allocation.allocation_timestamp
    if since is not None and since.timestamp + timeout < now:
        raise BindingFailed(f"device binding timeout: claim={claim.metadata.name}")
    return Progress.WAITING


def _is_ready(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> bool:
    status = _status_of(claim.status.devices, result)
    if status is None:
        return False
    conditions = status.conditions or ()
    for condition in conditions:
        if condition.type in result.binding_failure_conditions and condition.status == "True":
            raise BindingFailed(
                f"device binding failed: claim={claim.metadata.name}, reason={condition.reason}, "
                f'message="{condition.message}"'
            )
    return all(is_true(conditions, wanted) for wanted in result.binding_conditions)


def _status_of(
    devices: Iterable[AllocatedDeviceStatus], result: DeviceRequestAllocationResult
) -> AllocatedDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device)
    return next((status for status in devices if (status.driver, status.pool, status.device) == wanted), None)
