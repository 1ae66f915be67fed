"""Registered driver instances of a node, and the deletion of slices of absent drivers.

docs/spec/node.md §4 and §5. A driver has a list of instances in order of registration: during a rolling update two run
side by side, each on its own sockets. The latest connected instance is called. If a driver stays absent, its
ResourceSlices are deleted, so that they attract no more pods. A driver that returns within the delay keeps its slices:
a restart of the driver disturbs no pod.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec

from cathedra.api.status import StatusError
from cathedra.client.backoff import DoublingPauses
from cathedra.client.client import Client
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import Clock
from cathedra.node.concurrency import Event
from cathedra.node.plugins.client import HealthClient, PluginClient, PluginNotRegistered, RegistrationError


class PluginInstance(msgspec.Struct, eq=False):
    """An instance of a driver; ``connected`` follows its connection."""

    driver: str
    endpoint: str
    client: PluginClient
    health: HealthClient | None = None
    connected: bool = False


class RegistryListener(msgspec.Struct, frozen=True):
    """Callbacks for changes of drivers. They are called synchronously, after the change."""

    on_usable: Callable[[str], None] | None = None
    """A driver has a connected instance (again)."""
    on_unusable: Callable[[str], None] | None = None
    """The driver has no connected instance."""
    on_preferred: Callable[[str, PluginInstance | None], None] | None = None
    """The latest instance of a driver is another one, or none is left."""


class PluginRegistry(msgspec.Struct):
    """Driver name → instances, oldest first."""

    _instances: dict[str, list[PluginInstance]] = msgspec.field(default_factory=dict)
    _listeners: list[RegistryListener] = msgspec.field(default_factory=list)

    def listen(self, listener: RegistryListener) -> None:
        """Register a listener for drivers that come and go."""
        self._listeners.append(listener)

    def drivers(self) -> tuple[str, ...]:
        """Return names of all registered drivers, sorted."""
        return tuple(sorted(self._instances))

    def instances(self, driver: str) -> Iterable[PluginInstance]:
        """Return the instances of a driver, oldest first."""
        return tuple(self._instances.get(driver, ()))

    def get(self, driver: str) -> PluginInstance:
        """Return the instance that serves: the latest connected one, else the latest.

        Raises:
            PluginNotRegistered: there is none.
        """
        if not driver:
            raise PluginNotRegistered("DRA driver name is empty")
        instances = self._instances.get(driver)
        if not instances:
            raise PluginNotRegistered(f"DRA driver {driver} is not registered")
        # During an update the new instance may not be connected yet, and the old one still serves.
        return next((instance for instance in reversed(instances) if instance.connected), instances[-1])

    def add(self, instance: PluginInstance) -> None:
        """Enter an instance.

        Raises:
            RegistrationError: the driver is registered with that endpoint already.
        """
        instances = self._instances.setdefault(instance.driver, [])
        # Two instances on one socket would receive every call twice.
        if any(other.endpoint == instance.endpoint for other in instances):
            raise RegistrationError(
                f"endpoint {instance.endpoint} already registered for DRA driver plugin {instance.driver}"
            )
        # Read before the change: listeners are notified of transitions, not of states.
        usable = self._usable(instance.driver)
        instances.append(instance)
        self._tell_preferred(instance.driver)
        self._tell_usability(instance.driver, before=usable)
        # A driver that registers and never connects must lose its old slices too.
        if not self._usable(instance.driver):
            self._tell_unusable(instance.driver)

    def remove(self, driver: str, endpoint: str) -> PluginInstance | None:
        """Remove and return an instance; None if it is not registered."""
        instances = self._instances.get(driver, [])
        gone = next((instance for instance in instances if instance.endpoint == endpoint), None)
        if gone is None:
            return None
        usable = self._usable(driver)
        was_preferred = instances[-1] is gone
        instances.remove(gone)
        if not instances:
            del self._instances[driver]
        if was_preferred:
            self._tell_preferred(driver)
        self._tell_usability(driver, before=usable)
        return gone

    def set_connected(self, instance: PluginInstance, connected: bool) -> None:
        """Note that the connection to an instance began or ended."""
        if instance.connected == connected:
            return
        before = self._usable(instance.driver)
        instance.connected = connected
        self._tell_usability(instance.driver, before=before)

    def _usable(self, driver: str) -> bool:
        return any(instance.connected for instance in self._instances.get(driver, ()))

    def _tell_usability(self, driver: str, *, before: bool) -> None:
        now = self._usable(driver)
        if now and not before:
            for listener in self._listeners:
                if listener.on_usable is not None:
                    listener.on_usable(driver)
        if before and not now:
            self._tell_unusable(driver)

    def _tell_unusable(self, driver: str) -> None:
        for listener in self._listeners:
            if listener.on_unusable is not None:
                listener.on_unusable(driver)

    def _tell_preferred(self, driver: str) -> None:
        instances = self._instances.get(driver)
        for listener in self._listeners:
            if listener.on_preferred is not None:
                listener.on_preferred(driver, instances[-1] if instances else None)


WIPING_DELAY: Final = 30.0
"""Seconds of absence after which a driver's slices are deleted."""

