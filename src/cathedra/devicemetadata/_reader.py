"""The four functions that programs in containers call to read their devices' metadata.

A program knows its claim by the name in its manifest: the claim's own name, or for a claim from a template the name in
the pod's ``spec.resourceClaims``. Without a driver's name, the files of all drivers of a request are merged. Reading
never validates, so that a program can use the rest of a file with one malformed name; `validate` checks what a driver
wrote (docs/spec/node.md §21.1, §21.3, §21.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from cathedra.devicemetadata._metadata import (
    DeviceMetadata,
    MetadataError,
    MetadataNotFound,
    PreparedDevice,
    PreparedRequest,
)
from cathedra.devicemetadata.locations import (
    FILE_SUFFIX,
    base_directory,
    claim_request_directory,
    metadata_file_name,
    template_request_directory,
)
from cathedra.devicemetadata.stream import decode_metadata_stream


def read_resource_claim_metadata(claim: str, request: str, *, base: Path | None = None) -> DeviceMetadata:
    """Return the metadata of all drivers for ``request`` of a claim that the pod names itself.

    Raises:
        MetadataNotFound: no driver wrote a file, or this container does not use the request.
        MetadataError: a file cannot be decoded; the text names it.
    """
    return read_request_directory(claim_request_directory(claim, request, base or base_directory()))


def read_resource_claim_template_metadata(pod_claim: str, request: str, *, base: Path | None = None) -> DeviceMetadata:
    """Return the metadata of all drivers for ``request`` of a claim made from a template.

    ``pod_claim`` is the name in the pod's ``spec.resourceClaims``.

    Raises:
        MetadataNotFound: no driver wrote a file, or this container does not use the request.
        MetadataError: a file cannot be decoded; the text names it.
    """
    return read_request_directory(template_request_directory(pod_claim, request, base or base_directory()))


def read_resource_claim_metadata_with_driver_name(
    driver: str, claim: str, request: str, *, base: Path | None = None
) -> DeviceMetadata:
    """Return the metadata of ``driver`` for ``request`` of a claim that the pod names itself.

    Raises:
        MetadataNotFound: that driver wrote no file, or this container does not use the request.
        MetadataError: the file cannot be decoded; the text names it.
    """
    return _read_file(claim_request_directory(claim, request, base or base_directory()) / metadata_file_name(driver))


def read_resource_claim_template_metadata_with_driver_name(
    driver: str, pod_claim: str, request: str, *, base: Path | None = None
) -> DeviceMetadata:
    """Return the metadata of ``driver`` for ``request`` of a claim made from a template.

    ``pod_claim`` is the name in the pod's ``spec.resourceClaims``.

    Raises:
        MetadataNotFound: that driver wrote no file, or this container does not use the request.
        MetadataError: the file cannot be decoded; the text names it.
    """
    return _read_file(
        template_request_directory(pod_claim, request, base or base_directory()) / metadata_file_name(driver)
    )


def read_request_directory(directory: Path) -> DeviceMetadata:
    """Return all metadata files of one request, merged by request name; the claim's identity is the first file's.

    Raises:
        MetadataNotFound: the directory does not exist or holds no metadata file.
        MetadataError: a file cannot be decoded; the text names it.
    """
    try:
        files = sorted(path for path in directory.iterdir() if path.name.endswith(FILE_SUFFIX))
    except FileNotFoundError as missing:
        raise MetadataNotFound(f"no device metadata directory {directory}: {_HINT}") from missing
    if not files:
        raise MetadataNotFound(f"no metadata files found in {directory}: {_HINT}")
    return _merge([_read_file(path) for path in files])


_HINT = "the driver writes no device metadata, or this container does not use that request of the claim"


def _read_file(path: Path) -> DeviceMetadata:
    try:
        content = path.read_bytes()
    except FileNotFoundError as missing:
        raise MetadataNotFound(f"no device metadata file {path}: {_HINT}") from missing
    try:
        return decode_metadata_stream(content)
    except MetadataError as malformed:
        raise MetadataError(f"decode {path}: {malformed}") from malformed


def _merge(parts: Iterable[DeviceMetadata]) -> DeviceMetadata:
    first, *others = parts
    devices: dict[str, tuple[PreparedDevice, ...]] = {}
    for part in (first, *others):
        for request in part.requests:
            devices[request.name] = devices.get(request.name, ()) + request.devices
    return DeviceMetadata(
        claim=first.claim,
        requests=tuple(PreparedRequest(name, found) for name, found in devices.items()),
        pod_claim_name=first.pod_claim_name,
    )


_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

MAX_DRIVER_NAME = 63
MAX_POOL_NAME = 253
MAX_ATTRIBUTES = 32


def validate(metadata: DeviceMetadata) -> tuple[str, ...]:
    """Return the errors of ``metadata`` by the rules of ``v1beta1``: one line for each finding, none if all is well."""
    return tuple(_findings(metadata))


def _findings(metadata: DeviceMetadata) -> Iterator[str]:
    if metadata.pod_claim_name is not None and not _LABEL.fullmatch(metadata.pod_claim_name):
        yield f"podClaimName: {metadata.pod_claim_name!r} is no DNS label"
    for i, request in enumerate(metadata.requests):
        for j, device in enumerate(request.devices):
            yield from _device_findings(device, f"requests[{i}].devices[{j}]")


def _device_findings(device: PreparedDevice, where: str) -> Iterator[str]:
    if len(device.driver) > MAX_DRIVER_NAME or not _SUBDOMAIN.fullmatch(device.driver):
        yield f"{where}.driver: {device.driver!r} is no DNS subdomain of at most {MAX_DRIVER_NAME} characters"
    if len(device.pool) > MAX_POOL_NAME or not all(_SUBDOMAIN.fullmatch(part) for part in device.pool.split("/")):
        yield (
            f"{where}.pool: {device.pool!r} is not made of DNS subdomains with slashes between them, "
            f"at most {MAX_POOL_NAME} characters"
        )
    if not _LABEL.fullmatch(device.name):
        yield f"{where}.name: {device.name!r} is no DNS label"
    if len(device.attributes) > MAX_ATTRIBUTES:
        yield f"{where}.attributes: {len(device.attributes)} entries, at most {MAX_ATTRIBUTES} are allowed"
