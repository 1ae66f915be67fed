"""The checkpoint of prepared claims, which survives restarts and is void after a reboot; and serialization of calls.

A claim is recorded as «started» before the driver changes anything and as «completed» afterwards, so that an
interrupted preparation is detected and rolled back. Unprepare receives only a name and a UID; the rest is in the
checkpoint. The file has a version, a checksum and the boot ID: a reboot undoes all side effects, hence also the
checkpoint (docs/spec/driver-sdk.md §17.5, §19 and §21.4).

The file need not survive a power failure, because that is a reboot too. So it is replaced in one step but never synced:
a process that is killed loses nothing, since the kernel has the content. A power failure may leave a damaged file,
which must not look like one of this boot. A second file therefore names the boot. It is synced once per boot, before
the first claim is recorded.

A damaged file is set aside and never counts as empty: its claims would stay prepared for good, while their devices are
allocated to others. The checkpoint is then *incomplete* until the next reboot, and the service recovers claims from
their CDI documents and from the API server.

Calls are serialized by a lock in the process. During a rolling update two processes serve the same node and use a file
lock; its name and place are those of the Go helper, so that a Go and a Python instance exclude each other too
(docs/spec/driver-sdk.md §7).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from cathedra.api.nesting import check_nesting
from cathedra.cdi.spec import Spec
from cathedra.clock import Clock
from cathedra.driver.claim import Ref
from cathedra.driver.driver import PreparedClaim, PreparedDeviceRecord
from cathedra.driver.errors import CheckpointDamaged
from cathedra.driver.files import Files

CHECKPOINT_FILE = "checkpoint.json"
BOOT_FILE = "checkpoint.boot"
"""Names the boot in which the checkpoint was written last."""
VERSION = "cathedra.dev/driver-checkpoint/v1"

_LOG = logging.getLogger(__name__)


class CheckpointDevice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device that a claim holds, entered before the driver is called."""

    pool: str
    device: str
    request: str
    share_id: str | None = None
    admin: bool = False

    def conflicts_with(self, other: CheckpointDevice) -> bool:
        """Return True if both cannot be prepared at a time; admin access and different shares can.

        A recovered device has no pool and may be of any.
        """
        if self.device != other.device or self.admin or other.admin:
            return False
        if self.pool and other.pool and self.pool != other.pool:
            return False
        return self.share_id is None or other.share_id is None or self.share_id == other.share_id


class DeviceAnswer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A device in the answer to the node agent. Request names have no sub-request."""

    request_names: tuple[str, ...]
    pool_name: str
    device_name: str
    cdi_device_ids: tuple[str, ...] = ()
    share_id: str | None = None


class CheckpointEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A claim that is prepared or on its way there."""

    namespace: str
    name: str
    uid: str
    devices: tuple[CheckpointDevice, ...]
    completed: bool = False
    answer: tuple[DeviceAnswer, ...] = ()
    spec: Spec | None = None
    """The claim's CDI specification, to be written again if the file is lost."""
    metadata: dict[str, list[Any]] = {}
    """Request → devices of its metadata file, as JSON."""
    memory: dict[str, Any] = {}
    """Pool, device and share → data of the driver."""
    unpreparing: bool = False
    """True once `Driver.unprepare` may have begun: the devices may no longer be prepared."""
    recovered: bool = False
    """True if only the UID and the devices are known, from a CDI document that was found beside a damaged file."""

    @property
    def ref(self) -> Ref:
        """Reference of the claim."""
        return Ref(self.namespace, self.name, self.uid)

    def public(self) -> PreparedClaim:
        """Return the entry as drivers receive it."""
        return PreparedClaim(self.ref, tuple(map(self._public_device, self.devices)), self.completed)

    def _public_device(self, device: CheckpointDevice) -> PreparedDeviceRecord:
        memory = self.memory.get(memory_key(device.pool, device.device, device.share_id), {})
        return PreparedDeviceRecord(
            device.pool, device.device, device.request, device.share_id, device.admin, memory=memory
        )


def memory_key(pool: str, device: str, share_id: str | None) -> str:
    """Return the key of a device in `CheckpointEntry.memory`."""
    return f"{pool}/{device}" + (f"/{share_id}" if share_id else "")


