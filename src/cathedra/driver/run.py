"""Runs a driver on a node: sockets, slices, checkpoint, health.

`run` is called by a driver's own program. `DriverRunner` does the same in a process that hosts several parts. Without a
registry directory it serves no sockets: the node agent of the same process calls `DriverRunner.service` directly, which
lets thousands of simulated nodes run in virtual time (docs/spec/driver-sdk.md §3 and §21).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from cathedra.client.backoff import DoublingPauses
from cathedra.client.client import Client
from cathedra.clock import Clock, SystemClock
from cathedra.driver.device import Pool
from cathedra.driver.driver import Driver, resolve
from cathedra.driver.errors import DriverError, DroppedFieldsError, OptionError, PoolError
from cathedra.driver.files import DiskFiles, Files
from cathedra.driver.health import HealthBoard
from cathedra.driver.metrics import Observer, Silent
from cathedra.driver.preparing.checkpoint import Checkpoint, FileLock, NoLock, ProcessLock, Serializer
from cathedra.driver.preparing.service import ORPHANED, ClaimFiles, ClaimService
from cathedra.driver.preparing.specs import ClaimSpecs, MetadataFiles, vendor_for
from cathedra.driver.progress import print_progress
from cathedra.driver.publishing.controller import ResourceSliceController, SliceScope, keep_published
from cathedra.driver.publishing.layout import DesiredPool
from cathedra.driver.serving.registration import PluginInfo, Registration, socket_paths, supported_services
from cathedra.files.inotify import is_removal, wait_for_files

KUBELET_ROOT = Path("/var/lib/kubelet")
DEFAULT_CDI_DIRECTORY = Path("/var/run/cdi")

HEALTH_RESTART_PAUSE = 5.0
"""Seconds after which a driver's failed health source is started again."""

RECONCILE_PAUSE = 600.0
"""Mean seconds between two comparisons of prepared claims with the API server: one read for each prepared claim."""

_DOCUMENTS_RETRY = (1.0, 30.0)
"""First and longest pause, in seconds, before CDI documents that were removed are written again."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, kw_only=True)
class DriverPlacement:
    """Placement of one instance of a driver: its node, and its directories there."""

    node_name: str
    plugin_dir: Path
    """The driver's own directory: service socket, checkpoint, metadata files."""
    registry_dir: Path | None = None
    """The node agent's directory of registration sockets; None: the driver serves no sockets."""
    cdi_dir: Path = DEFAULT_CDI_DIRECTORY
    files: Files | None = None
    """Storage of checkpoint and CDI files; None: the disk."""
    pod_uid: str = ""
    """Identifies this instance during a rolling update, when another one may run beside it."""
    boot_id: str | None = None
    """Changes with each start of the machine; None: the kernel's."""
    pool_name: str = ""
    """If set, only this pool is published, visible to the whole cluster (docs/spec/driver-sdk.md §11.8)."""


