"""Errors that are printed in one line: of input, of the environment and of the API server. Others are faults of the
program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

# By name, since importing them loads every part: a wrong call would take three times as long.
PRINTED: Final = (
    "cathedra.allocation.errors:InvalidInput",
    "cathedra.api.status:StatusError",
    "cathedra.apiserver.authentication.pki:BadKeyPair",
    "cathedra.apiserver.authentication.signing:BadSigningKey",
    "cathedra.apiserver.catalog:UnknownAPIGroup",
    "cathedra.apiserver.pipeline.audit:PolicyError",
    "cathedra.apiserver.storage.protocol:StorageError",
    "cathedra.client.kubeconfig:KubeconfigError",
    "cathedra.client.leaderelection:LostLeadership",
    "cathedra.cluster.config:InvalidOption",
    "cathedra.cluster.manifests:ManifestError",
    "cathedra.controllers.controller_manager:UnknownController",
    "cathedra.driver.errors:DriverError",
    "cathedra.drivercheck.errors:DriverCheckError",
    "cathedra.faultsim.plan:InvalidPlan",
    "cathedra.node.claims.checkpoint:CorruptCheckpoint",
    "cathedra.node.runtime.runtime:UnusableRuntime",
    "cathedra.node.server.tls:UnprotectedServer",
    "cathedra.profiles:ProfileError",
    "cathedra.releases:UnknownGate",
    "cathedra.scheduler.configuration.reading:ConfigurationError",
)
"""Modules and names of the exceptions, apart from `OSError`."""


def error_line(error: BaseException) -> str | None:
    """Return the line to show for ``error``, or None if it is a fault of the program that deserves its traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.strerror is not None:
        # Without Python's form «[Errno 2] No such file or directory: 'x'».
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error) if isinstance(error, (OSError, *_loaded())) else None


def _loaded() -> Iterator[type[BaseException]]:
    """Yield the classes of `PRINTED` whose modules are loaded: an error of any other cannot have been raised."""
    for module, _, name in (one.partition(":") for one in PRINTED):
        found = getattr(sys.modules.get(module), name, None)
        if found is not None:
            yield found
