"""``cathedra advisor``: the part in a process of its own, with leader election, health port and metrics."""

from __future__ import annotations

import dataclasses
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from cathedra.advisor.advisor import Advisor, AdvisorOptions
from cathedra.advisor.devices import STATES
from cathedra.client.arrival import server_arrives
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.leaderelection import LeaderElector, LeaseTiming, make_elector
from cathedra.client.queuemetrics import InformerMetrics
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import Clock, SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory
from cathedra.cluster.process.health import PathApplication, serving_health, show_release
from cathedra.cluster.process.signals import run_until, stop_event
from cathedra.cluster.standalone.config import PartConfig
from cathedra.exposition import Family, Metric
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
        elector = _elector(part, client, clock)
        async with AsyncExitStack() as stack:
            beside = None
            if config.answers is not None:
                beside = await stack.enter_async_context(config.answers(advisor, client, clock))
            health = dataclasses.replace(part.health, client_authority=target.certificate_authority, beside=beside)
            await stack.enter_async_context(serving_health(health, client, registry, elector, denials=denials, say=say))
            await stack.enter_async_context(collected_by_memory(clock, GROWTH))
            await run_until(stopped, advisor.run() if elector is None else elector.run(advisor.run))


def _elector(part: PartConfig, client: Client, clock: Clock) -> LeaderElector | None:
    """Return the elector of the advisor; None if it needs no lease."""
    if not part.leader_elect:
        return None
    timing = part.lease_timing or LeaseTiming()
    random = Random(secrets.randbits(64))
    return make_elector(client, part.lease or LEASE, clock=clock, random=random, timing=timing)


# Metrics of the advisor: a contract (docs/metrics.md), with a bound for each label that grows with the cluster.
#
# Values of a label beyond its bound are summed under «other», so sums over a metric stay true; how many values are
# summed is a metric itself.

OTHER: Final = "other"
MOST: Final[Mapping[str, int]] = {
    "node": 1000,
    "namespace": 200,
    "device_class": 50,
    "pod_group": 50,
    "domain": 50,
    "driver": 20,
    "capacity": 20,
    "counter": 20,
    "scheduler": 20,
}
"""Label → the largest number of its values."""


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "gauge", text, labels)


DEVICES: Final = _gauge(
    "cathedra_devices",
    "Devices by driver, class and state. A device of several classes counts in each; no class is an empty label.",
    *("driver", "device_class", "state"),
)
NODE_DEVICES: Final = _gauge(
    "cathedra_node_devices",
    "Devices by node, driver and state. The node is empty for devices that several nodes can use.",
    *("node", "driver", "state"),
)
CAPACITY: Final = _gauge(
    "cathedra_device_capacity",
    "Capacity of devices in base units, held by claims and free.",
    *("driver", "capacity", "state"),
)
COUNTERS: Final = _gauge(
    "cathedra_counters", "Shared counters in base units, held by claims and free.", *("driver", "counter", "state")
)
LARGEST: Final = _gauge(
    "cathedra_largest_request", "Largest number of devices of a class that one claim can get now.", "device_class"
)
FURTHER: Final = _gauge(
    "cathedra_further_requests",
    "Claims for a number of devices of a class on one node that fit at once, by counts of free devices.",
    *("device_class", "devices"),
)
FURTHER_GANGS: Final = _gauge(
    "cathedra_further_gangs",
    "Further copies of a gang that fit at once, by the classes of their devices and by topology domain.",
    *("namespace", "pod_group", "device_class", "domain"),
)
STRANDED: Final = _gauge(
    "cathedra_stranded_devices", "Devices that no claim holds and none can get, by reason.", "driver", "reason"
)
WAITING: Final = _gauge(
    "cathedra_waiting_pods",
    "Pods that use devices and wait, by the first obstacle; empty for pods that fit.",
    "obstacle",
)
WOULD_FIT: Final = _gauge(
    "cathedra_pods_that_would_fit",
    "Pods that the model places and the scheduler does not, by whether it has refused them or not seen them.",
    *("scheduler", "kind"),
)
FINDINGS: Final = _gauge(
    "cathedra_findings", "Claims, classes, pools, drivers and nodes that cannot be used for a while.", "kind"
)
CLAIMS: Final = _gauge(
    "cathedra_allocated_claims", "Claims that hold devices, by namespace and class.", "namespace", "device_class"
)
HELD: Final = _gauge(
    "cathedra_held_devices", "Devices that claims hold, by namespace and class.", "namespace", "device_class"
)
SECONDS: Final = Metric(
    "cathedra_device_seconds_total",
    "counter",
    "Device-seconds that claims have held since the advisor started, by namespace and class.",
    ("namespace", "device_class"),
)
OLDER: Final = _gauge(
    "cathedra_devices_held_for",
    "Devices that are held for at least the seconds of the label.",
    "device_class",
    "seconds",
)
DURATION: Final = Metric(
    "cathedra_claim_allocation_duration_seconds",
    "histogram",
    "Time from the creation of a claim to its allocation.",
    ("device_class",),
)
EVENTS: Final = Metric(
    "cathedra_advisor_reports_total", "counter", "Reports by outcome: written, repeated or deferred.", ("outcome",)
)
ANALYSES: Final = Metric("cathedra_advisor_analyses_total", "counter", "Analyses of pods.", ())
LEFT_OUT: Final = _gauge(
    "cathedra_advisor_values_left_out", "Values of a label that are summed under «other».", "metric", "label"
)
METRICS: Final = (
    *(DEVICES, NODE_DEVICES, CAPACITY, COUNTERS, LARGEST, FURTHER, FURTHER_GANGS, STRANDED),
    *(WAITING, WOULD_FIT, FINDINGS),
    *(CLAIMS, HELD, SECONDS, OLDER, DURATION, EVENTS, ANALYSES, LEFT_OUT),
)
"""All of them, as docs/metrics.md lists them."""

