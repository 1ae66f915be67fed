"""The registration handshake: from a socket that appeared to a driver instance in the registry.

docs/spec/node.md §2.2 and §3. Each socket has one task, so operations on it never overlap; a handshake that fails
is tried again after a pause that doubles.

What a plugin announces is checked before it is used. Names of drivers follow the rules of the API, since they become
parts of paths, keys of checkpoints and lines of the log. Endpoints lie below the plugins' directory, so that a plugin
cannot make the agent connect to another service's socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.goquote import go_quote
from cathedra.client.backoff import DoublingPauses
from cathedra.clock import Clock
from cathedra.files.inotify import Inotify
from cathedra.kinds.resource.names import validate_driver_name
from cathedra.node.concurrency import BlockTasks
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import (
    ConnectedPlugin,
    DialPlugin,
    HealthClient,
    PluginCallError,
    PluginError,
    RegistrationError,
)
from cathedra.node.plugins.grpcclient import (
    ALPHA_SERVICE,
    DRA_SERVICES,
    DRIVER_TYPE,
    HEALTH_SERVICES,
    NO_SERVICE,
    GRPCPluginClient,
    PluginAnnouncement,
    PluginServices,
    RegistrationSocket,
)
from cathedra.node.plugins.registry import PluginInstance, PluginRegistry
from cathedra.releases import FeatureGates, behaviours

_CONNECT: Final = 10.0
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 122.0


# Discovery of registration sockets: the desired state of plugin registration (docs/spec/node.md §2.1).
#
# Every socket below the directory counts, whatever its name, unless it begins with a dot. A socket that was removed and
# created again gets another number, so that it is registered again.


class SocketWatcher:
    """Follows the sockets below ``root`` and calls ``on_change(path, number)``; number None means that it is gone."""

    def __init__(self, root: Path, on_change: Callable[[Path, int | None], None], *, clock: Clock) -> None:
        self._root = root
        self._on_change = on_change
        self._clock = clock
        self._numbers = itertools.count(1)
        self._sockets: dict[Path, tuple[int, int]] = {}

    async def run(self) -> None:
        """Report existing sockets, then every change, until cancelled."""
        self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        try:
            # Containers and network file systems may have no notifications, and the number of watchers has a limit.
            inotify = Inotify()
        except OSError:
            await self._poll()
            return
        loop = asyncio.get_running_loop()
        try:
            self._enter_directory(inotify, self._root)
            loop.add_reader(inotify.fd, self._receive, inotify)
            await loop.create_future()
        finally:
            loop.remove_reader(inotify.fd)
            inotify.close()

    def _enter_directory(self, inotify: Inotify, directory: Path) -> None:
        """Start the watch before listing the directory: a socket that appears in between is reported twice rather than
        never."""
        try:
            inotify.watch(directory)
            entries = sorted(directory.iterdir())
        except OSError:
            return  # gone again
        for path in entries:
            if path.name.startswith("."):
                continue
            if path.is_dir() and not path.is_symlink():
                self._enter_directory(inotify, path)
            else:
                self._appeared(path)

    def _receive(self, inotify: Inotify) -> None:
        for event in inotify.read():
            # The kernel dropped events because the queue was full, so the directory has to be listed.
            if event.path is None:
                self._look()
            elif event.path.name.startswith("."):
                continue
            elif event.is_directory and event.created:
                self._enter_directory(inotify, event.path)
            elif event.created:
                self._appeared(event.path)
            else:
                self._vanished(event.path)
        if not inotify.watches(self._root):
            self._begin_again(inotify)

    def _begin_again(self, inotify: Inotify) -> None:
        """Create the directory again after it was removed: drivers create their sockets in it."""
        try:
            self._root.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            _LOG.error("%s was removed and cannot be made again: %s", self._root, error)
            return
        _LOG.warning("%s was removed and is made again", self._root)
        self._look()
        self._enter_directory(inotify, self._root)

    def _appeared(self, path: Path) -> None:
        identity = _socket_identity(path)
        # Only a new inode is a new plugin: events of permissions and times arrive for a socket that is known.
        if identity is None or self._sockets.get(path) == identity:
            return
        self._sockets[path] = identity
        self._on_change(path, next(self._numbers))

    def _vanished(self, path: Path) -> None:
        if self._sockets.pop(path, None) is not None:
            self._on_change(path, None)

    def _look(self) -> None:
        """Compare the known sockets with the content of the directory."""
        present = {path for path in _walk(self._root) if _socket_identity(path) is not None}
        for path in sorted(set(self._sockets) - present):
            self._vanished(path)
        for path in sorted(present):
            self._appeared(path)

    async def _poll(self) -> None:
        """List the directory once a second, where the kernel has no notifications."""
        while True:
            self._look()
            await self._clock.sleep(1.0)


def _walk(root: Path) -> Iterator[Path]:
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [name for name in subdirectories if not name.startswith(".")]
        yield from (Path(directory, name) for name in names if not name.startswith("."))


def _socket_identity(path: Path) -> tuple[int, int] | None:
    """Inode and change time of a socket, by which two sockets at one path differ."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_ino, found.st_ctime_ns) if stat.S_ISSOCK(found.st_mode) else None


