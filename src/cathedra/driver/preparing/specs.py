"""CDI documents and metadata files of prepared claims.

There is one CDI document per claim and one for all containers. Their names contain the claim's UID, so that a container
runtime never reads a stale document under a reused name. Each document declares the lowest version that can express it,
so that old runtimes read it too (docs/spec/node.md §19; docs/spec/driver-sdk.md §17.4).

For each request of a prepared claim there is one JSON metadata file and one CDI device that mounts it. The device's
name is added to the first device of the request, so that a container sees exactly the files of the requests that it
uses (KEP-5304; docs/spec/node.md §21; docs/spec/driver-sdk.md §9).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nesting import check_nesting
from cathedra.api.resource import DeviceAttribute
from cathedra.api.struct import to_dict
from cathedra.cdi.spec import CDIDevice, InvalidName, Spec, file_name, minimum_version, validate, validate_kind
from cathedra.devicemetadata.locations import claim_request_directory, metadata_file_name, template_request_directory
from cathedra.devicemetadata.stream import KIND, KNOWN_VERSIONS
from cathedra.driver.claim import Claim, Edits, Mount, Prepared, Ref
from cathedra.driver.device import attribute
from cathedra.driver.errors import DriverError, OptionError
from cathedra.driver.files import Files

COMMON_DEVICE = "common"


def vendor_for(driver: str) -> str:
    """Return the CDI vendor of a driver: its name, or, where CDI allows no such name, ``k8s.`` and its name."""
    # Both are made of the same characters, but a driver's name may start with a digit.
    return driver if driver[:1].isalpha() else f"k8s.{driver}"


def cdi_document(kind: str, devices: Mapping[str, Edits]) -> Spec:
    """Return a CDI document with these devices, in the lowest version that can express it.

    Raises:
        InvalidSpec: an edit breaks a rule of the format, for example an environment variable without a name.
    """
    entries = tuple(CDIDevice(name=name, container_edits=edits.to_cdi()) for name, edits in devices.items())
    document = Spec(cdi_version="", kind=kind, devices=entries)
    document = msgspec.structs.replace(document, cdi_version=minimum_version(document))
    validate(document)
    return document


def encode_document(document: Spec) -> bytes:
    """Return the document as a file has it."""
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
        """Return the qualified name of a device."""
        return f"{self.kind}={name}"

    def write_common(self, edits: Edits) -> str:
        """Write the edits for all containers and answer the name to hand out with every device."""
        self.ensure(COMMON_DEVICE, cdi_document(self.kind, {COMMON_DEVICE: edits}))
        return self.device_id(COMMON_DEVICE)

    def document(self, devices: Mapping[str, Edits]) -> Spec | None:
        """Return the document of a claim with these devices; None if none of them changes anything.

        Raises:
            InvalidSpec: an edit breaks a rule of the format.
        """
        # A device without any edit is an error in a document, so it must not be named either.
        effective = {name: edits for name, edits in devices.items() if edits.to_cdi()}
        return cdi_document(self.kind, effective) if effective else None

    def ensure(self, uid: str, document: Spec) -> None:
        """Write a claim's document unless it exists; it is complete on return."""
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


DIRECTORY = "dra-device-metadata"
"""Below the driver's data directory."""


def device_document(driver: str, prepared: Prepared) -> JSONObject:
    """Return a device as its metadata file has it, as JSON values."""
    attributes: dict[str, DeviceAttribute] = {
        name if "/" in name else f"{driver}/{name}": attribute(value)
        for name, value in (prepared.metadata or {}).items()
    }
    document: JSONObject = {"driver": driver, "pool": prepared.pool, "name": prepared.device}
    if attributes:
        document["attributes"] = {name: to_dict(value) for name, value in attributes.items()}
    if prepared.network_data is not None:
        document["networkData"] = to_dict(prepared.network_data)
    return document


