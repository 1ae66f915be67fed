"""Plugins with informers of their own, which follow them and wake pods.

Informers call handlers in the order in which they were added. Plugins come before the queue's own event handlers, so
that a plugin's state is up to date when a pod is woken.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from random import Random
from typing import Protocol

from cathedra.client.client import Client
from cathedra.client.events import EventRecorder
from cathedra.client.informer import SharedInformers
from cathedra.clock import Clock
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import ProfileConfiguration
from cathedra.scheduler.framework.events import ClusterEvent
from cathedra.scheduler.framework.observer import PluginObserver
from cathedra.scheduler.framework.plugin import DeviceUsage, Plugin, no_devices

__all__ = ["ClaimPlugin", "InformedPlugin", "MakeClaimPlugin", "Notify"]

Notify = Callable[[ClusterEvent], None]
"""Tells the queue of a change."""


class InformedPlugin(Protocol):
    """A plugin that keeps state of its own from informers."""

    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""
        ...


class ClaimPlugin(Plugin):
    """The plugin that sees to the claims of pods, under the name DynamicResources. All profiles share one."""

    @abstractmethod
    def listen(self, informers: SharedInformers, wake: Notify) -> None:
        """Add handlers; called once, before the first pod is taken."""

    @abstractmethod
    def backs(self, resource: str) -> bool:
        """Whether claims may provide the extended resource, so that nodes need not have it."""

    def usage(self) -> DeviceUsage:
        """What devices provide of extended resources at this moment, for scores."""
        return no_devices

    def observe(self, observer: PluginObserver) -> None:
        """Tell ``observer`` of waits for devices; a plugin that waits for none tells nothing."""
        return


class MakeClaimPlugin(Protocol):
    """Makes the plugin of a scheduler."""

    def __call__(
        self,
        client: Client,
        informers: SharedInformers,
        recorder: EventRecorder,
        configuration: ProfileConfiguration,
        *,
        clock: Clock,
        random: Random,
        gates: FeatureGates,
    ) -> ClaimPlugin:
        """The plugin, not listening yet."""
        ...
