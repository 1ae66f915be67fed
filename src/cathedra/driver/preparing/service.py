"""Prepare and unprepare claims: everything between a node agent's call and the driver's own code.

Claims are read from the API server before the lock is taken; the driver then gets them one by one, with what the
checkpoint knows. Each claim gets an answer, and one claim's trouble never touches another's
(docs/spec/driver-sdk.md §1, §5 and §21.4). The service knows no gRPC: the servers, and a simulated node agent in the
same process, call the same two methods with plain objects.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from cathedra.api.resource import ResourceClaim
from cathedra.api.status import StatusError
from cathedra.client.backoff import DoublingPauses
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCECLAIMS
from cathedra.clock import Clock
from cathedra.driver.claim import Claim, Edits, Prepared, Ref
from cathedra.driver.driver import Driver, collect, resolve
from cathedra.driver.errors import CallFailed, DeviceInUse, DriverError, Retry
from cathedra.driver.metrics import Observer, Silent
from cathedra.driver.preparing.checkpoint import (
    Checkpoint,
    CheckpointDevice,
    CheckpointEntry,
    DeviceAnswer,
    Serializer,
    memory_key,
)
from cathedra.driver.preparing.specs import COMMON_DEVICE, ClaimSpecs, MetadataFiles, device_document
from cathedra.driver.preparing.status import device_entries, write_device_status

CALL_TIMEOUT = 45.0
"""Seconds that a node agent waits for an answer."""

_RESERVE = 5.0
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 5.0
ORPHANED = 10.0
"""Seconds after which a claim that is gone counts as forgotten by the node agent. A claim goes before its pod's
containers have ended only if the pod is deleted by force, and then the agent kills them at once."""
_SHARE = re.compile(r"-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z")

_LOG = logging.getLogger(__name__)


class NamedClaim(Protocol):
    """A claim as a node agent names it; any object with these attributes will do."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


class PrepareResult(msgspec.Struct, frozen=True):
    """The answer for one claim: its devices, or why it failed."""

    devices: tuple[DeviceAnswer, ...] = ()
    error: str = ""


class ClaimFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Stored state of prepared claims: checkpoint, CDI documents, metadata files."""

    checkpoint: Checkpoint
    specs: ClaimSpecs
    metadata: MetadataFiles | None = None
    """Metadata files; None: containers get none."""
    shared: bool = False
    """True if another process may have written the checkpoint since the last call (rolling update)."""


class ClaimService:
    """The two calls of a node agent: prepare and unprepare."""

    def __init__(
        self,
        driver: Driver,
        client: Client,
        files: ClaimFiles,
        *,
        clock: Clock,
        lock: Serializer,
        observer: Observer | None = None,
    ) -> None:
        """``lock`` serializes the calls."""
        self._driver = driver
        self._client = client
        self._clock = clock
        self._checkpoint = files.checkpoint
        self._lock = lock
        self._specs = files.specs
        self._metadata = files.metadata
        self._observer = observer or Silent()
        self._shared_checkpoint = files.shared
        self._common: tuple[str, ...] = ()
        self._gone_since: dict[str, float] = {}
        """Deleted claims that hold a device which another claim needs: UID → time at which the deletion was
        first seen.
        """
        self._calls = 0

    def open(self) -> None:
        """Read the checkpoint, write the edits for all containers, and remove files of claims that are no longer
        prepared.
        """
        self._load()
        known = [entry.ref for entry in self._checkpoint]
        if not self._shared_checkpoint:
            self._specs.remove_leftovers(ref.uid for ref in known)
            # The directories of recovered claims are named after claims whose names are not known.
            if self._metadata is not None and not self._checkpoint.incomplete:
                self._metadata.remove_leftovers(known)
        self._write_common()
        self._driver.resume([entry.public() for entry in self._checkpoint if not entry.recovered])

    def documents_missing(self) -> bool:
        """Return whether a CDI document that containers need was removed."""
        return any(not path.exists() for path in self._documents())

    def restore_documents(self) -> None:
        """Write the CDI documents that are missing, of all containers and of completed claims.

        Raises:
            OSError: one cannot be written.
        """
        self._write_common()
        for entry in self._checkpoint:
            if entry.spec is not None:
                self._specs.ensure(entry.uid, entry.spec)

    async def reconcile(self) -> bool:
        """Unprepare claims that the API server no longer has, and write CDI documents that are missing.

        Return True if a claim is gone, but not for long enough yet: another call after `ORPHANED` seconds unprepares
        it.

        Raises:
            OSError: a document cannot be written.
        """
        gone = [entry for entry in self._checkpoint if await self._is_gone(entry)]
        async with self._lock.held():
            self._reload()
            for found in gone:
                # A call may have unprepared the claim, or prepared it again, while the API server was read.
                entry = self._checkpoint.get(found.uid)
                if entry is not None and self._is_orphaned(entry):
                    await self._release_orphan(entry)
            self.restore_documents()
        return any(entry.uid in self._gone_since and not self._is_orphaned(entry) for entry in self._checkpoint)

    async def _release_orphan(self, entry: CheckpointEntry) -> None:
        _LOG.warning("claim %s is gone and was never unprepared; doing so now", entry.ref)
        # One claim that cannot be unprepared must not keep the others, or the documents, from being corrected.
        error = await self._unprepare(entry.ref, self._clock.monotonic() + CALL_TIMEOUT - _RESERVE)
        if error:
            self._driver.on_error(CallFailed(error), f"unprepare claim {entry.ref}, which is gone", recoverable=True)

    def _documents(self) -> Iterator[Path]:
        if self._common:
            yield self._specs.path(COMMON_DEVICE)
        yield from (self._specs.path(entry.uid) for entry in self._checkpoint if entry.spec is not None)

    @property
    def prepared(self) -> tuple[Ref, ...]:
        """The claims that are prepared or on their way there."""
        return tuple(entry.ref for entry in self._checkpoint)

    async def node_prepare_resources(
        self, claims: Sequence[NamedClaim], *, timeout: float = CALL_TIMEOUT
    ) -> dict[str, PrepareResult]:
        """Make claims ready; the answer has an entry for each, by UID. ``timeout`` in seconds.

        Raises:
            CallFailed: a claim cannot be read, is not allocated or was replaced; nothing was done.
        """
        # The reserve is for the answer: if the caller's deadline passed first, it would never learn that the devices
        # are prepared.
        deadline = self._clock.monotonic() + timeout - _RESERVE
        # Read before the lock is taken: the API server may be slow, and other calls need the lock.
        raws = [await self._claim(identity) for identity in claims]
        self._log("NodePrepareResources", claims)
        async with self._lock.held():
            self._reload()
            return {raw.metadata.uid: await self._prepare(raw, deadline) for raw in raws}

    async def node_unprepare_resources(
        self, claims: Sequence[NamedClaim], *, timeout: float = CALL_TIMEOUT
    ) -> dict[str, str]:
        """Undo; the answer has an entry for each claim, by UID: why it failed, or "". ``timeout`` in seconds."""
        deadline = self._clock.monotonic() + timeout - _RESERVE
        self._log("NodeUnprepareResources", claims)
        async with self._lock.held():
            self._reload()
            return {
                identity.uid: await self._unprepare(Ref(identity.namespace, identity.name, identity.uid), deadline)
                for identity in claims
            }

    async def update_metadata(self, ref: Ref, request: str, devices: Sequence[Prepared]) -> None:
        """Replace the devices in the metadata file of one request, for data known only after prepare.

        Raises:
            DriverError: device metadata is not enabled, or the claim has no such request.
        """
        if self._metadata is None:
            raise CallFailed("device metadata is not enabled")
        async with self._lock.held():
            self._metadata.update(ref, request, [device_document(self._driver.name, device) for device in devices])

    async def _claim(self, identity: NamedClaim) -> ResourceClaim:
        where = f"{identity.namespace}/{identity.name}"
        try:
            claim = await self._client.resource(RESOURCECLAIMS, identity.namespace).get(identity.name)
        except (StatusError, ConnectionError) as error:
            raise CallFailed(f"get resource claims: retrieve claim {where}: {error}") from error
        except MemoryError as error:
            # It has no text, and gRPC would answer with the name of its class.
            raise CallFailed(f"get resource claims: retrieve claim {where}: no memory is left") from error
        if claim.status.allocation is None:
            raise CallFailed(f"get resource claims: claim {where} not allocated")
        if claim.metadata.uid != identity.uid:
            raise CallFailed(f"get resource claims: claim {where} got replaced")
        return claim

    async def _prepare(self, raw: ResourceClaim, deadline: float) -> PrepareResult:
        started = self._clock.monotonic()
        try:
            answer = await self._prepare_one(raw, deadline)
        except Exception as error:
            # Whatever a driver raises becomes this claim's error: the node agent shows it on the pod and tries again.
            where = f"{raw.metadata.namespace}/{raw.metadata.name}"
            fields = self._fields(Ref(raw.metadata.namespace, raw.metadata.name, raw.metadata.uid))
            _LOG.warning("prepare claim %s: %s", where, error, exc_info=_unmeant(error), extra=fields)
            self._observer.prepared("error", self._clock.monotonic() - started)
            return PrepareResult(error=str(error) or type(error).__name__)
        self._observer.prepared("success", self._clock.monotonic() - started)
        return PrepareResult(devices=answer)

    async def _prepare_one(self, raw: ResourceClaim, deadline: float) -> tuple[DeviceAnswer, ...]:
        driver = self._driver
        # The files live in a directory that a reboot or a tidy administrator empties; the container would never start.
        self._write_common()
        claim = Claim.of(raw, driver.name, driver.configs)
        devices = _devices(claim)
        known = self._checkpoint.get(claim.uid)
        # The node agent repeats the call after each of its restarts. The stored answer must be the same, or containers
        # that restart would get other devices.
        if known is not None and _is_intact(known) and known.devices == devices and driver.replay:
            return self._replay(claim, known)
        if driver.exclusive:
            await self._make_room(claim.uid, devices, deadline)
        # The document of a recovered claim was written after the driver had prepared it: there is nothing to roll back,
        # and a container may be using the devices.
        if known is not None and not _is_intact(known) and not known.recovered:
            await resolve(driver.rollback(known.ref, known.public()))
        entry = CheckpointEntry(claim.namespace, claim.name, claim.uid, devices)
        # «Started» is recorded before the driver changes anything: after a crash from here on the next call rolls back.
        await self._checkpoint.put(entry)
        prepared = await self._call(claim, deadline)
        completed = self._complete(claim, entry, prepared)
        # Before the claim counts as prepared: a call that is cut short here is repeated as a whole, while the answer of
        # a completed claim comes from the checkpoint, without another report.
        await self._report(claim, prepared)
        # After the files are written: a completed entry promises that its CDI document exists.
        await self._checkpoint.put(completed)
        return completed.answer

    async def _make_room(self, uid: str, devices: tuple[CheckpointDevice, ...], deadline: float) -> None:
        """Unprepare deleted claims that hold one of ``devices``.

        Raises:
            DeviceInUse: the holder of a device exists, or was deleted less than `ORPHANED` seconds ago.
        """
        while (conflict := self._checkpoint.conflict(uid, devices)) is not None:
            device, holder = conflict
            if not (await self._is_gone(holder) and self._is_orphaned(holder)):
                raise DeviceInUse(device.pool, device.device, self._holder(holder))
            _LOG.warning("claim %s is gone and was never unprepared; doing so now", holder.ref)
            await self._release(holder.ref, holder, deadline)

    async def _is_gone(self, holder: CheckpointEntry) -> bool:
        """Return True if the API server no longer has the claim, or has it without an allocation."""
        # A recovered entry has no name to look up, so nothing can show that its claim is gone.
        if holder.recovered:
            return False
        try:
            claim = await self._client.resource(RESOURCECLAIMS, holder.namespace).get(holder.name)
        except StatusError as error:
            gone = error.is_not_found
        except ConnectionError:
            gone = False
        else:
            gone = claim.metadata.uid != holder.uid or claim.status.allocation is None
        if gone:
            self._gone_since.setdefault(holder.uid, self._clock.monotonic())
        else:
            # The waiting time starts over if the claim turns out to exist, for example after a stale read.
            self._gone_since.pop(holder.uid, None)
        return gone

    def _is_orphaned(self, holder: CheckpointEntry) -> bool:
        """Return True if the claim has been gone for a while without a call to unprepare it.

        An agent that lost its state, or that was away when the pod was deleted by force, never makes that call. One
        that still ends the pod's containers makes it later, and must not find the device with another claim.
        """
        since = self._gone_since.get(holder.uid)
        return since is not None and self._clock.monotonic() - since >= ORPHANED

    def _holder(self, holder: CheckpointEntry) -> str:
        if not holder.recovered:
            return f"{holder.ref} (UID {holder.uid})"
        return (
            f"with UID {holder.uid} (recovered from its CDI document {self._specs.path(holder.uid)} after the "
            "checkpoint was damaged; if no container uses the device, remove that file and restart the driver)"
        )

    def _replay(self, claim: Claim, entry: CheckpointEntry) -> tuple[DeviceAnswer, ...]:
        if entry.spec is not None:
            self._specs.ensure(claim.uid, entry.spec)
        self._write_metadata(claim, entry.metadata)
        return entry.answer

    async def _call(self, claim: Claim, deadline: float) -> tuple[Prepared, ...]:
        pauses = DoublingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                async with asyncio.timeout(max(deadline - self._clock.monotonic(), 0.0)):
                    return await collect(self._driver.prepare(claim))
            except Retry as transient:
                pause = pauses.take()
                if self._clock.monotonic() + pause > deadline:
                    raise
                again = "prepare claim %s: tried again in %s s: %s"
                _LOG.info(again, claim.ref, pause, transient, extra=self._fields(claim.ref))
            except TimeoutError as late:
                raise CallFailed("the driver did not finish before the call's deadline") from late
            await self._clock.sleep(pause)

    def _complete(self, claim: Claim, entry: CheckpointEntry, prepared: Sequence[Prepared]) -> CheckpointEntry:
        """Write the files of a claim and enter it as completed."""
        names = {id(device): _cdi_name(claim.uid, device) for device in prepared}
        document = self._specs.document(
            {names[id(device)]: device.cdi for device in prepared if isinstance(device.cdi, Edits)}
        )
        if document is not None:
            self._specs.ensure(claim.uid, document)
        written = {device.name for device in document.devices} if document is not None else set()
        requests: dict[str, list[Any]] = {}
        for device in prepared:
            for request in dict.fromkeys(name.partition("/")[0] for name in device.requests):
                requests.setdefault(request, []).append(device_document(self._driver.name, device))
        if self._metadata is None:
            requests = {}
        mounts = self._write_metadata(claim, requests)
        answer = []
        for device in prepared:
            if isinstance(device.cdi, Edits):
                name = names[id(device)]
                own: tuple[str, ...] = (self._specs.device_id(name),) if name in written else ()
            else:
                own = tuple(device.cdi)
            base = tuple(dict.fromkeys(name.partition("/")[0] for name in device.requests))
            first_of = tuple(mounts.pop(request) for request in base if request in mounts)
            ids = self._common + own + first_of
            answer.append(DeviceAnswer(base, device.pool, device.device, ids, device.share_id))
        memory = {
            memory_key(device.pool, device.device, device.share_id): dict(device.memory)
            for device in prepared
            if device.memory
        }
        return CheckpointEntry(
            entry.namespace, entry.name, entry.uid, entry.devices, True, tuple(answer), document, requests, memory
        )

    def _write_metadata(self, claim: Claim, requests: Mapping[str, Sequence[Any]]) -> dict[str, str]:
        if self._metadata is None or not requests:
            return {}
        try:
            return self._metadata.write(claim, requests)
        except OSError as error:
            # A container without its metadata file still has its device, so the claim is not failed for that.
            self._driver.on_error(error, f"write device metadata of claim {claim.ref}", recoverable=True)
            return {}

    async def _report(self, claim: Claim, prepared: Sequence[Prepared]) -> None:
        entries = device_entries(self._driver.name, prepared)
        if not entries:
            return
        try:
            await write_device_status(self._client.as_manager(self._driver.name), claim.ref, entries)
        except (StatusError, ConnectionError) as error:
            self._driver.on_error(error, f"write device status of claim {claim.ref}", recoverable=True)

    async def _unprepare(self, ref: Ref, deadline: float) -> str:
        started = self._clock.monotonic()
        try:
            await self._unprepare_one(ref, deadline)
        except Exception as error:
            # As with prepare: the claim's error, shown and tried again by the node agent.
            _LOG.warning("unprepare claim %s: %s", ref, error, exc_info=_unmeant(error), extra=self._fields(ref))
            self._observer.unprepared("error", self._clock.monotonic() - started)
            return str(error) or type(error).__name__
        self._observer.unprepared("success", self._clock.monotonic() - started)
        return ""

    async def _unprepare_one(self, ref: Ref, deadline: float) -> None:
        entry = self._checkpoint.get(ref.uid)
        if entry.recovered if entry is not None else self._checkpoint.incomplete:
            entry = await self._recovered(ref, entry)
        await self._release(ref, entry, deadline)

    async def _release(self, ref: Ref, entry: CheckpointEntry | None, deadline: float) -> None:
        if entry is not None:
            # If the process ends from here on, a call that prepares the claim must not be answered from the record.
            if not entry.unpreparing:
                await self._checkpoint.put(msgspec.structs.replace(entry, unpreparing=True))
            await self._undo(entry, deadline)
        # The checkpoint entry goes last: if a file cannot be removed, the next call finds the entry and tries again.
        self._specs.remove(ref.uid)
        self._remove_metadata(ref)
        self._gone_since.pop(ref.uid, None)
        await self._checkpoint.remove(ref.uid)

    async def _recovered(self, ref: Ref, entry: CheckpointEntry | None) -> CheckpointEntry | None:
        """Return the entry of a claim that a damaged checkpoint may have held; None if the claim is unknown.

        Raises:
            CallFailed: the API server does not answer which devices the claim holds.
        """
        try:
            claim = await self._client.resource(RESOURCECLAIMS, ref.namespace).get(ref.name)
        except StatusError as error:
            if not error.is_not_found:
                raise CallFailed(f"recover claim {ref}: {error}") from error
        except ConnectionError as error:
            raise CallFailed(f"recover claim {ref}: {error}") from error
        else:
            if claim.metadata.uid == ref.uid and claim.status.allocation is not None:
                devices = _devices(Claim.of(claim, self._driver.name, self._driver.configs))
                if devices:
                    return CheckpointEntry(ref.namespace, ref.name, ref.uid, devices, completed=True)
        if entry is None:
            return None
        return CheckpointEntry(ref.namespace, ref.name, ref.uid, entry.devices, completed=True)

    async def _undo(self, entry: CheckpointEntry, deadline: float) -> None:
        pauses = DoublingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            try:
                undo = self._driver.unprepare if entry.completed else self._driver.rollback
                await resolve(undo(entry.ref, entry.public()))
            except Retry:
                pause = pauses.take()
                if self._clock.monotonic() + pause > deadline:
                    raise
            else:
                return
            await self._clock.sleep(pause)

    def _remove_metadata(self, ref: Ref) -> None:
        # A claim of the same name may have been prepared since; the directory is named after it, not after the UID.
        if self._metadata is None or any(e.ref != ref and str(e.ref) == str(ref) for e in self._checkpoint):
            return
        try:
            self._metadata.remove(ref)
        except OSError as error:
            raise CallFailed(f"clean up device metadata: {error}") from error

    def _write_common(self) -> None:
        edits = self._driver.common_edits()
        if edits is not None and edits.to_cdi():
            self._common = (self._specs.write_common(edits),)

    def _reload(self) -> None:
        if self._shared_checkpoint:
            self._load()

    def _load(self) -> None:
        """Read the checkpoint. If it is damaged or incomplete, recover prepared claims from the CDI documents."""
        damage = self._checkpoint.load()
        if damage is not None:
            _LOG.error("%s", damage)
            self._observer.background_error(recoverable=True)
            self._driver.on_error(damage, "reading the checkpoint", recoverable=True)
        if not self._checkpoint.incomplete:
            return
        documents = self._specs.claims()
        for entry in self._checkpoint:
            if entry.recovered and entry.uid not in documents:
                self._checkpoint.forget(entry.uid)
        # Entries that are missing from a readable checkpoint were unprepared on purpose; only a damaged one is
        # completed.
        if damage is not None:
            for uid, names in documents.items():
                self._checkpoint.recover(uid, tuple(_recovered_device(uid, name) for name in names))

    def _log(self, method: str, claims: Sequence[NamedClaim]) -> None:
        self._calls += 1
        names = ", ".join(f"{claim.namespace}/{claim.name}" for claim in claims)
        fields = {"fields": {"driver": self._driver.name, "call": self._calls, "method": method}}
        _LOG.debug("call %d: %s: %s", self._calls, method, names or "no claims", extra=fields)

    def _fields(self, ref: Ref) -> dict[str, dict[str, str]]:
        """Return the structured fields of a log line: driver and claim."""
        return {
            "fields": {
                "driver": self._driver.name,
                "namespace": ref.namespace,
                "claim": ref.name,
                "claimUID": ref.uid,
            }
        }


def _is_intact(entry: CheckpointEntry) -> bool:
    """Return True if the driver has prepared the claim, and nothing has begun to undo that."""
    return entry.completed and not entry.unpreparing


def _unmeant(error: Exception) -> Exception | None:
    """Return the error if its traceback is useful; None if it was raised on purpose."""
    return None if isinstance(error, (DriverError, Retry)) else error


def _cdi_name(uid: str, device: Prepared) -> str:
    return f"{uid}-{device.device}" + (f"-{device.share_id}" if device.share_id else "")


def _devices(claim: Claim) -> tuple[CheckpointDevice, ...]:
    return tuple(CheckpointDevice(a.pool, a.device, a.request, a.share_id, a.admin) for a in claim.allocations)


def _recovered_device(uid: str, name: str) -> CheckpointDevice:
    """Return the device behind the name that `_cdi_name` made. Its pool and request are not in the name."""
    share = _SHARE.search(name)
    device = name[: share.start()] if share else name
    return CheckpointDevice("", device.removeprefix(f"{uid}-"), "", share[1] if share else None)
