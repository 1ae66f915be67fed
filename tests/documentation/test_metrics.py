"""docs/metrics.md lists the metrics that running parts show, with their types and labels."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry

from cathedra.advisor.program import METRICS
from cathedra.api.core.core_v1 import Pod
from cathedra.client.denials import Denials
from cathedra.client.queuemetrics import InformerMetrics, QueueMetrics
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import SystemClock
from cathedra.exposition import text_of
from cathedra.node.metrics import NodeMetrics
from cathedra.releases import FeatureGates
from cathedra.releases.metrics import metrics
from cathedra.scheduler.metrics import SchedulerMetrics
from cathedra.scheduler.queue.queue import SchedulingQueue
from cathedra.scheduler.queue.queuedpod import QueuedPodInfo
from cathedra.scheduler.state.pod_info import PodInfo
from tests.unit.apiserver.asgi import open_asgi

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \| (.*) \|$", re.MULTILINE)
MAPS = "/api/v1/namespaces/default/configmaps"


def listed() -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (kind, tuple(re.findall(r"\w+", labels))) for name, kind, labels in ROW.findall(PAGE.read_text())}


def shown(text: str) -> dict[str, str]:
    return dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))


def assert_listed(text: str) -> None:
    kinds = {name: kind for name, (kind, _) in listed().items()}
    found = {name: kind for name, kind in shown(text).items() if not name.startswith("process_")}
    assert found
    assert found.items() <= kinds.items()


def test_every_metric_of_kubernetes_that_is_served_is_listed() -> None:
    page = listed()
    for name, found in metrics().items():
        assert page[name] == (found.kind, found.labels)


async def test_the_api_server_shows_listed_metrics() -> None:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        await asgi("GET", MAPS)
        assert_listed((await asgi("GET", "/metrics")).body.decode())


def test_the_scheduler_shows_listed_metrics() -> None:
    metrics = SchedulerMetrics()
    metrics.attempted("scheduled", "default-scheduler", 0.1)
    metrics.pod_bound(QueuedPodInfo(PodInfo(Pod()), 0.0, 1))
    queue = SchedulingQueue(SystemClock(), lambda _: None, {})
    queue.add(Pod())
    metrics.show_queue(queue)
    metrics.ran("NodeName", "Filter", "Success", 0.1)
    metrics.evaluations(("NodeName",), "Filter", "default-scheduler").times += 1
    metrics.waited_for_devices("default-scheduler", "d", "success", 1)
    metrics.show(dict)
    metrics.claim_created("success")
    metrics.show_created_claims(FeatureGates.for_release())
    assert_listed(text_of(metrics.registry.collect()).decode())


def test_controllers_show_listed_metrics() -> None:
    registry = CollectorRegistry()
    queue = QueueMetrics(registry, SystemClock()).of("resource_claim")
    queue.added("a")
    InformerMetrics(registry).undecodable("pods", "Pod")
    denials = Denials(SystemClock())
    denials.counts["user", "get", "", "pods"] += 1
    denials.export(registry)
    assert_listed(text_of(registry.collect()).decode())


def test_the_node_agent_shows_listed_metrics() -> None:
    metrics = NodeMetrics(SystemClock())
    with metrics.operation("PrepareResources"):
        metrics.call("d", "/m", "OK", 0.1)
    metrics.prepare_skipped("d")
    metrics.pod_resources("list", "v1")
    metrics.requests = RequestMetrics(SystemClock())
    metrics.requests.answered("200", "GET", "h")
    metrics.plugin("/x.sock", "actual_state_of_world", present=True)
    assert_listed(metrics.text().decode())


def test_the_metrics_of_the_advisor_are_listed_with_their_labels() -> None:
    page = listed()
    assert {one.name: (one.kind, one.labels) for one in METRICS}.items() <= page.items()
    named = {name for name in page if name.startswith("cathedra_")}
    assert {one.name for one in METRICS} <= named
