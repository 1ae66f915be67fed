"""The reader of device metadata files, for programs in containers (KEP-5304).

A driver writes the files when it prepares a claim, the container runtime mounts them, and a program in the container
reads them here. It needs the standard library alone, so the folder can be copied into any image. In the order of data
flow: `locations` (paths of the files), `stream` (several versions of one object in one file), `_metadata` (the
object), `_reader` (the four functions that most programs call).

    from cathedra.devicemetadata import read_resource_claim_metadata

    for request in read_resource_claim_metadata("gpu-claim", "gpu").requests:
        for device in request.devices:
            print(device.driver, device.pool, device.name, device.attributes)
"""

from __future__ import annotations

from cathedra.devicemetadata._metadata import (
    AttributeValue,
    ClaimIdentity,
    DeviceMetadata,
    MetadataError,
    MetadataNotFound,
    NetworkData,
    PreparedDevice,
    PreparedRequest,
)
from cathedra.devicemetadata._reader import (
    read_request_directory,
    read_resource_claim_metadata,
    read_resource_claim_metadata_with_driver_name,
    read_resource_claim_template_metadata,
    read_resource_claim_template_metadata_with_driver_name,
    validate,
)
from cathedra.devicemetadata.locations import (
    CONTAINER_DIRECTORY,
    base_directory,
    claim_request_directory,
    metadata_file_name,
    template_request_directory,
)
from cathedra.devicemetadata.stream import KNOWN_VERSIONS, decode_metadata_stream

__all__ = [
    "CONTAINER_DIRECTORY",
    "KNOWN_VERSIONS",
    "AttributeValue",
    "ClaimIdentity",
    "DeviceMetadata",
    "MetadataError",
    "MetadataNotFound",
    "NetworkData",
    "PreparedDevice",
    "PreparedRequest",
    "base_directory",
    "claim_request_directory",
    "decode_metadata_stream",
    "metadata_file_name",
    "read_request_directory",
    "read_resource_claim_metadata",
    "read_resource_claim_metadata_with_driver_name",
    "read_resource_claim_template_metadata",
    "read_resource_claim_template_metadata_with_driver_name",
    "template_request_directory",
    "validate",
]
