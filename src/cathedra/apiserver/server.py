"""The API server put together: store, objects, gatekeepers, verbs, and the ways in.

Tests and simulations open one with a memory store in virtual time and use `transport`; `serve` opens the HTTPS door.
"""

from __future__ import annotations

import random
from typing import Self

from cathedra.api.gates import FeatureGates
from cathedra.apiserver.admission.lifecycle import NamespaceLifecycle
from cathedra.apiserver.admission.plugin import AdmissionChain
from cathedra.apiserver.authentication.user import AUTHENTICATED_GROUP, MASTERS_GROUP, UserInfo
from cathedra.apiserver.authorization.authorizer import AlwaysAllow
from cathedra.apiserver.bootstrap import create_namespaces
from cathedra.apiserver.catalog import Catalog, served_definitions
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.registry.registry import Registry
from cathedra.apiserver.storage.memory import MemoryStorage
from cathedra.apiserver.storage.protocol import Storage
from cathedra.apiserver.transport import InProcessTransport
from cathedra.apiserver.verbs.world import World
from cathedra.clock import Clock

__all__ = ["APIServer"]


class APIServer:
    """One API server. Made by `open`, ended by `close`."""

    def __init__(self, config: ServerConfig, world: World, catalog: Catalog) -> None:
        self.config = config
        self.world = world
        self.catalog = catalog

    @classmethod
    async def open(
        cls, config: ServerConfig, *, clock: Clock, random: random.Random, store: Storage | None = None
    ) -> Self:
        """Load the store and create what every cluster has; without ``store`` nothing is kept.

        Raises:
            StorageError: the store cannot be read.
        """
        gates = config.gates or FeatureGates.for_release(config.release)
        definitions = config.definitions
        if definitions is None:
            from cathedra.api.definitions import all_definitions

            definitions = all_definitions(gates)
        served = served_definitions(definitions, gates, dict(config.runtime_config))
        registry = Registry(store or MemoryStorage(), served)
        await registry.load()
        world = World(
            registry=registry,
            admission=AdmissionChain([NamespaceLifecycle(registry)]),
            authorizer=AlwaysAllow(),
            gates=gates,
            clock=clock,
            random=random,
        )
        await create_namespaces(world)
        return cls(config, world, Catalog(served))

    def transport(
        self, user: str = "system:admin", groups: tuple[str, ...] = (MASTERS_GROUP,), *, uid: str = ""
    ) -> InProcessTransport:
        """The API in process, as that user."""
        if AUTHENTICATED_GROUP not in groups:
            groups = (*groups, AUTHENTICATED_GROUP)
        return InProcessTransport(self.world, self.catalog, UserInfo(user, groups, uid))

    @property
    def revision(self) -> int:
        """The revision of the last write."""
        return self.world.registry.revision

    async def close(self) -> None:
        """End all watches and let go of the store."""
        await self.world.registry.close()
