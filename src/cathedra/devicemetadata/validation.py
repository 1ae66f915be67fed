"""Optional checks of what a driver wrote: readers may apply them, writers do not have to.

Reading never validates, so that a program can still use the rest of a file with one odd name
(docs/spec/node.md §21.3).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cathedra.devicemetadata.metadata import DeviceMetadata, PreparedDevice

__all__ = ["validate"]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")

MAX_DRIVER_NAME = 63
MAX_POOL_NAME = 253
MAX_ATTRIBUTES = 32


def validate(metadata: DeviceMetadata) -> tuple[str, ...]:
    """What is wrong with ``metadata`` by the rules of ``v1beta1``: one line for each finding, none if all is well."""
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