class DriverRunner:
    """A running driver on one node."""

    def __init__(
        self,
        driver: Driver,
        client: Client,
        instance: DriverPlacement,
        *,
        clock: Clock,
        random: Random,
        observer: Observer | None = None,
    ) -> None:
        """Set up; nothing happens before `run`.

        Raises:
            OptionError: the driver's name or the node's name is missing or invalid.
        """
        _check_name(driver.name)
        if not instance.node_name:
            raise OptionError("no NodeName was set to publish resources")
        self.driver = driver
        self.node_name = node_name = instance.node_name
        self._client = client
        self._instance = instance
        self._clock = clock
        self._random = random
        self._observer = observer or Silent()
        self._files = instance.files or DiskFiles()
        self.health = HealthBoard() if driver.reports_health else None
        self._unplaced: set[str] = set()
        """Devices whose health was reported without a pool to be found in."""
        self._wanted = asyncio.Event()
        registry_dir, plugin_dir = instance.registry_dir, instance.plugin_dir
        driver.install(node_name, self._wanted.set, None if registry_dir is None else plugin_dir)
        self.slices = ResourceSliceController(
            client,
            driver.name,
            SliceScope(node_name, instance.pool_name),
            clock=clock,
            on_error=self._on_error,
            validate_names=driver.validate_names,
        )
        self.service = self._make_service()
        self.registry_dir = registry_dir
        """The node agent's directory of registration sockets; None if no sockets are served."""
        self.registration: Registration | None = None
        """The handshake with the node agent; None if no sockets are served."""
        if registry_dir is not None:
            self.registration = self._make_registration(plugin_dir.absolute(), registry_dir.absolute())

    def _make_registration(self, plugin_dir: Path, registry_dir: Path) -> Registration:
        driver = self.driver
        sockets = socket_paths(driver.name, plugin_dir, registry_dir, self._instance.pod_uid)
        self._registration_socket = sockets.registration
        services = supported_services(driver.services, health=self.health is not None)
        return Registration(PluginInfo(driver.name, str(sockets.service), services))

    async def run(self) -> None:
        """Run until cancelled. Calls in progress finish, sockets are removed, slices stay for the next start.

        Raises:
            OSError: a socket or the checkpoint cannot be written.
            Exception: the exception of `Driver.devices` at the first attempt.
        """
        try:
            self.service.open()
            async with self._listening(), asyncio.TaskGroup() as group:
                group.create_task(self.slices.run())
                group.create_task(
                    keep_published(self.slices, self._desired, self._wanted, clock=self._clock, on_error=self._on_error)
                )
                group.create_task(self._background())
                if self.registry_dir is not None:
                    group.create_task(self._keep_documents())
                    group.create_task(self._keep_reconciled())
                if self.registration is not None:
                    group.create_task(self._follow_registration(self.registration))
                if self.health is not None:
                    group.create_task(self._follow_health(self.health))
        except Exception as error:
            self._observer.background_error(recoverable=False)
            cause = only_error(error)
            if isinstance(cause, Exception):
                self.driver.on_error(cause, "the driver has ended", recoverable=False)
            raise

    @property
    def missing(self) -> str:
        """Return what `wait_ready` would wait for; "" if nothing."""
        if not self.slices.in_sync:
            return "the devices are not published yet"
        if self.registration is not None and not self.registration.registered:
            return f"no kubelet in {self.registry_dir} has taken the driver yet"
        return ""

    async def wait_ready(self) -> None:
        """Wait until all pools are published and, if sockets are served, the node agent has registered the driver."""
        await self.slices.wait_published()
        if self.registration is not None:
            await self.registration.wait_registered(60.0, str(self.registry_dir))

    @contextlib.asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        if self.registration is None:
            yield
            return
        # Imported here because gRPC is heavy and a simulated node never listens.
        from cathedra.driver.serving.plugin import HealthSource, PluginServers

        servers = PluginServers(
            self.service,
            self.registration,
            self._registration_socket,
            clock=self._clock,
            health=HealthSource(self.health, self.pool_of) if self.health is not None else None,
            interceptors=self.driver.interceptors(),
        )
        async with servers.serving():
            yield

    async def _follow_registration(self, registration: Registration) -> None:
        while True:
            if registration.registered:
                self.slices.agent_came()
            await registration.changed().wait()

    async def _keep_documents(self) -> None:
        """Write CDI documents again that were removed: containers that start need them."""
        pauses = DoublingPauses(*_DOCUMENTS_RETRY)
        while True:
            folders = (self._instance.cdi_dir, self._instance.cdi_dir.parent)
            await wait_for_files(self.service.documents_missing, folders, is_removal)
            try:
                self.service.restore_documents()
                pauses.reset()
            except OSError as error:
                self._on_error(error, "writing CDI documents again that were removed")
                await self._clock.sleep(pauses.take())

    async def _keep_reconciled(self) -> None:
        """Compare the prepared claims with those of the API server, at the start and now and then.

        A claim that was deleted while neither the driver nor the node agent noticed would keep its devices for good.
        """
        while True:
            pause = RECONCILE_PAUSE * (0.5 + self._random.random())
            try:
                if await self.service.reconcile():
                    pause = ORPHANED
            except OSError as error:
                self._on_error(error, "comparing prepared claims with the API server")
            await self._clock.sleep(pause)

    async def _background(self) -> None:
        await resolve(self.driver.background(self._client, self.driver.directory))

    async def _desired(self) -> Mapping[str, DesiredPool]:
        answer: Pool | Iterable[Pool] = await resolve(self.driver.resources())
        pools = (answer,) if isinstance(answer, Pool) else answer
        return self.slices.lay_out(pools, self.node_name)

    async def _follow_health(self, board: HealthBoard) -> None:
        while True:
            try:
                async for reports in self.driver.health():
                    board.post(reports)
            except Exception as error:
                # Silence makes the node agent show «Unknown», which is the truth now.
                board.suspend()
                self._on_error(error, "watching the health of devices")
                await self._clock.sleep(HEALTH_RESTART_PAUSE * (0.5 + self._random.random()))
            else:
                return

    def pool_of(self, device: str) -> str:
        """Return the pool of a health report without one. An ambiguous or unknown device is reported as an
        error once.
        """
        pools = self.slices.pools_of(device)
        if len(pools) == 1:
            return pools[0]
        if self.node_name not in pools and device not in self._unplaced and self.slices.in_sync:
            self._unplaced.add(device)
            where = f"it is in the pools {', '.join(pools)}; name one" if pools else "no such device is published"
            self._on_error(PoolError(f'device "{device}": {where}'), "reporting the health of a device")
        return self.node_name

    def _make_service(self) -> ClaimService:
        driver, instance = self.driver, self._instance
        plugin_dir, cdi_dir = instance.plugin_dir, instance.cdi_dir
        vendor = driver.cdi_vendor or vendor_for(driver.name)
        metadata = None
        if driver.metadata_versions:
            metadata = MetadataFiles(
                self._files, driver.name, plugin_dir.absolute(), cdi_dir.absolute(), driver.metadata_versions
            )
        return ClaimService(
            driver,
            self._client,
            ClaimFiles(
                checkpoint=Checkpoint(
                    self._files, plugin_dir, _boot_id() if instance.boot_id is None else instance.boot_id
                ),
                specs=ClaimSpecs(self._files, cdi_dir, vendor, driver.cdi_class),
                metadata=metadata,
                shared=bool(instance.pod_uid),
            ),
            clock=self._clock,
            lock=self._make_lock(),
            observer=self._observer,
        )

    def _make_lock(self) -> Serializer:
        if not self.driver.serialize:
            return NoLock()
        # Instances of a rolling update have a pod UID and share the directory: a lock in memory would not do.
        return FileLock(self._instance.plugin_dir, self._clock) if self._instance.pod_uid else ProcessLock()

    def _on_error(self, error: Exception, message: str) -> None:
        self._observer.background_error(recoverable=True)
        self.driver.on_error(error, message, recoverable=True)
        if isinstance(error, DroppedFieldsError):
            self.driver.on_dropped(error)


