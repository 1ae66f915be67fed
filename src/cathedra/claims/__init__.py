"""Claims for programs that use a Kubernetes client: manifests are built, read, counted and tried as plain dicts.

Every function returns dicts that the official client, kr8s and lightkube accept, and reads the objects that these
clients return. `fits` and `how_many` are those of `cathedra.allocation`.
"""

from cathedra.allocation import Cluster, InvalidInput, fits, how_many
from cathedra.claims.building import (
    first_available,
    pod_spec_with,
    request,
    resource_claim,
    resource_claim_template,
    resource_slice,
)
from cathedra.claims.counting import AllocatedDevice, allocated, allocated_devices, requested
from cathedra.claims.versions import VERSIONS, in_version, preferred_version

__all__ = [
    "VERSIONS",
    "AllocatedDevice",
    "Cluster",
    "InvalidInput",
    "allocated",
    "allocated_devices",
    "first_available",
    "fits",
    "how_many",
    "in_version",
    "pod_spec_with",
    "preferred_version",
    "request",
    "requested",
    "resource_claim",
    "resource_claim_template",
    "resource_slice",
]
