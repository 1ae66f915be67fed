"""Connections of a 1.31 node agent to drivers. Drivers offer version numbers, and there is one protocol."""

from __future__ import annotations

from cathedra.classic.nodes.client import RegisteredVersions
from cathedra.clock import Clock
from cathedra.node.metrics import NodeMetrics
from cathedra.node.plugins.client import ConnectedPlugin, DialPlugin, HealthClient, MakeDial
from cathedra.node.plugins.grpcclient import NO_SERVICE, GRPCPluginClient, PluginServices
from cathedra.releases import FeatureGates


def control_plane_dial(gates: FeatureGates) -> MakeDial:
    """Return the function that connects to drivers in 1.31."""

    def make(clock: Clock, metrics: NodeMetrics) -> DialPlugin:
        return _Dial(gates, clock, metrics)

    return make


class _Dial:
    def __init__(self, gates: FeatureGates, clock: Clock, metrics: NodeMetrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._versions = RegisteredVersions(gates)

    def __call__(
        self, driver: str, endpoint: str, offered: tuple[str, ...]
    ) -> tuple[ConnectedPlugin, HealthClient | None]:
        self._versions.enter(driver, endpoint, offered)
        return _ClassicPlugin(driver, endpoint, self._versions, clock=self._clock, metrics=self._metrics), None

    async def run(self) -> None:
        """Connections need nothing beside them."""


class _ClassicPlugin(GRPCPluginClient):
    """A driver instance, registered until its connection is closed."""

    def __init__(
        self, driver: str, endpoint: str, versions: RegisteredVersions, *, clock: Clock, metrics: NodeMetrics
    ) -> None:
        super().__init__(driver, endpoint, PluginServices(NO_SERVICE), clock=clock, metrics=metrics)
        self._versions = versions

    async def close(self) -> None:
        await super().close()
        self._versions.leave(self._driver)