def run(driver: Driver, environment: Mapping[str, str] | None = None) -> None:
    """Run ``driver`` as a program of its own, until SIGTERM, SIGINT, SIGHUP or SIGQUIT.

    Its surroundings are those of a DaemonSet's pod: ``NODE_NAME`` and ``POD_UID`` (then updates may overlap) from the
    downward API, ``KUBELET_REGISTRAR_DIRECTORY_PATH``, ``KUBELET_PLUGINS_DIRECTORY_PATH`` and ``CDI_ROOT`` for the
    directories, ``KUBECONFIG`` or the pod's service account for the API server.
    """
    try:
        asyncio.run(_run_until_signal(driver, os.environ if environment is None else environment))
    except (DriverError, BaseExceptionGroup) as error:
        told = only_error(error)
        if not isinstance(told, DriverError):
            raise
        sys.exit(f"{driver.name or type(driver).__name__}: {told}")


def only_error(error: BaseException) -> BaseException:
    """Return the error itself, where it is the only one of a group that tasks were in."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


async def _run_until_signal(driver: Driver, environment: Mapping[str, str]) -> None:
    # For drivers that are programs of their own; those of a cluster in one process get a client.
    from cathedra.client.arrival import server_arrives
    from cathedra.client.http import HTTPTransport
    from cathedra.client.kubeconfig import KubeconfigError, load

    try:
        target = load(environment=environment)
    except KubeconfigError as error:
        raise OptionError(str(error)) from error
    clock = SystemClock()

    def say(line: str) -> None:
        print(f"{driver.name}: {line}", file=sys.stderr, flush=True)

    async def run() -> None:
        async with await HTTPTransport.open(target, user_agent=driver.name) as transport:
            client = Client(transport, clock=clock, field_manager=driver.name)
            runner = _runner_in(environment, driver, client, clock)
            await server_arrives(target, asyncio.Event(), clock=clock, say=say)
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(print_progress(runner, say))
                await runner.run()
                telling.cancel()

    await _until_signal(run())


def _runner_in(environment: Mapping[str, str], driver: Driver, client: Client, clock: Clock) -> DriverRunner:
    plugins = Path(environment.get("KUBELET_PLUGINS_DIRECTORY_PATH", str(KUBELET_ROOT / "plugins")))
    registry = environment.get("KUBELET_REGISTRAR_DIRECTORY_PATH", str(KUBELET_ROOT / "plugins_registry"))
    return DriverRunner(
        driver,
        client,
        DriverPlacement(
            node_name=environment.get("NODE_NAME", ""),
            plugin_dir=plugins / driver.name,
            registry_dir=Path(registry),
            cdi_dir=Path(environment.get("CDI_ROOT", str(DEFAULT_CDI_DIRECTORY))),
            pod_uid=environment.get("POD_UID", ""),
        ),
        clock=clock,
        random=Random(),
    )


async def _until_signal(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _check_name(name: str) -> None:
    if not name:
        raise OptionError("driver name must be set")
    if len(name) > 63 or not _NAME.fullmatch(name):
        raise OptionError(f"driver name {name!r}: must be a DNS subdomain of at most 63 characters")


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        # Not Linux: there are no device nodes to lose either.
        return ""
