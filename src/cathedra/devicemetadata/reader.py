"""The four questions a program in a container asks about its devices.

It knows the claim by the name in its manifest: a claim's own name, or, for a claim made from a template, the name in
the pod's ``spec.resourceClaims``. Usually it does not care which driver serves the request, so the files of all
drivers are merged; with the driver's name one file is read (docs/spec/node.md §21.1 and §21.4).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from cathedra.devicemetadata.locations import (
    FILE_SUFFIX,
    base_directory,
    claim_request_directory,
    metadata_file_name,
    template_request_directory,
)
from cathedra.devicemetadata.metadata import (
    DeviceMetadata,
    MetadataError,
    MetadataNotFound,
    PreparedDevice,
    PreparedRequest,
)
from cathedra.devicemetadata.stream import decode_metadata_stream

__all__ = [
    "read_request_directory",
    "read_resource_claim_metadata",
    "read_resource_claim_metadata_with_driver_name",
    "read_resource_claim_template_metadata",
    "read_resource_claim_template_metadata_with_driver_name",
]


def read_resource_claim_metadata(claim: str, request: str, *, base: Path | None = None) -> DeviceMetadata:
    """What all drivers say about ``request`` of a claim that the pod names itself.

    Raises:
        MetadataNotFound: no driver wrote a file, or this container does not use the request.
        MetadataError: a file cannot be decoded; the text names it.
    """
    return read_request_directory(claim_request_directory(claim, request, base or base_directory()))


def read_resource_claim_template_metadata(pod_claim: str, request: str, *, base: Path | None = None) -> DeviceMetadata:
    """What all drivers say about ``request`` of a claim made from a template.

    ``pod_claim`` is the name in the pod's ``spec.resourceClaims``.

    Raises:
        MetadataNotFound: no driver wrote a file, or this container does not use the request.
        MetadataError: a file cannot be decoded; the text names it.
    """
    return read_request_directory(template_request_directory(pod_claim, request, base or base_directory()))


def read_resource_claim_metadata_with_driver_name(
    driver: str, claim: str, request: str, *, base: Path | None = None
) -> DeviceMetadata:
    """What ``driver`` says about ``request`` of a claim that the pod names itself.

    Raises:
        MetadataNotFound: that driver wrote no file, or this container does not use the request.
        MetadataError: the file cannot be decoded; the text names it.
    """
    return _read_file(claim_request_directory(claim, request, base or base_directory()) / metadata_file_name(driver))


def read_resource_claim_template_metadata_with_driver_name(
    driver: str, pod_claim: str, request: str, *, base: Path | None = None
) -> DeviceMetadata:
    """What ``driver`` says about ``request`` of a claim made from a template.

    ``pod_claim`` is the name in the pod's ``spec.resourceClaims``.

    Raises:
        MetadataNotFound: that driver wrote no file, or this container does not use the request.
        MetadataError: the file cannot be decoded; the text names it.
    """
    return _read_file(
        template_request_directory(pod_claim, request, base or base_directory()) / metadata_file_name(driver)
    )


def read_request_directory(directory: Path) -> DeviceMetadata:
    """All metadata files of one request, merged by request name; the claim's identity is the first file's.

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
