"""What the parts of one cluster stand on, whichever process of it they run in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.sockets import short_root
from cathedra.cluster.parts.generations import Generation
from cathedra.releases import FeatureGates

__all__ = ["Foundation", "Served", "node_root"]


class Served(msgspec.Struct, frozen=True):
    """What the parts have to know of the API server that runs."""

    host: str
    port: int
    has_devices: bool
    """Whether it serves resource.k8s.io."""
    collected: tuple[ResourceRef[Any], ...] | None
    """What the garbage collector looks after; None: what is served by default."""


class Foundation(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, and the way to its API for each user."""

    config: ClusterConfig
    gates: FeatureGates
    generation: Generation
    served: Served
    pki: PKI
    plain_client: Callable[[UserInfo], Client]
    """The API as a user, before the generation has its say."""
    clock: Clock
    random: Random

    @property
    def has_drivers(self) -> bool:
        """Whether nodes come with drivers."""
        return self.generation.has_example_driver and self.served.has_devices

    def client_of(self, user: UserInfo) -> Client:
        """The API as a user."""
        return self.generation.client(self.plain_client(user))

    def node_root(self, name: str) -> Path:
        """Where a node that has files keeps them."""
        return node_root(self.config, name)


def node_root(config: ClusterConfig, name: str) -> Path:
    """Where a node of a cluster that has files keeps them."""
    return short_root(config.data_dir) / "nodes" / name
