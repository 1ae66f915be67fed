"""``cathedra advisor``: the part in a process of its own, with leader election, health port and metrics."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Final

from prometheus_client import CollectorRegistry

from cathedra.advisor.advisor import Advisor, AdvisorOptions
from cathedra.advisor.metrics import AdvisorMetrics
from cathedra.client.arrival import server_arrives
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.leaderelection import LeaseTiming, make_elector
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.cluster.process.health import PathApplication, serving_health, show_release
from cathedra.cluster.process.signals import run_until, stop_event
from cathedra.cluster.standalone.config import PartConfig
from cathedra.insight.reading.features import RequestedRelease
from cathedra.insight.reading.live import read_features
from cathedra.session.opening import open_transport

LEASE = "cathedra-advisor"
GROWTH: Final = 1 / 16
"""Growth after which garbage is collected and freed memory returned, as a share of the process. An explanation leaves
cycles of objects, as many as the cluster has devices. Up to the default of 64 MiB, a small process would double."""
Say = Callable[[str], None]
"""Receives lines of progress."""
Answers = Callable[[Advisor, Client, Clock], AbstractAsyncContextManager[PathApplication]]
"""Opens the application that answers from an advisor's state; the client makes reviews of users."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisorConfig:
    """An advisor beside an API server."""

    part: PartConfig
    """Its ``release`` is "" if the server's own is to be found out."""
    options: AdvisorOptions = field(default_factory=AdvisorOptions)
    answers: Answers | None = None
    """Application that answers questions beside health and metrics; None: none."""


async def run_advisor(config: AdvisorConfig, *, say: Say) -> None:
    """Advise until SIGINT or SIGTERM.

    Raises:
        KubeconfigError: there is no usable configuration.
        LostLeadership: another process may lead now.
        UnknownGate: the release or a gate is not known.
    """
    part, clock = config.part, SystemClock()
    stopped, target, denials = stop_event(), part.target(), Denials(clock)
    if not await server_arrives(target, stopped, clock=clock, say=say):
        return
    requests = RequestMetrics(clock)
    async with open_transport(target, user_agent=LEASE, denials=denials, requests=requests) as transport:
        client = Client(transport, clock=clock)
        features = await read_features(client, RequestedRelease(part.release, part.gates))
        registry = CollectorRegistry()
        advisor = Advisor(
            client,
            features,
            source=target.server,
            clock=clock,
            options=config.options,
            observer=InformerMetrics(registry),
        )
        registry.register(AdvisorMetrics(advisor))
        show_release(registry, features.gates)
        requests.export(registry)
        say(f"advising on {target.server}: Kubernetes {features.gates.release}")
        for note in features.notes:
            say(note.text)
        elector = None
        if part.leader_elect:
            timing = part.lease_timing or LeaseTiming()
            random = Random(secrets.randbits(64))
            elector = make_elector(client, part.lease or LEASE, clock=clock, random=random, timing=timing)
        async with AsyncExitStack() as stack:
            beside = None
            if config.answers is not None:
                beside = await stack.enter_async_context(config.answers(advisor, client, clock))
            health = dataclasses.replace(part.health, client_authority=target.certificate_authority, beside=beside)
            await stack.enter_async_context(serving_health(health, client, registry, elector, denials=denials, say=say))
            await stack.enter_async_context(collected_by_memory(clock, GROWTH))
            await run_until(stopped, advisor.run() if elector is None else elector.run(advisor.run))