Figures = Mapping[Any, float]
"""Values of the labels → value."""


class AdvisorMetrics(Collector):
    """Collector of an advisor's metrics, read when they are scraped. It shows nothing before the first listing."""

    def __init__(self, advisor: Advisor) -> None:
        self._advisor = advisor

    def collect(self) -> Iterator[Any]:
        """Yield the families that have series."""
        advisor = self._advisor
        if not advisor.ready:
            return
        left_out: Counter[tuple[str, str]] = Counter()
        usage = advisor.usage
        for shown, figures in (
            *self._devices(),
            (LARGEST, {(name,): number for name, number in advisor.capacity.largest.items()}),
            (FURTHER, advisor.capacity.further),
            (FURTHER_GANGS, advisor.gangs.further),
            (STRANDED, advisor.capacity.stranded),
            (WAITING, Counter((obstacle,) for obstacle in advisor.obstacles())),
            (FINDINGS, Counter((one.kind,) for one in advisor.findings.lasting)),
            (CLAIMS, usage.claims()),
            (HELD, usage.devices()),
            (SECONDS, usage.seconds()),
            (OLDER, {(name, str(age)): number for (name, age), number in usage.older_than().items()}),
            (EVENTS, {(outcome,): number for outcome, number in advisor.events.counts.items()}),
            (ANALYSES, {(): advisor.pods.judged}),
        ):
            yield _family(shown, figures, left_out)
        # Shown at zero too: an alert on a series that is absent never fires.
        alarms: Figures = advisor.alarm.counts() or {("default-scheduler", "refused"): 0}
        yield _family(WOULD_FIT, alarms, left_out)
        durations = Family(DURATION)
        for name, histogram in list(usage.durations.items())[: MOST["device_class"]]:
            durations.add_histogram((name,), histogram)
        yield durations
        yield _family(LEFT_OUT, left_out, Counter())

    def _devices(self) -> Iterator[tuple[Metric, Figures]]:
        devices: Counter[tuple[str, ...]] = Counter()
        nodes: Counter[tuple[str, ...]] = Counter()
        capacity: dict[tuple[str, ...], float] = {}
        counters: dict[tuple[str, ...], float] = {}
        # A copy: the thread that counts pools goes on.
        for (driver, _), figures in list(self._advisor.figures.pools.items()):
            for (node, classes, state), number in figures.devices.items():
                nodes[node, driver, state] += number
                for name in classes or ("",):
                    devices[driver, name, state] += number
            for totals, amounts in ((capacity, figures.capacity), (counters, figures.counters)):
                for (name, state), amount in amounts.items():
                    totals[driver, name, state] = totals.get((driver, name, state), 0) + amount
        # All states of what exists: a graph of free devices must fall to zero, not end.
        for driver, name in {key[:2] for key in devices}:
            for state in STATES:
                devices.setdefault((driver, name, state), 0)
        yield from ((DEVICES, devices), (NODE_DEVICES, nodes), (CAPACITY, capacity), (COUNTERS, counters))


def _family(shown: Metric, figures: Figures, left_out: Counter[tuple[str, str]]) -> Family:
    for position, label in enumerate(shown.labels):
        if label in MOST:
            figures, summed = bounded(figures, position, MOST[label])
            if summed:
                left_out[shown.name, label] += summed
    family = Family(shown)
    for labels, value in sorted(figures.items()):
        family.add(labels, value)
    return family


def bounded(figures: Figures, position: int, most: int) -> tuple[Figures, int]:
    """Sum all but the largest ``most`` values of one label under «other». Return how many were summed."""
    totals: dict[str, float] = {}
    for key, value in figures.items():
        totals[key[position]] = totals.get(key[position], 0) + value
    if len(totals) <= most:
        return figures, 0
    kept = set(sorted(totals, key=lambda value: (-totals[value], value))[:most])
    found: dict[tuple[str, ...], float] = {}
    for key, value in figures.items():
        if key[position] not in kept:
            key = (*key[:position], OTHER, *key[position + 1 :])
        found[key] = found.get(key, 0) + value
    return found, len(totals) - most
