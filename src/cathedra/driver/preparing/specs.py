"""CDI specification files: one per claim, one for all containers, and nothing left behind.

The names contain the claim's UID, so that a container runtime never serves a stale specification under a name used
again; each file declares the lowest version that can express it, so that old runtimes read it too
(docs/spec/node.md §19; docs/spec/driver-sdk.md §17.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from cathedra.api.nesting import check_nesting
from cathedra.cdi.errors import InvalidName
from cathedra.cdi.files import file_name
from cathedra.cdi.names import validate_kind
from cathedra.cdi.spec import CDIDevice, Spec, minimum_version, validate
from cathedra.driver.edits import Edits
from cathedra.driver.errors import OptionError
from cathedra.driver.files import Files

__all__ = ["COMMON_DEVICE", "ClaimSpecs", "cdi_document", "encode_document", "vendor_for"]

COMMON_DEVICE = "common"


def vendor_for(driver: str) -> str:
    """The CDI vendor of a driver: its name, or, where CDI allows no such name, ``k8s.`` and its name."""
    # Both are made of the same characters, but a driver's name may start with a digit.
    return driver if driver[:1].isalpha() else f"k8s.{driver}"


def cdi_document(kind: str, devices: Mapping[str, Edits]) -> Spec:
    """A CDI document with these devices, in the lowest version that can express it.

    Raises:
        InvalidSpec: an edit breaks a rule of the format, for example an environment variable without a name.
    """
    entries = tuple(CDIDevice(name=name, container_edits=edits.to_cdi()) for name, edits in devices.items())
    document = Spec(cdi_version="", kind=kind, devices=entries)
    document = msgspec.structs.replace(document, cdi_version=minimum_version(document))
    validate(document)
    return document


def encode_document(document: Spec) -> bytes:
    """The document as a file has it."""
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


class ClaimSpecs:
    """The specification files of one driver, named as is the custom for documents that come and go."""

    def __init__(self, files: Files, directory: Path, vendor: str, class_: str) -> None:
        self.kind = f"{vendor}/{class_}"
        try:
            validate_kind(self.kind)
        except InvalidName as error:
            raise OptionError(f"CDI kind {self.kind}: {error}") from error
        self._files = files
        self._directory = directory

    def device_id(self, name: str) -> str:
        """The qualified name of a device."""
        return f"{self.kind}={name}"

    def write_common(self, edits: Edits) -> str:
        """Write the edits for all containers and answer the name to hand out with every device."""
        self.ensure(COMMON_DEVICE, cdi_document(self.kind, {COMMON_DEVICE: edits}))
        return self.device_id(COMMON_DEVICE)

    def document(self, devices: Mapping[str, Edits]) -> Spec | None:
        """The document of a claim with these devices; None if none of them changes anything.

        Raises:
            InvalidSpec: an edit breaks a rule of the format.
        """
        # A device without any edit is an error in a document, so it must not be named either.
        effective = {name: edits for name, edits in devices.items() if edits.to_cdi()}
        return cdi_document(self.kind, effective) if effective else None

    def ensure(self, uid: str, document: Spec) -> None:
        """Write a claim's document unless it is there already; it is complete when this returns."""
        path, content = self.path(uid), encode_document(document)
        if self._files.read(path) != content:
            self._files.write(path, content)

    def remove(self, uid: str) -> None:
        """Remove a claim's document."""
        self._files.remove(self.path(uid))

    def claims(self) -> dict[str, tuple[str, ...]]:
        """Return the claims that have a document here: UID → names of its devices, none if it is damaged."""
        prefix = file_name(self.kind, "x").removesuffix("x")
        found = {}
        for name in self._files.names(self._directory):
            uid = name.removeprefix(prefix).removesuffix(".json")
            if name == self.path(uid).name and uid != COMMON_DEVICE:
                found[uid] = self._devices_in(self._directory / name)
        return found

    def _devices_in(self, path: Path) -> tuple[str, ...]:
        try:
            data = self._files.read(path) or b""
            check_nesting(data)
            return tuple(device.name for device in msgspec.json.decode(data, type=Spec).devices)
        except (msgspec.DecodeError, ValueError):
            return ()

    def remove_leftovers(self, known: Iterable[str]) -> None:
        """Remove the documents of all claims but ``known`` (UIDs)."""
        keep = {self.path(uid).name for uid in known} | {self.path(COMMON_DEVICE).name}
        prefix = file_name(self.kind, "x").removesuffix("x")
        for name in self._files.names(self._directory):
            if name.startswith(prefix) and name not in keep:
                self._files.remove(self._directory / name)

    def path(self, identity: str) -> Path:
        """Return where the document of a claim is, by UID."""
        return self._directory / f"{file_name(self.kind, identity)}.json"
