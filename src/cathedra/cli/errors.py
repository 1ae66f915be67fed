"""Errors that are printed in one line: of input, of the environment and of the API server. Others are faults of the
program.
"""

from __future__ import annotations

from cathedra.allocation.errors import InvalidInput
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.pki import BadKeyPair
from cathedra.apiserver.authentication.signing import BadSigningKey
from cathedra.apiserver.catalog import UnknownAPIGroup
from cathedra.apiserver.pipeline.audit import PolicyError
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.client.kubeconfig import KubeconfigError
from cathedra.client.leaderelection import LostLeadership
from cathedra.cluster.config import InvalidOption
from cathedra.cluster.manifests import ManifestError
from cathedra.controllers.controller_manager import UnknownController
from cathedra.driver.errors import DriverError
from cathedra.drivercheck.errors import DriverCheckError
from cathedra.faultsim.plan import InvalidPlan
from cathedra.node.claims.checkpoint import CorruptCheckpoint
from cathedra.node.runtime.runtime import UnusableRuntime
from cathedra.node.server.tls import UnprotectedServer
from cathedra.profiles import ProfileError
from cathedra.releases import UnknownGate
from cathedra.scheduler.configuration.reading import ConfigurationError


def error_line(error: BaseException) -> str | None:
    """The line to show for ``error``, or None if it is a fault of the program that deserves its traceback."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    told = (
        *(OSError, StatusError, StorageError, KubeconfigError, LostLeadership, DriverError, DriverCheckError),
        *(BadKeyPair, BadSigningKey, CorruptCheckpoint, UnprotectedServer, UnusableRuntime),
        *(InvalidInput, InvalidOption, InvalidPlan, ConfigurationError, ManifestError, PolicyError, ProfileError),
        *(UnknownController, UnknownGate, UnknownAPIGroup),
    )
    if isinstance(error, OSError) and error.strerror is not None:
        # Without Python's form «[Errno 2] No such file or directory: 'x'».
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error) if isinstance(error, told) else None
