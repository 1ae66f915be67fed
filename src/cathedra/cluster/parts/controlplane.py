"""Scheduler and controllers of a cluster, on one set of informers."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.informer import SharedInformers
from cathedra.client.leaderelection import LeaderElector, make_elector
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, SCHEDULER, controller_user
from cathedra.cluster.parts.foundation import Foundation
from cathedra.controllers.controller_manager import ControllerManager, ControllerOptions
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["control_plane"]


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
    """On a store of its own a cluster need not ask who leads; on a shared one there may be others."""
    if not base.config.shares_store:
        return None
    return make_elector(base.client_of(user), lease, clock=base.clock, random=base.random)
