"""Scheduler and controllers of a cluster, on one set of informers; and what all parts of a cluster share."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.leaderelection import LeaderElector, make_elector
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.sockets import short_root
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, SCHEDULER, controller_user
from cathedra.cluster.parts.generations import Generation
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.releases import FeatureGates
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["Foundation", "Served", "control_plane", "node_root"]


class Served(msgspec.Struct, frozen=True):
    """Facts about the running API server that parts need."""

    host: str
    port: int
    has_devices: bool
    """True if it serves resource.k8s.io."""
    collected: tuple[ResourceRef[Any], ...] | None
    """Resources that the garbage collector watches; None: those that are served by default."""


class Foundation(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, and the way to its API for each user."""

    config: ClusterConfig
    gates: FeatureGates
    generation: Generation
    served: Served
    pki: PKI
    plain_client: Callable[[UserInfo], Client]
    """Returns the API as a user, without the generation's adaptation."""
    clock: Clock
    random: Random

    @property
    def has_drivers(self) -> bool:
        """Return True if nodes come with drivers."""
        return self.generation.has_example_driver and self.served.has_devices

    def client_of(self, user: UserInfo) -> Client:
        """The API as a user."""
        return self.generation.client(self.plain_client(user))

    def node_root(self, name: str) -> Path:
        """Return the directory of a node with files."""
        return node_root(self.config, name)


def node_root(config: ClusterConfig, name: str) -> Path:
    """Return the directory of a node, in a cluster with files."""
    return short_root(config.data_dir) / "nodes" / name


def control_plane(base: Foundation) -> list[Coroutine[Any, Any, None]]:
    """Return the jobs of informers, controllers and scheduler. Each runs until it is cancelled."""
    informers = SharedInformers(base.client_of(CONTROLLER_MANAGER), base.clock)
    scheduler = _scheduler(base, informers)
    elector = _elector(base, SCHEDULER, "kube-scheduler")
    scheduling = scheduler.run() if elector is None else elector.run(scheduler.run)
    return [informers.run(), _controllers(base, informers).run(), scheduling]


def _controllers(base: Foundation, informers: SharedInformers) -> ControllerManager:
    pki = base.pki
    return ControllerManager(
        base.client_of(CONTROLLER_MANAGER),
        clock=base.clock,
        random=base.random,
        gates=base.gates,
        elector=_elector(base, CONTROLLER_MANAGER, "kube-controller-manager"),
        options=ControllerOptions(
            informers=informers,
            client_of=lambda account: base.client_of(controller_user(account)),
            root_ca=pki.authority_certificate.decode(),
            served=base.served.collected,
            replaced=base.generation.controllers,
            signer=lambda request, usages, seconds: pki.sign(request, usages, seconds, base.clock.now()),
        ),
    )


def _scheduler(base: Foundation, informers: SharedInformers) -> Scheduler:
    return Scheduler(
        base.client_of(SCHEDULER),
        clock=base.clock,
        random=base.random,
        gates=base.gates,
        informers=informers,
        make_claim_plugin=base.generation.make_claim_plugin,
    )


def _elector(base: Foundation, user: UserInfo, lease: str) -> LeaderElector | None:
    """Return the elector; None for a cluster with a store of its own, which has no other candidates."""
    if not base.config.shares_store:
        return None
    return make_elector(base.client_of(user), lease, clock=base.clock, random=base.random)
