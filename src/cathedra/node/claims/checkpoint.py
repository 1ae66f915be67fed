"""The claim-info cache on disk, in the kubelet's own format, so that either can read the other's file.

docs/spec/node.md §11.1. The file is replaced atomically, and written before anything that it must not forget.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from cathedra.api.nesting import load_json
from cathedra.files.durable import DurableFile
from cathedra.node.plugins.client import ClaimReference, PluginDevice

KIND: Final = "DRACheckpoint"
API_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"
_ESCAPES: Final = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
"""Characters that Go's encoder escapes inside strings; outside of strings JSON has none of them."""


class CheckpointStore(Protocol):
    """Storage of prepared claims that survives a restart."""

    def load(self) -> list[ClaimInfo]:
        """Return the claims saved last, with none marked as prepared.

        Raises:
            CorruptCheckpoint: the stored data is damaged.
        """

    async def save(self, infos: Iterable[ClaimInfo]) -> None:
        """Replace what is saved."""


class MemoryCheckpoint:
    """Keeps the file's content in memory: for simulated nodes, whose agents share one process."""

    def __init__(self) -> None:
        self._data = b""

    def load(self) -> list[ClaimInfo]:
        """Return the claims saved last."""
        return decode_checkpoint(self._data) if self._data else []

    async def save(self, infos: Iterable[ClaimInfo]) -> None:
        """Replace what is saved."""
        self._data = encode_checkpoint(infos)


class FileCheckpoint:
    """Keeps claim infos in ``path``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = DurableFile(path)

    def load(self) -> list[ClaimInfo]:
        """Return the claims saved last; none if there is no file.

        Raises:
            CorruptCheckpoint: the file is damaged or has another format.
        """
        try:
            data = self._path.read_bytes()
        # The first start of a node. Any other error stops the agent: without the file it would not know the prepared
        # claims, and never unprepare them.
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CorruptCheckpoint(_advice(self._path, str(error))) from error
        try:
            return decode_checkpoint(data)
        except CorruptCheckpoint as error:
            raise CorruptCheckpoint(_advice(self._path, str(error))) from error

    async def save(self, infos: Iterable[ClaimInfo]) -> None:
        """Replace the file; on return it is on disk."""
        await self._file.write(encode_checkpoint(infos))


def _advice(path: Path, why: str) -> str:
    return f"could not initialize checkpoint manager, please drain node and remove DRA state file {path}: {why}"


def encode_checkpoint(infos: Iterable[ClaimInfo]) -> bytes:
    """Return the bytes of the file."""
    # Sorted, so that equal states are equal files.
    states = [_state_of(info) for info in sorted(infos, key=lambda info: (info.namespace, info.name))]
    content = {"kind": KIND, "apiVersion": API_VERSION, "ClaimInfoStateList": states or None}
    data = _go_json(content)
    return _go_json({"Data": data, "Checksum": zlib.crc32(data.encode())}).encode()


def decode_checkpoint(data: bytes) -> list[ClaimInfo]:
    """Return the infos that the file's bytes describe.

    Raises:
        CorruptCheckpoint: checksum, kind or shape is wrong.
    """
    try:
        outer = load_json(data)
        text: str = outer["Data"]
        # A torn write would otherwise be read as a shorter list, and prepared devices be given to other pods.
        if zlib.crc32(text.encode()) != outer["Checksum"]:
            raise CorruptCheckpoint("checkpoint is corrupted: checksum mismatch")
        content = load_json(text)
        if (content.get("kind"), content.get("apiVersion")) != (KIND, API_VERSION):
            raise CorruptCheckpoint("checkpoint is corrupted: unknown kind or version")
        return [_info_of(state) for state in content.get("ClaimInfoStateList") or ()]
    except (msgspec.DecodeError, ValueError) as error:
        raise CorruptCheckpoint(f"checkpoint is corrupted: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        # JSON of another shape, such as null. Python's text would name no field of the file.
        raise CorruptCheckpoint("checkpoint is corrupted: it does not have the form of a checkpoint") from error


def _go_json(value: Any) -> str:
    # The checksum covers the text, so it must be Go's text byte for byte: a kubelet that takes over this file
    # recomputes it.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


def _state_of(info: ClaimInfo) -> dict[str, Any]:
    return {
        "ClaimUID": info.uid,
        "ClaimName": info.name,
        "Namespace": info.namespace,
        "PodUIDs": {uid: {} for uid in sorted(info.pod_uids)},
        "DriverState": {name: _driver_state(state) for name, state in sorted(info.drivers.items())},
    }


def _driver_state(state: DriverState) -> dict[str, Any]:
    written: dict[str, Any] = {"Devices": [_device_state(device) for device in state.devices] or None}
    if state.skip:
        written["SkipNodeOperations"] = sorted(state.skip)
    return written


def _device_state(device: PluginDevice) -> dict[str, Any]:
    written: dict[str, Any] = {"PoolName": device.pool, "DeviceName": device.device}
    if device.share_id is not None:
        written["ShareID"] = device.share_id
    # Go writes nil slices as null. Leaving the key out would change the text, and with it the checksum.
    written["RequestNames"] = list(device.request_names) or None
    written["CDIDeviceIDs"] = list(device.cdi_device_ids) or None
    return written


def _info_of(state: dict[str, Any]) -> ClaimInfo:
    return ClaimInfo(
        namespace=state["Namespace"],
        name=state["ClaimName"],
        uid=state["ClaimUID"],
        pod_uids=set(state.get("PodUIDs") or ()),
        drivers={
            name: DriverState(
                devices=tuple(_device_of(device) for device in driver.get("Devices") or ()),
                skip=frozenset(driver.get("SkipNodeOperations") or ()),
            )
            for name, driver in (state.get("DriverState") or {}).items()
        },
    )


def _device_of(device: dict[str, Any]) -> PluginDevice:
    return PluginDevice(
        pool=device["PoolName"],
        device=device["DeviceName"],
        request_names=tuple(device.get("RequestNames") or ()),
        cdi_device_ids=tuple(device.get("CDIDeviceIDs") or ()),
        share_id=device.get("ShareID"),
    )


# The claim-info cache: prepared claims of the node's pods (docs/spec/node.md §6).
#
# It is keyed by namespace and name, so that a claim that was deleted and created again under the same name is detected.
# All methods are synchronous. No other task runs between two awaits, so the cache needs no lock.

SKIP_PREPARE = frozenset({"NodePrepareResources", "*"})
"""Either of these among a device's skipped operations means: no prepare call."""
SKIP_UNPREPARE = frozenset({"NodeUnprepareResources", "*"})
"""Either of these means: no unprepare call."""


