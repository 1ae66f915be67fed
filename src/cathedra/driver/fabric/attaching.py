"""Attaches and detaches devices as allocations require, and records it in the claims.

It is level-triggered: allocations are compared with the claims' records, so it does not matter what happened while no
controller ran. The order prevents the loss of a device after any crash: the record is written before a device is
attached and removed after it is detached, and a device in one claim's record is attached for no other. The scheduler
may allocate a device again as soon as its last claim is deallocated; the new claim waits here.

The record is an annotation of the claim, with a finalizer while there is any. A controller has no disk, and the status
forgets the devices when the claim is deallocated. The record therefore is written before the device is attached, in one
write with the finalizer that keeps the claim until the device is detached. It contains the claim's UID, so that it is
void in a copy of the claim.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any, Final

from cathedra.api.resource import AllocationResult, ResourceClaim
from cathedra.api.status import StatusError
from cathedra.api.undecodable import Undecodable, rest_of
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.objects import ObjectKey, key_of, with_metadata
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.client.workqueue import RetryLater, WorkQueue, run_workers
from cathedra.driver.claim import Claim, ClaimedDevice, Ref
from cathedra.driver.driver import resolve
from cathedra.driver.errors import DriverError, Retry
from cathedra.driver.fabric.conditions import (
    BindingConditionTypes,
    BindingOutcome,
    DeviceKey,
    device_key,
    is_decided,
    own_results,
    status_entries,
)
from cathedra.driver.fabric.driver import Attachment, FabricDriver
from cathedra.driver.metrics import FabricObserver
from cathedra.driver.preparing.status import write_device_status
from cathedra.driver.publishing.controller import ErrorHandler

WORKERS: Final = 16
"""Claims at a time: attaching may take minutes, and is waited for."""
SHORTEST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 60.0
"""Seconds before what failed is tried again; the scheduler waits ten minutes."""

LONGEST_MESSAGE: Final = 1024
"""Characters of an error that the status shows."""
_LOOKED_AT: Final = BindingOutcome("AdminAccess", "Administrators use the device where it is", ready=True)
_RECORDED: Final = "recorded"
_ALLOCATED: Final = "allocated"


def node_of(allocation: AllocationResult) -> str:
    """Return the one node that the allocation is for; "" if it is for several."""
    terms = () if allocation.node_selector is None else allocation.node_selector.node_selector_terms
    names = {
        field.values
        for term in terms
        for field in term.match_fields
        if (field.key, field.operator) == ("metadata.name", "In")
    }
    return next(iter(names))[0] if len(terms) == 1 and len(names) == 1 else ""


def allocated_attachments(claim: ResourceClaim, driver: str) -> frozenset[Attachment]:
    """Return the attachments that the allocation requires. Devices with admin access are not attached."""
    allocation = claim.status.allocation
    if allocation is None:
        return frozenset()
    node = node_of(allocation)
    return frozenset(
        Attachment(one.pool, one.device, node, one.share_id)
        for one in own_results(claim, driver)
        if not one.admin_access
    )


class AttachingController:
    """The claims of one fabric driver: `run` until cancelled, by one instance at a time."""

    def __init__(
        self, client: Client, driver: FabricDriver, *, observer: FabricObserver, on_error: ErrorHandler
    ) -> None:
        """``on_error`` is called with errors that are retried."""
        self._client = client.as_manager(f"{driver.name}-fabric")
        self._driver = driver
        self._observer = observer
        self._on_error = on_error
        self._types = BindingConditionTypes((driver.attached_condition,), (driver.failed_condition,))
        self._attempts: dict[tuple[str, Attachment], asyncio.Task[BindingOutcome]] = {}
        self._written: dict[ObjectKey, str] = {}
        """Last written version of each claim: older ones are ignored."""
        self._queue: WorkQueue[ObjectKey] = WorkQueue(client.clock, base_delay=SHORTEST_PAUSE, max_delay=LONGEST_PAUSE)
        self._claims: Informer[ResourceClaim] = Informer(client, RESOURCECLAIMS, clock=client.clock)
        self._claims.store.add_index(_RECORDED, lambda claim: map(str, recorded(claim, driver.name)))
        self._claims.store.add_index(_ALLOCATED, lambda claim: map(str, allocated_attachments(claim, driver.name)))
        self._claims.add_handler(
            self._look,
            self._changed,
            self._vanished,
            # A claim that cannot be decoded has not gone: what is attached for it stays.
            on_undecodable=lambda _: None,
            on_resolved=self._resolved,
        )

    async def run(self) -> None:
        """Work until cancelled; the next leader repeats unfinished attachments."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._claims.run())
            # A device recorded for a claim that is not listed yet would be attached a second time.
            await self._claims.wait_synced()
            group.create_task(run_workers(self._queue, self._sync, workers=WORKERS))

    def _look(self, claim: ResourceClaim) -> None:
        if own_results(claim, self._driver.name) or recorded(claim, self._driver.name):
            self._queue.add(key_of(claim))

    def _changed(self, old: ResourceClaim, new: ResourceClaim) -> None:
        wanted = allocated_attachments(new, self._driver.name)
        for (uid, attachment), attempt in self._attempts.items():
            if uid == new.metadata.uid and attachment not in wanted:
                # The device may be allocated to another claim already, which waits until this attempt has ended and
                # detached.
                attempt.cancel()
        self._look(new)
        self._look_at_those_who_wait(recorded(old, self._driver.name) - recorded(new, self._driver.name))

    def _vanished(self, claim: ResourceClaim) -> None:
        self._written.pop(key_of(claim), None)
        for (uid, _), attempt in self._attempts.items():
            if uid == claim.metadata.uid:
                attempt.cancel()
        self._look_at_those_who_wait(recorded(claim, self._driver.name))

    def _resolved(self, what: Undecodable, claim: ResourceClaim | None) -> None:
        """Handle a claim that could not be decoded: it can be now and is reported next, or it has gone (None)."""
        rest, _ = rest_of(ResourceClaim, what)
        if claim is None and rest is not None:
            self._vanished(rest)

    def _look_at_those_who_wait(self, detached: Iterable[Attachment]) -> None:
        for attachment in detached:
            for claim in self._claims.store.by_index(_ALLOCATED, str(attachment)):
                self._look(claim)

    async def _sync(self, key: ObjectKey) -> float | None:
        claim = self._claims.store.get(*key)
        if claim is None or not self._claims.has_reached(self._written.get(key, "")):
            return None  # deleted; or the event of the last write will queue it again
        try:
            # Detached first: the device may be what another claim, or this one on another node, waits for.
            claim = await self._detach_surplus(claim)
            await self._attach_missing(claim)
        except StatusError as error:
            if error.is_conflict or error.is_not_found:
                # The claim has changed, and its event queues it again; or it was deleted.
                raise RetryLater(str(error)) from error
            self._on_error(error, f"writing claim {key}")
            raise
        except ConnectionError as error:
            self._on_error(error, f"writing claim {key}")
            raise
        return None

    # --- detaching

    async def _detach_surplus(self, claim: ResourceClaim) -> ResourceClaim:
        """Detach devices that the claim no longer has. Return the present claim."""
        record = recorded(claim, self._driver.name)
        surplus = record - allocated_attachments(claim, self._driver.name)
        if not surplus:
            return claim
        order = sorted(surplus, key=str)
        outcomes = await asyncio.gather(*(self._detach(claim, one) for one in order), return_exceptions=True)
        faults = [one for one in outcomes if isinstance(one, BaseException)]
        done = {one for one, outcome in zip(order, outcomes, strict=True) if not isinstance(outcome, BaseException)}
        # Removed from the record only after the detachment; partial success is kept, so that it is not repeated.
        if done:
            claim = await self._write_record(claim, record - done)
        if faults:
            raise RetryLater(str(faults[0])) from faults[0]
        return claim

    async def _detach(self, claim: ResourceClaim, attachment: Attachment) -> None:
        if self._is_another_claims(claim, attachment):
            return  # a record that was not written here: the device stays with the claim that has it
        began = self._client.clock.monotonic()
        try:
            await resolve(self._driver.detach(_ref(claim), attachment))
        except Exception as error:
            self._observer.detached("error", self._client.clock.monotonic() - began)
            if not isinstance(error, Retry):
                self._on_error(error, f"detaching {attachment} from {attachment.node} for claim {_ref(claim)}")
            raise
        self._observer.detached("success", self._client.clock.monotonic() - began)

    def _is_another_claims(self, claim: ResourceClaim, attachment: Attachment) -> bool:
        return any(
            attachment.excludes(one)
            for other in self._others(claim, _RECORDED, attachment)
            for one in recorded(other, self._driver.name) & allocated_attachments(other, self._driver.name)
        )

    def _others(self, claim: ResourceClaim, index: str, attachment: Attachment) -> list[ResourceClaim]:
        """Other claims that may have the attachment; among them all that cannot be decoded, as far as they can be."""
        found = list(self._claims.store.by_index(index, str(attachment)))
        for what in self._claims.store.undecodable.values():
            rest, _ = rest_of(ResourceClaim, what)
            if rest is not None:
                found.append(rest)
        return [one for one in found if one.metadata.uid != claim.metadata.uid]

    # --- attaching

    async def _attach_missing(self, claim: ResourceClaim) -> None:
        view = self._view(claim)
        if isinstance(view, DriverError):
            await self._report(claim, {key: _failed(view) for key in self._undecided(claim)})
            return
        claim, waiting = await self._record_missing(claim)
        attempts = await self._attempt_all(claim, view)
        await self._report(claim, {**waiting, **attempts})
        again = [one for one in attempts.values() if not one.ready and not one.failed]
        if again:
            raise RetryLater(again[0].message)

    async def _record_missing(self, claim: ResourceClaim) -> tuple[ResourceClaim, dict[DeviceKey, BindingOutcome]]:
        """Record missing attachments. Return the updated claim, and the devices that must wait."""
        record = recorded(claim, self._driver.name)
        missing = allocated_attachments(claim, self._driver.name) - record
        if not missing or claim.metadata.deletion_timestamp is not None:
            return claim, {}
        holders = {one: self._holder(claim, one) for one in missing}
        free = {one for one, holder in holders.items() if holder is None}
        if free:
            # Recorded before it is attached: after a crash the record shows what has to be detached.
            claim = await self._write_record(claim, record | free)
        return claim, {_key(one): holder for one, holder in holders.items() if holder is not None}

    def _holder(self, claim: ResourceClaim, attachment: Attachment) -> BindingOutcome | None:
        """Return the reason why the device cannot be attached yet: it is still recorded for another claim."""
        for other in self._others(claim, _RECORDED, attachment):
            for one in recorded(other, self._driver.name):
                if attachment.excludes(one):
                    where = f" to {one.node}" if one.node else ""
                    return BindingOutcome("DeviceInUse", f"still attached{where} for claim {_ref(other)}")
        return None

    def _view(self, claim: ResourceClaim) -> Claim | DriverError:
        try:
            return Claim.of(claim, self._driver.name, self._driver.configs)
        except DriverError as error:
            return error

    def _undecided(self, claim: ResourceClaim) -> list[DeviceKey]:
        results = own_results(claim, self._driver.name)
        return [device_key(one) for one in results if not is_decided(claim, one, self._types)]

    async def _attempt_all(self, claim: ResourceClaim, view: Claim) -> dict[DeviceKey, BindingOutcome]:
        """Attach every recorded device that is neither ready nor failed. Return the outcomes.

        A cancelled attempt has no outcome: the device is no longer wanted, and is detached at the next reconciliation.
        """
        undecided = set(self._undecided(claim))
        devices = {(one.pool, one.device, one.share_id): one for one in view.allocations if not one.admin}
        seen = [(one.pool, one.device, one.share_id) for one in view.allocations if one.admin]
        record = recorded(claim, self._driver.name) & allocated_attachments(claim, self._driver.name)
        attempts: dict[Attachment, asyncio.Task[BindingOutcome]] = {}
        for one in sorted(record, key=str):
            if _key(one) in undecided:
                attempts[one] = asyncio.ensure_future(self._attach(view, devices[_key(one)], one))
                self._attempts[view.uid, one] = attempts[one]
        try:
            ended = await asyncio.gather(*attempts.values(), return_exceptions=True)
        finally:
            for one in attempts:
                del self._attempts[view.uid, one]
        made = zip(attempts, ended, strict=True)
        outcomes = {_key(one): outcome for one, outcome in made if isinstance(outcome, BindingOutcome)}
        return {**{key: _LOOKED_AT for key in seen if key in undecided}, **outcomes}

    async def _attach(self, claim: Claim, device: ClaimedDevice, attachment: Attachment) -> BindingOutcome:
        began = self._client.clock.monotonic()
        try:
            await resolve(self._driver.attach(claim, device, attachment.node))
        except Retry as error:
            self._observer.attached("retry", self._client.clock.monotonic() - began)
            return BindingOutcome("Attaching", str(error)[:LONGEST_MESSAGE] or "Will be tried again")
        except Exception as error:
            self._observer.attached("error", self._client.clock.monotonic() - began)
            where = f"attaching {attachment} to {attachment.node} for claim {claim.ref}"
            self._on_error(error, where)
            return _failed(error)
        self._observer.attached("success", self._client.clock.monotonic() - began)
        where = f" to {attachment.node}" if attachment.node else ""
        return BindingOutcome("Attached", f"Device is attached{where}", ready=True)

    # --- writing

    async def _write_record(self, claim: ResourceClaim, record: Iterable[Attachment]) -> ResourceClaim:
        """Write what is attached; refused with a conflict if the claim has changed since it was read."""
        claims = self._client.resource(RESOURCECLAIMS, claim.metadata.namespace)
        written = await claims.update(with_record(claim, self._driver.name, record))
        self._remember(written)
        return written

    async def _report(self, claim: ResourceClaim, outcomes: dict[DeviceKey, BindingOutcome]) -> None:
        if not outcomes:
            return
        entries = status_entries(claim, own_results(claim, self._driver.name), outcomes, self._types)
        written = await write_device_status(self._client, _ref(claim), entries)
        if written is not None:
            self._remember(written)

    def _remember(self, written: ResourceClaim) -> None:
        if self._claims.store.get(*key_of(written)) is not None:
            self._written[key_of(written)] = written.metadata.resource_version