_STEPS: Final = 100
_FIRST: Final = 1.0
_JITTER: Final = 0.2
_CAP: Final = 300.0
_LOG = logging.getLogger(__name__)


class SliceWiper:
    """Deletes this node's slices: all of them once at start, and those of a driver when it has been away too long."""

    def __init__(
        self,
        client: Client,
        node_name: str,
        *,
        clock: Clock,
        random: random.Random,
        wait_for_node: Callable[[], Awaitable[object]],
        delay: float = WIPING_DELAY,
    ) -> None:
        self._slices = client.resource(RESOURCESLICES)
        self._node_name = node_name
        self._clock = clock
        self._random = random
        self._wait_for_node = wait_for_node
        self._delay = delay
        self._group: asyncio.TaskGroup | None = None
        self._timers: dict[str, asyncio.Task[None]] = {}
        self._wiped = Event()

    async def wait_wiped(self) -> None:
        """Wait until the slices of earlier drivers are gone; those that are published from then on stay."""
        await self._wiped.wait()

    def follow(self, registry: PluginRegistry) -> None:
        """Start and stop timers as drivers of ``registry`` go and come."""
        registry.listen(RegistryListener(on_usable=self._cancel, on_unusable=self._start))

    async def run(self) -> None:
        """Wipe the node's slices once, then serve the timers until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                await self._wipe(f"spec.nodeName={self._node_name}")
                self._wiped.set()
                await asyncio.get_running_loop().create_future()
            finally:
                self._group = None

    def _start(self, driver: str) -> None:
        if driver in self._timers or self._group is None:
            return
        self._timers[driver] = self._group.create_task(self._expire(driver))

    def _cancel(self, driver: str) -> None:
        timer = self._timers.pop(driver, None)
        if timer is not None:
            timer.cancel()

    async def _expire(self, driver: str) -> None:
        await self._clock.sleep(self._delay)
        _LOG.info("driver %s has been away for %.0f s: removing its ResourceSlices", driver, self._delay)
        await self._wipe(f"spec.nodeName={self._node_name},spec.driver={driver}")
        self._timers.pop(driver, None)

    async def _wipe(self, field_selector: str) -> None:
        await self._wait_for_node()
        pauses = DoublingPauses(_FIRST, _CAP)
        for _ in range(_STEPS):
            try:
                await self._slices.delete_collection(field_selector=field_selector)
            except (StatusError, ConnectionError) as error:
                if isinstance(error, StatusError) and error.is_not_found:
                    return
                _LOG.warning("removing ResourceSlices (%s) failed, trying again: %s", field_selector, error)
                await self._clock.sleep(pauses.take() * (1 + self._random.random() * _JITTER))
            else:
                return