class MetadataFiles:
    """The metadata files of one driver on one node."""

    def __init__(
        self, files: Files, driver: str, data_directory: Path, cdi_directory: Path, versions: Sequence[str]
    ) -> None:
        """``versions`` in the order in which they stand in a file.

        Raises:
            OptionError: a version is unknown, or the newest is missing.
        """
        unknown = [version for version in versions if version not in KNOWN_VERSIONS]
        if unknown:
            raise OptionError(
                f"none of the requested metadata API versions {unknown} are supported; known are {KNOWN_VERSIONS}"
            )
        if KNOWN_VERSIONS[0] not in versions:
            raise OptionError(f"metadata API versions {list(versions)}: the newest, {KNOWN_VERSIONS[0]}, is missing")
        self._files = files
        self._driver = driver
        self._directory = data_directory / DIRECTORY
        self._cdi_directory = cdi_directory
        self._versions = tuple(versions)

    def write(self, claim: Claim, requests: Mapping[str, Sequence[Any]]) -> dict[str, str]:
        """Write the files of a claim with generation 1; answers request → CDI name of the mount.

        ``requests`` maps top-level requests to `device_document` values.
        """
        return {
            request: self._write_request(claim.ref, claim.pod_claim_name, request, _full_name(claim, request), devices)
            for request, devices in requests.items()
        }

    def update(self, ref: Ref, request: str, devices: Sequence[Any]) -> None:
        """Replace the devices of one request, for data that is known only after prepare.

        Containers that run already keep the old file: the mount holds on to it.

        Raises:
            DriverError: the claim has no such request here.
        """
        path = self._file(ref, request)
        content = self._files.read(path)
        if content is None:
            raise DriverError(f'request "{request}" not found in prepared claim {ref}')
        current, _ = json.JSONDecoder().raw_decode(content.decode())
        generation = int(current["metadata"]["generation"]) + 1
        name = current["requests"][0]["name"]
        self._files.write(path, self._stream(ref, current.get("podClaimName"), name, devices, generation))

    def remove(self, ref: Ref) -> None:
        """Remove all files of a claim."""
        self._files.remove_tree(self._claim_directory(ref))
        prefix = f"{self._driver}_metadata_{ref.uid}_"
        for name in self._files.names(self._cdi_directory):
            if name.startswith(prefix):
                self._files.remove(self._cdi_directory / name)

    def remove_leftovers(self, known: Iterable[Ref]) -> None:
        """Remove the files of all claims but ``known``."""
        known = tuple(known)
        directories = {self._claim_directory(ref).name for ref in known}
        for name in self._files.names(self._directory):
            if name not in directories:
                self._files.remove_tree(self._directory / name)
        prefix = f"{self._driver}_metadata_"
        uids = {ref.uid for ref in known}
        for name in self._files.names(self._cdi_directory):
            if name.startswith(prefix) and name.removeprefix(prefix).partition("_")[0] not in uids:
                self._files.remove(self._cdi_directory / name)

    def _write_request(self, ref: Ref, pod_claim: str | None, request: str, name: str, devices: Sequence[Any]) -> str:
        path = self._file(ref, request)
        self._files.write(path, self._stream(ref, pod_claim, name, devices, 1))
        if pod_claim is None:
            target = claim_request_directory(ref.name, request)
        else:
            target = template_request_directory(pod_claim, request)
        kind = f"{vendor_for(self._driver)}/metadata"
        device = f"{ref.uid}_{request}"
        mount = Mount(
            host_path=str(path), container_path=str(target / metadata_file_name(self._driver)), options=("ro", "bind")
        )
        spec = cdi_document(kind, {device: Edits(mounts=(mount,))})
        self._files.write(
            self._cdi_directory / f"{self._driver}_metadata_{ref.uid}_{request}.json",
            encode_document(spec),
        )
        return f"{kind}={device}"

    def _stream(self, ref: Ref, pod_claim: str | None, request: str, devices: Sequence[Any], generation: int) -> bytes:
        body: JSONObject = {
            "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid, "generation": generation}
        }
        if pod_claim is not None:
            body["podClaimName"] = pod_claim
        body["requests"] = [{"name": request, "devices": list(devices)}]
        documents = [{"apiVersion": version, "kind": KIND, **body} for version in self._versions]
        return "".join(json.dumps(document, indent=2) + "\n" for document in documents).encode()

    def _claim_directory(self, ref: Ref) -> Path:
        return self._directory / f"{ref.namespace}_{ref.name}"

    def _file(self, ref: Ref, request: str) -> Path:
        return self._claim_directory(ref) / request / "metadata.json"


def _full_name(claim: Claim, request: str) -> str:
    """Return the request as the file names it: with the subrequest that was chosen, if any."""
    return next((a.request for a in claim.allocations if a.base_request == request), request)