_LOG = logging.getLogger(__name__)


def services_of(gates: FeatureGates) -> tuple[str, ...]:
    """Return the DRA services that a kubelet of the release calls."""
    if gates.has(behaviours.DRA_SERVICE_V1):
        return DRA_SERVICES
    return (
        ("v1beta1.DRAPlugin", ALPHA_SERVICE, NO_SERVICE) if gates.has(behaviours.DRA_SERVICE_V1BETA1) else (NO_SERVICE,)
    )


def choose_services(
    driver: str, endpoint: str, offered: tuple[str, ...], known: tuple[str, ...] = DRA_SERVICES
) -> PluginServices:
    """Return the DRA service to call (the driver's order decides) and the health service, if any (the newest).

    ``known`` are the services that this node can call.

    Raises:
        RegistrationError: there is no service that this node can call.
    """
    what = f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: "
    if not offered:
        raise RegistrationError(what + "empty list of supported gRPC services (aka supported versions)")
    service = next((name for name in offered if name in known), None)
    if service is None:
        raise RegistrationError(
            f"{what}none of services supported by the plugin ([{' '.join(offered)}]) "
            f"are supported by the kubelet ([{' '.join(known)}])"
        )
    return PluginServices(service, next((name for name in HEALTH_SERVICES if name in offered), None))


class CurrentDial:
    """Connects to drivers in the versions of the protocol that are ``known``."""

    def __init__(self, clock: Clock, metrics: NodeMetrics, known: tuple[str, ...] = DRA_SERVICES) -> None:
        self._clock = clock
        self._metrics = metrics
        self._known = known

    def __call__(
        self, driver: str, endpoint: str, offered: tuple[str, ...]
    ) -> tuple[ConnectedPlugin, HealthClient | None]:
        """Return the driver in the version that it prefers, and the client for its health service, if it has one.

        Raises:
            RegistrationError: there is no service that this node can call.
        """
        services = choose_services(driver, endpoint, offered, self._known)
        client = GRPCPluginClient(driver, endpoint, services, clock=self._clock, metrics=self._metrics)
        return client, client if services.health else None

    async def run(self) -> None:
        """Do nothing: connections need nothing beside them."""


class _Socket(msgspec.Struct):
    """Desired state of one path: the socket with ``number``, or none."""

    number: int | None
    changed: asyncio.Event
    task: asyncio.Task[None]


class PluginRegistrar:
    """Registers every driver that has a socket in the registration directory."""

    def __init__(
        self,
        root: Path,
        registry: PluginRegistry,
        *,
        plugins: Path,
        clock: Clock,
        metrics: NodeMetrics,
        dial: DialPlugin | None = None,
    ) -> None:
        """Watch the registration directory ``root`` once `run` is called.

        Args:
            plugins: the directory below which drivers serve; an endpoint outside it is refused.
            dial: connects to a driver; by default in the versions of the protocol of the newest release.
        """
        self._plugins = plugins
        self._dial = dial or CurrentDial(clock, metrics)
        self._registry = registry
        self._clock = clock
        self._metrics = metrics
        self._watcher = SocketWatcher(root, self._on_socket, clock=clock)
        self._sockets: dict[Path, _Socket] = {}
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Follow the directory until cancelled; connections to drivers end with it."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._dial.run())
            try:
                await self._watcher.run()
            finally:
                self._group = None

    def _on_socket(self, path: Path, number: int | None) -> None:
        known = self._sockets.get(path)
        self._metrics.plugin(str(path), "desired_state_of_world", present=number is not None)
        if known is not None:
            # One task serves a path for all its sockets, so that the cleanup of the old instance comes before the new
            # registration.
            known.number = number
            known.changed.set()
        elif number is not None and self._group is not None:
            changed = asyncio.Event()
            self._sockets[path] = _Socket(number, changed, self._group.create_task(self._serve(path)))

    async def _serve(self, path: Path) -> None:
        """Register and unregister the plugin of one path until no socket is wanted there."""
        socket = self._sockets[path]
        pauses = DoublingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        while (number := socket.number) is not None:
            # Cleared before the handshake: a socket that is replaced during it must end `follow` at once.
            socket.changed.clear()
            registration = _Registration(path, self._registry, self._dial, self._plugins)
            try:
                await registration.begin()
                pauses.reset()
                self._metrics.plugin(str(path), "actual_state_of_world", present=True)
                await registration.follow(socket.changed)
            except PluginError as error:
                _LOG.warning("plugin at socket %s: %s", path, error)
                pause = pauses.take()
                # Otherwise another socket has replaced it, and there is no reason to wait.
                if socket.number == number:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause):
                            await socket.changed.wait()
            finally:
                self._metrics.plugin(str(path), "actual_state_of_world", present=False)
                await registration.end()
        del self._sockets[path]