def _ref(claim: ResourceClaim) -> Ref:
    return Ref(claim.metadata.namespace, claim.metadata.name, claim.metadata.uid)


def _key(attachment: Attachment) -> DeviceKey:
    return attachment.pool, attachment.device, attachment.share_id


def _failed(error: Exception) -> BindingOutcome:
    return BindingOutcome("AttachFailed", str(error)[:LONGEST_MESSAGE] or type(error).__name__, failed=True)


def annotation_of(driver: str) -> str:
    """Return the annotation with the record of ``driver``."""
    return f"{driver}/attachments"


def finalizer_of(driver: str) -> str:
    """Return the finalizer of claims with a record of ``driver``."""
    return f"{driver}/attached"


def recorded(claim: ResourceClaim, driver: str) -> frozenset[Attachment]:
    """Return what ``driver`` may have attached for the claim; nothing if the record belongs to another claim."""
    try:
        document = json.loads(claim.metadata.annotations.get(annotation_of(driver), "{}"))
        if document.get("uid") != claim.metadata.uid:
            return frozenset()
        return frozenset(map(_decoded, document["devices"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        # Users may write to annotations of their claims; what is written here by another hand is no record.
        return frozenset()


def with_record(claim: ResourceClaim, driver: str, attachments: Iterable[Attachment]) -> ResourceClaim:
    """Return the claim with that record, and the finalizer if it is not empty."""
    key, finalizer = annotation_of(driver), finalizer_of(driver)
    annotations = {name: text for name, text in claim.metadata.annotations.items() if name != key}
    finalizers = tuple(name for name in claim.metadata.finalizers if name != finalizer)
    devices = [_encoded(one) for one in sorted(attachments, key=lambda one: (one.pool, one.device, one.share_id or ""))]
    if devices:
        annotations[key] = json.dumps({"uid": claim.metadata.uid, "devices": devices}, separators=(",", ":"))
        finalizers = (*finalizers, finalizer)
    return with_metadata(claim, annotations=annotations, finalizers=finalizers)


def _encoded(attachment: Attachment) -> dict[str, str]:
    document = {"pool": attachment.pool, "device": attachment.device, "node": attachment.node}
    return document if attachment.share_id is None else {**document, "shareID": attachment.share_id}


def _decoded(document: dict[str, Any]) -> Attachment:
    return Attachment(document["pool"], document["device"], document["node"], document.get("shareID"))
