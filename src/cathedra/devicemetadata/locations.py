"""Paths of device metadata in a container, which are also the paths where the driver mounts it.

The driver's writer and the reader share these names, so they cannot drift apart (docs/spec/node.md §21.1).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONTAINER_DIRECTORY = Path("/var/run/kubernetes.io/dra-device-attributes")
"""The base directory in every container."""

MOUNTS_VARIABLE = "CATHEDRA_MOUNTS"
"""Variable with the directory above these paths, for nodes that run plain processes and cannot mount."""

FILE_SUFFIX = "-metadata.json"
"""Suffix of every metadata file's name, after the driver's name."""


def base_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the base directory for this very program."""
    mounts = environment.get(MOUNTS_VARIABLE)
    return Path(mounts) / CONTAINER_DIRECTORY.relative_to("/") if mounts else CONTAINER_DIRECTORY


def metadata_file_name(driver: str) -> str:
    """Return the name of the file that ``driver`` writes for one request."""
    return driver + FILE_SUFFIX


def claim_request_directory(claim: str, request: str, base: Path = CONTAINER_DIRECTORY) -> Path:
    """Return the directory of a request's files if the pod names the claim itself.

    ``request`` is the top-level request, also when one of its subrequests was chosen.
    """
    return base / "resourceclaims" / claim / request


def template_request_directory(pod_claim: str, request: str, base: Path = CONTAINER_DIRECTORY) -> Path:
    """Return the directory of a request's files if the claim was made from a template.

    ``pod_claim`` is the name in the pod's ``spec.resourceClaims``, because the claim's own name is not known before.
    """
    return base / "resourceclaimtemplates" / pod_claim / request