class _Registration:
    """One run of the handshake, and its cleanup when the socket disappears."""

    def __init__(self, path: Path, registry: PluginRegistry, dial: DialPlugin, plugins: Path) -> None:
        self._path = path
        self._plugins = plugins
        self._registry = registry
        self._dial = dial
        self._instance: PluginInstance | None = None
        self._client: ConnectedPlugin | None = None

    async def begin(self) -> None:
        """Get the plugin's information, register it, and notify it.

        Raises:
            PluginError: a step failed. The plugin was notified if it could be reached.
        """
        async with RegistrationSocket(self._path) as socket:
            try:
                await socket.connect(_CONNECT)
                info = await socket.get_info()
            except TimeoutError as error:
                raise RegistrationError(f"failed to dial socket {self._path}: context deadline exceeded") from error
            except PluginCallError as error:
                raise RegistrationError(
                    f"failed to get plugin info using RPC GetInfo at socket {self._path}: {error}"
                ) from error
            failure: RegistrationError | None = None
            try:
                self._register(info)
            except RegistrationError as error:
                failure = error
            told = f"RegisterPlugin error -- {failure}" if failure is not None else ""
            try:
                await socket.notify(registered=failure is None, error=told)
            except PluginCallError as error:
                raise RegistrationError(
                    f"failed to send registration status at socket {self._path}: {error}"
                ) from error
            if failure is not None:
                raise failure

    def _register(self, info: PluginAnnouncement) -> None:
        if info.type != DRIVER_TYPE:
            raise RegistrationError(f"no handler registered for plugin type: {info.type} at socket {self._path}")
        endpoint = info.endpoint or str(self._path)
        try:
            _check_name(info.name)
            if info.endpoint:
                _check_endpoint(info.endpoint, self._plugins)
            client, health = self._dial(info.name, endpoint, info.services)
        except RegistrationError as error:
            raise RegistrationError(f"plugin validation failed with err: {error}") from error
        instance = PluginInstance(info.name, endpoint, client, health)
        # Set before the instance is added: if that is refused, `end` closes the connection.
        self._client = client
        try:
            self._registry.add(instance)
        except RegistrationError as error:
            raise RegistrationError(f"plugin registration failed with err: {error}") from error
        self._instance = instance

    async def follow(self, changed: asyncio.Event) -> None:
        """Report whether the instance is connected, until ``changed``."""
        client, instance = self._client, self._instance
        assert client is not None, "only what has been registered is followed"
        assert instance is not None, "only what has been registered is followed"
        async with BlockTasks() as tasks:
            tasks.start(client.follow_connection(lambda connected: self._registry.set_connected(instance, connected)))
            await changed.wait()

    async def end(self) -> None:
        """Unregister the instance and close its connection. The plugin is not called."""
        if self._instance is not None:
            # Removed before the connection is closed, so that no call is made on a closed one.
            self._registry.remove(self._instance.driver, self._instance.endpoint)
        if self._client is not None:
            await self._client.close()


def _check_name(name: str) -> None:
    """Raise RegistrationError unless ``name`` may name a driver in the API (docs/spec/api.md §3.2)."""
    errors = ErrorList()
    validate_driver_name(errors, FieldPath("name"), name)
    if errors:
        raise RegistrationError(f"invalid name of DRA driver plugin: {'; '.join(str(error) for error in errors)}")


def _check_endpoint(endpoint: str, plugins: Path) -> None:
    """Raise RegistrationError unless ``endpoint`` lies below ``plugins`` after symbolic links are followed."""
    try:
        below = Path(endpoint).resolve().is_relative_to(plugins.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links; a null byte
        below = False
    if not below:
        raise RegistrationError(f"invalid endpoint {go_quote(endpoint)}: it must be below {plugins}")
