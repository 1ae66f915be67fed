"""Scheduler and controllers of a cluster: those of one process are on one set of informers."""

from __future__ import annotations

from collections.abc import Collection, Coroutine
from typing import Any, Final

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client.informer import SharedInformers
from cathedra.client.leaderelection import LeaderElector, make_elector
from cathedra.cluster.identity.permissions import CONTROLLER_MANAGER, SCHEDULER, controller_user
from cathedra.cluster.parts.foundation import Foundation
from cathedra.controllers.controller_manager import ControllerManager
from cathedra.scheduler.scheduler import Scheduler

__all__ = ["CONTROLLERS", "SCHEDULING", "control_plane"]

CONTROLLERS: Final = "controllers"
SCHEDULING: Final = "scheduler"


def control_plane(
    base: Foundation, parts: Collection[str] = (CONTROLLERS, SCHEDULING)
) -> list[Coroutine[Any, Any, None]]:
    """What is to be run until it is cancelled: informers, and what of ``parts`` there is here."""
    user = CONTROLLER_MANAGER if CONTROLLERS in parts else SCHEDULER if SCHEDULING in parts else None
    if user is None:
        return []
    informers = SharedInformers(base.client_of(user), base.clock)
    jobs = [informers.run()]
    if CONTROLLERS in parts:
        jobs.append(_controllers(base, informers).run())
    if SCHEDULING in parts:
        scheduler = _scheduler(base, informers)
        elector = _elector(base, SCHEDULER, "kube-scheduler")
        jobs.append(scheduler.run() if elector is None else elector.run(scheduler.run))
    return jobs


def _controllers(base: Foundation, informers: SharedInformers) -> ControllerManager:
    pki = base.pki
    return ControllerManager(
        base.client_of(CONTROLLER_MANAGER),
        clock=base.clock,
        random=base.random,
        gates=base.gates,
        informers=informers,
        client_of=lambda account: base.client_of(controller_user(account)),
        root_ca=pki.authority_certificate.decode(),
        served=base.served.collected,
        replaced=base.generation.controllers,
        signer=lambda request, usages, seconds: pki.sign(request, usages, seconds, base.clock.now()),
        elector=_elector(base, CONTROLLER_MANAGER, "kube-controller-manager"),
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