class _Content(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    boot_id: str
    claims: tuple[CheckpointEntry, ...]
    incomplete: bool = False


class _File(msgspec.Struct, frozen=True):
    checksum: str
    # The very bytes that were summed: a newer program that adds a field still finds the checksum right.
    content: msgspec.Raw


class Checkpoint:
    """The prepared claims of one driver on one node."""

    def __init__(self, files: Files, directory: Path, boot_id: str) -> None:
        self._files = files
        self._path = directory / CHECKPOINT_FILE
        self._boot_path = directory / BOOT_FILE
        self._boot_id = boot_id
        self._boot_recorded = False
        self._entries: dict[str, CheckpointEntry] = {}
        self.incomplete = False
        """True if claims may be prepared that are not entered here, because an earlier file was damaged."""

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[CheckpointEntry]:
        return iter(tuple(self._entries.values()))

    def get(self, uid: str) -> CheckpointEntry | None:
        """Return the entry of a claim, if there is one."""
        return self._entries.get(uid)

    def load(self) -> CheckpointDamaged | None:
        """Read the file. A missing one, and one from before the last start of the machine, count as empty.

        Return the damage if the file cannot be read: then it is kept aside and the checkpoint is incomplete.
        """
        self._entries, self.incomplete = {}, False
        data = self._files.read(self._path)
        if data is None:
            return None
        try:
            check_nesting(data)
            file = msgspec.json.decode(data, type=_File)
            if file.checksum != _checksum(bytes(file.content)):
                raise ValueError("wrong checksum")
            content = msgspec.json.decode(bytes(file.content), type=_Content)
            if content.version != VERSION:
                raise ValueError(f"unknown version {content.version}")
        except (msgspec.DecodeError, ValueError) as problem:
            if self._is_of_earlier_boot():
                _LOG.info("%s: %s; it was written before the machine was restarted, and is void", self._path, problem)
                return None
            return self._keep_aside(data, str(problem))
        # A reboot has undone everything that was prepared; its entries would block devices that are free.
        if content.boot_id != self._boot_id:
            _LOG.info("%s: the machine was restarted since; all claims will be prepared anew", self._path)
            return None
        self._entries = {entry.uid: entry for entry in content.claims}
        self.incomplete = content.incomplete
        return None

    def recover(self, uid: str, devices: tuple[CheckpointDevice, ...]) -> None:
        """Enter a claim of which only this is known. The next `put` or `remove` writes it."""
        self._entries.setdefault(uid, CheckpointEntry("", "", uid, devices, recovered=True))

    def forget(self, uid: str) -> None:
        """Drop a claim. The next `put` or `remove` writes that."""
        self._entries.pop(uid, None)

    async def put(self, entry: CheckpointEntry) -> None:
        """Enter a claim; it survives the end of this process when this returns."""
        self._entries[entry.uid] = entry
        await self._save()

    async def remove(self, uid: str) -> None:
        """Remove a claim; the removal is durable when this returns."""
        if self._entries.pop(uid, None) is not None:
            await self._save()

    def conflict(
        self, uid: str, devices: tuple[CheckpointDevice, ...]
    ) -> tuple[CheckpointDevice, CheckpointEntry] | None:
        """Return a device of ``devices`` that another claim still holds, and that claim."""
        for entry in self._entries.values():
            if entry.uid == uid:
                continue
            for held in entry.devices:
                for wanted in devices:
                    if wanted.conflicts_with(held):
                        return wanted, entry
        return None

    def _keep_aside(self, data: bytes, problem: str) -> CheckpointDamaged:
        """Copy the damaged file beside itself, once for each content: the next save replaces it."""
        kept = self._path.with_name(f"{self._path.name}.damaged-{_checksum(data)[:8]}")
        # The name contains the checksum, so repeated starts do not fill the disk with copies.
        if self._files.read(kept) != data:
            self._files.write(kept, data)
        self.incomplete = True
        return CheckpointDamaged(self._path, kept, problem)

    def _is_of_earlier_boot(self) -> bool:
        recorded = self._files.read(self._boot_path)
        return recorded is not None and recorded != self._boot_id.encode()

    async def _save(self) -> None:
        # Before the first record: otherwise a power failure could leave a damaged checkpoint and the previous boot's
        # name, or none, and after the restart nothing would show that the checkpoint is void.
        if not self._boot_recorded:
            if self._files.read(self._boot_path) != self._boot_id.encode():
                await self._files.write_durably(self._boot_path, self._boot_id.encode())
            self._boot_recorded = True
        content = msgspec.json.encode(
            _Content(VERSION, self._boot_id, tuple(self._entries.values()), incomplete=self.incomplete)
        )
        file = _File(_checksum(content), msgspec.Raw(content))
        self._files.write(self._path, msgspec.json.encode(file) + b"\n")


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


LOCK_FILE = "serialize.lock"

_POLL = 0.02


class Serializer(Protocol):
    """Serializes the calls that change prepared claims."""

    def held(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait for the turn; it ends with the context."""


class NoLock:
    """No serialization: the driver handles concurrent calls."""

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Enter at once: there is one caller."""
        yield


class ProcessLock:
    """One call at a time in this process."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the calls that came before."""
        async with self._lock:
            yield


class FileLock:
    """One call at a time among all processes that use the directory."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._path = directory / LOCK_FILE
        self._clock = clock
        self._process = ProcessLock()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the calls that came before, here and in the other process."""
        async with self._process.held():
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # The kernel announces a free lock only to a thread that blocks on it, and such a thread could not be
                # cancelled with the call. Contention lasts for one call during an update, so asking again is cheap.
                while not _try_lock(descriptor):
                    await self._clock.sleep(_POLL)
                yield
            finally:
                os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
