"""Base class of drivers.

A driver returns its devices (`Driver.devices`), the edits of containers that use a claimed device (`Driver.prepare`),
and undoes the preparation (`Driver.unprepare`). Registration, both gRPC versions, slices, checkpoint and CDI files are
the runner's work (docs/spec/driver-sdk.md §1 and §21).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cathedra.client.client import Client
from cathedra.driver.claim import Claim, ConfigModels, Edits, Prepared, Ref
from cathedra.driver.device import Device, Pool
from cathedra.driver.errors import DriverError, DroppedFieldsError
from cathedra.driver.health import DeviceHealth
from cathedra.driver.serving.registration import SERVICES

if TYPE_CHECKING:
    import grpc.aio

T = TypeVar("T")

Preparation = AsyncIterator[Prepared] | Awaitable[Iterable[Prepared]] | Iterable[Prepared]
"""Result of `Driver.prepare`: a generator or a list, async or not."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PreparedDeviceRecord:
    """A device of a prepared claim."""

    pool: str
    device: str
    request: str
    share_id: str | None = None
    admin: bool = False
    memory: Mapping[str, Any] = field(default_factory=dict)
    """The value of `Prepared.memory`; empty if the driver was interrupted before it returned one."""


@dataclass(frozen=True, slots=True)
class PreparedClaim:
    """Record of a claim between prepare and unprepare; it survives restarts."""

    ref: Ref
    devices: tuple[PreparedDeviceRecord, ...]
    complete: bool
    """False if the driver was interrupted while preparing; then some of the devices may have been changed."""


class Driver:
    """A DRA driver. Set `name`, override `devices` and `prepare`; the rest has defaults that do nothing.

    Methods may be plain or async. A plain method runs on the event loop, so it must not block for long.
    """

    name: str = ""
    """The driver's name: a DNS subdomain of at most 63 characters, in a domain that its vendor owns."""

    configs: ConfigModels = {}
    """(apiVersion, kind) → model of the opaque parameters that claims and classes may carry for this driver."""

    metadata_versions: Sequence[str] = ()
    """Versions of the device metadata files to write, in this order; none writes no files."""

    replay: bool = True
    """True if a claim that is prepared already is answered from the checkpoint, without calling `prepare` again."""

    validate_names: bool = True
    """True if attributes and capacities with the driver's own domain are refused; they must be written without it.
    Disable it only for names that manifests write in full, as ``capacity.requests`` must (docs/spec/driver-sdk.md §2).
    """

    serialize: bool = True
    """True if one call runs at a time. Switch it off only if one claim's preparation must wait for another's."""

    exclusive: bool = True
    """True if a device can be prepared for one claim only, except for admin access and shares.

    Disable it if devices are given to several claims that do not show it: in 1.31, to administrators and by controllers
    of drivers.
    """

    services: Sequence[str] = SERVICES
    """The gRPC services to serve and announce, in order of preference; those of health only if it is reported."""

    cdi_vendor: str = ""
    """Vendor of the CDI names; by default the driver's name."""

    cdi_class: str = "claim"
    """Class of the CDI names."""

    node_name: str = ""
    """The node the driver runs on; set by the runner before anything is called."""

    directory: Path | None = None
    """The driver's own directory on the node; None where nothing listens, as on a simulated node. Set by the runner."""

    _republish: Callable[[], None] | None = None

    def devices(self) -> Iterable[Device] | Awaitable[Iterable[Device]]:
        """Return the devices of this node, in a stable order. They form one pool, named after the node."""
        return ()

    def resources(self) -> Pool | Iterable[Pool] | Awaitable[Pool | Iterable[Pool]]:
        """Return all pools; override it instead of `devices` for several pools, counters or devices that nodes
        share."""
        return self._single_pool()

    async def _single_pool(self) -> Pool:
        return Pool(devices=tuple(await resolve(self.devices())))

    def common_edits(self) -> Edits | None:
        """Return edits for every container that gets a device of this driver."""
        return None

    def prepare(self, claim: Claim) -> Preparation:
        """Prepare the claim's devices, and yield the edits for each.

        Must be idempotent. An exception fails this claim and no other; `Retry` repeats the call within its time limit.
        """
        return ()

    def resume(self, prepared: Sequence[PreparedClaim]) -> None:
        """Restore the driver's own state from claims that an earlier process prepared. Called first."""
        return

    def unprepare(self, ref: Ref, prepared: PreparedClaim) -> Awaitable[None] | None:
        """Undo `prepare`. The claim itself may be gone. Must be idempotent."""
        return None

    def rollback(self, ref: Ref, prepared: PreparedClaim) -> Awaitable[None] | None:
        """Undo a `prepare` that was interrupted; by default the same as `unprepare`."""
        return self.unprepare(ref, prepared)

    def health(self) -> AsyncIterator[Iterable[DeviceHealth]]:
        """Reports about devices, as they change. Overriding it turns the health service on."""
        raise NotImplementedError("this driver reports no health")

    def background(self, client: Client, directory: Path | None) -> Awaitable[None] | None:
        """Run beside the calls for as long as the driver runs: a controller, a socket of its own.

        Args: client: the API as the driver's user. directory: the driver's own directory on the node; None if it serves
        no sockets, as on a simulated node.

        Raises:
            Exception: any exception ends the driver.
        """
        return None

    def interceptors(self) -> Sequence[grpc.aio.ServerInterceptor[Any, Any]]:
        """Return interceptors of both gRPC servers, the outermost first."""
        return ()

    def on_error(self, error: Exception, message: str, *, recoverable: bool) -> None:
        """Handle an error in the background. If it is recoverable, the runner retries; otherwise it has ended."""
        if not recoverable and isinstance(error, DriverError):
            return  # the program prints it as its last line
        level = logging.WARNING if recoverable else logging.ERROR
        fields = {"driver": self.name, **({"pool": error.pool} if isinstance(error, DroppedFieldsError) else {})}
        _LOG.log(level, "%s: %s: %s", self.name, message, error, extra={"fields": fields})

    def on_dropped(self, error: DroppedFieldsError) -> None:
        """Handle that the API server dropped fields of a slice; a driver may publish something simpler then."""

    def republish(self) -> None:
        """Call `resources` again and update the slices."""
        if self._republish is not None:
            self._republish()

    @property
    def reports_health(self) -> bool:
        """Return True if the driver overrides `health`."""
        return type(self).health is not Driver.health

    def install(self, node_name: str, republish: Callable[[], None], directory: Path | None = None) -> None:
        """Called by the runner before anything else."""
        self.node_name = node_name
        self.directory = directory
        self._republish = republish


async def resolve(answer: T | Awaitable[T]) -> T:
    """Return the answer of a method that may be plain or async."""
    if inspect.isawaitable(answer):
        resolved: T = await answer
        return resolved
    return answer


async def collect(preparation: Preparation) -> tuple[Prepared, ...]:
    """Return everything that a `Driver.prepare` of any of its forms yields."""
    if isinstance(preparation, AsyncIterator):
        return tuple([prepared async for prepared in preparation])
    return tuple(await resolve(preparation))
