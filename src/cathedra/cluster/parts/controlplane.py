"""Scheduler and controllers of a cluster, on one set of informers; and what all parts of a cluster share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from cathedra.apiserver.authentication.pki import PKI
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.backoff import DoublingPauses
from cathedra.client.client import Client
from cathedra.client.informer import SharedInformers
from cathedra.client.leaderelection import LeaderElector, LostLeadership, make_elector
from cathedra.client.transport import ResourceRef
from cathedra.clock import Clock
from cathedra.cluster.config import ClusterConfig
from cathedra.cluster.data.datadir import short_root
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, SCHEDULER, controller_user
from cathedra.cluster.parts.generations import Generation
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.releases import FeatureGates
from cathedra.scheduler.configuration.reading import DEFAULT_CONFIGURATION, SchedulerConfiguration
from cathedra.scheduler.scheduler import Scheduler, SchedulerDependencies

_LOG: Final = logging.getLogger(__name__)
_RESTART: Final = (1.0, 30.0)
"""First and longest pause, in seconds, before parts that have lost their lease start again."""
_STABLE: Final = 60.0
"""Seconds of running after which the pauses start over."""


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
    scheduling: SchedulerConfiguration = DEFAULT_CONFIGURATION

    @property
    def has_drivers(self) -> bool:
        """Return True if nodes come with drivers."""
        return self.generation.has_example_driver and self.served.has_devices

    def client_of(self, user: UserInfo) -> Client:
        """Return the API as a user."""
        return self.generation.client(self.plain_client(user))

    def node_root(self, name: str) -> Path:
        """Return the directory of a node with files."""
        return node_root(self.config, name)


def node_root(config: ClusterConfig, name: str) -> Path:
    """Return the directory of a node, in a cluster with files."""
    return short_root(config.data_dir) / "nodes" / name


async def run_control_plane(base: Foundation) -> None:
    """Run informers, controllers and scheduler until cancelled. If they lose a lease, start them again."""
    await restart_after_lost_lease(partial(_run_once, base), base.clock)


async def restart_after_lost_lease(run: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Call ``run`` until it returns, again after each lost lease.

    Kubernetes' parts exit when they lose their lease, and their supervisor restarts them. In `cathedra up` they share
    a process with the API server, so a store that hangs for some seconds must end neither the process nor the parts.

    Raises:
        Exception: any other error of ``run``.
    """
    pauses = DoublingPauses(*_RESTART)
    while True:
        began = clock.monotonic()
        try:
            return await run()
        except ExceptionGroup as errors:
            lost, others = errors.split(LostLeadership)
            # A lost lease alone is expected. Any other error beside it is a defect and must not be hidden by a restart.
            if lost is None or others is not None:
                raise
        if clock.monotonic() - began > _STABLE:
            pauses.reset()
        pause = pauses.take()
        _LOG.warning("%s; scheduler and controllers start again in %g s", lost.exceptions[0], pause)
        await clock.sleep(pause)


async def _run_once(base: Foundation) -> None:
    # New informers for each run: the handlers of the ended parts stay registered in the old ones.
    informers = SharedInformers(base.client_of(CONTROLLER_MANAGER), base.clock)
    scheduler = _scheduler(base, informers)
    controllers = _controllers(base, informers)
    elector = _elector(base, SCHEDULER, "kube-scheduler")
    async with asyncio.TaskGroup() as group:
        group.create_task(informers.run())
        group.create_task(controllers.run())
        group.create_task(scheduler.run() if elector is None else elector.run(scheduler.run))


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
        configuration=base.scheduling,
        dependencies=SchedulerDependencies(informers=informers, make_claim_plugin=base.generation.make_claim_plugin),
    )


def _elector(base: Foundation, user: UserInfo, lease: str) -> LeaderElector | None:
    """Return the elector; None for a cluster with a store of its own, which has no other candidates."""
    # Without other candidates a lease would only cost a write every two seconds.
    if not base.config.shares_store:
        return None
    return make_elector(base.client_of(user), lease, clock=base.clock, random=base.random)