class DriverState(msgspec.Struct, frozen=True):
    """Devices that one driver has prepared for one claim, and the operations that it skips."""

    devices: tuple[PluginDevice, ...] = ()
    skip: frozenset[str] = frozenset()

    @property
    def skips_prepare(self) -> bool:
        """Return True if the driver needs no prepare call."""
        return bool(self.skip & SKIP_PREPARE)

    @property
    def skips_unprepare(self) -> bool:
        """Return True if the driver needs no unprepare call."""
        return bool(self.skip & SKIP_UNPREPARE)


class ClaimInfo(msgspec.Struct):
    """A claim, the pods that use it, and the result of each driver."""

    namespace: str
    name: str
    uid: str
    pod_uids: set[str] = msgspec.field(default_factory=set)
    drivers: dict[str, DriverState] = msgspec.field(default_factory=dict)
    prepared: bool = False
    """True if all drivers have succeeded since this process started; never stored."""

    @property
    def reference(self) -> ClaimReference:
        """Return the claim as drivers receive it."""
        return ClaimReference(self.namespace, self.uid, self.name)


class ClaimInfoCache(msgspec.Struct):
    """All claim infos of the node."""

    _infos: dict[tuple[str, str], ClaimInfo] = msgspec.field(default_factory=dict)

    def __iter__(self) -> Iterator[ClaimInfo]:
        return iter(tuple(self._infos.values()))

    def __len__(self) -> int:
        return len(self._infos)

    def get(self, namespace: str, name: str) -> ClaimInfo | None:
        """Return the info of a claim, if it is known."""
        return self._infos.get((namespace, name))

    def add(self, info: ClaimInfo) -> None:
        """Add a claim, or replace the one of its namespace and name."""
        self._infos[info.namespace, info.name] = info

    def remove(self, info: ClaimInfo) -> None:
        """Remove a claim; an unknown one is ignored."""
        self._infos.pop((info.namespace, info.name), None)

    def of_pod(self, pod_uid: str) -> list[ClaimInfo]:
        """Return infos that a pod refers to."""
        return [info for info in self._infos.values() if pod_uid in info.pod_uids]

    def pod_uids(self) -> set[str]:
        """Return every pod that refers to some claim."""
        return {uid for info in self._infos.values() for uid in info.pod_uids}

    def with_device(self, driver: str, devices: Iterable[tuple[str, str]]) -> set[str]:
        """Return UIDs of pods that use one of ``devices`` (pool, device) of ``driver``."""
        wanted = set(devices)
        return {
            uid
            for info in self._infos.values()
            if any((d.pool, d.device) in wanted for d in info.drivers.get(driver, DriverState()).devices)
            for uid in info.pod_uids
        }


class ClaimError(Exception):
    """A problem with one claim or driver."""


class PrepareError(ClaimError):
    """A pod's claims are not prepared; trying again later is right."""


class UnprepareError(ClaimError):
    """A pod's claims are still held by drivers; trying again later is right."""


class CorruptCheckpoint(Exception):
    """The claim-info file cannot be trusted; starting without it would leak claims."""
