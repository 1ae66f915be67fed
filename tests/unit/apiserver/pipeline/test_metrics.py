"""Requests and objects are counted under Kubernetes' names."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.apiserver.pipeline.metrics import flow_families
from cathedra.exposition import text_of
from cathedra.releases import FeatureGates
from tests.running import beside
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.apiserver.custom.test_custom_resources import CONFIGS, CRDS, config, definition

MAPS = "/api/v1/namespaces/default/configmaps"
REQUESTS = "apiserver_request_total"
OPEN = "apiserver_longrunning_requests"
ROUTE = ("group", "version", "resource", "subresource", "scope")
NO_ROUTE = ("", "", "", "", "")


async def test_requests_are_counted_under_kubernetes_names() -> None:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        await asgi("GET", f"{MAPS}/nobody")
        text = (await asgi("GET", "/metrics")).body.decode()
    assert _sample(text, "apiserver_request_total", 'code="201"', 'resource="configmaps"', 'verb="POST"') == 1
    assert _sample(text, "apiserver_request_total", 'code="404"', 'scope="resource"') == 1
    assert _sample(text, "apiserver_request_duration_seconds_count", 'verb="POST"') == 1
    assert _sample(text, "apiserver_resource_objects", 'resource="configmaps"') == 1
    assert _sample(text, "apiserver_storage_objects", 'resource="configmaps"') == 1
    assert "process_resident_memory_bytes" in text


async def test_what_is_not_served_is_counted_without_its_names() -> None:
    async with open_asgi() as asgi:
        for n in range(20):
            for path in (
                f"/apis/g{n}.example.com/v1/things/a",
                f"/api/v{n + 2}/pods/a",
                f"/api/v1/things{n}/a",
                f"{MAPS}/a/status{n}",
                f"/nowhere/{n}",
            ):
                assert (await asgi("GET", path)).status == 404
        found = requests(asgi)
    assert [count for labels, count in found if labels["code"] == "404"] == [100]
    assert {route(labels) for labels, _ in found} == {NO_ROUTE}


@pytest.mark.parametrize("path", [f"{MAPS}/a", "/healthz", "/apis/example.com/v1/things"])
async def test_methods_that_mean_nothing_are_counted_as_one(path: str) -> None:
    async with open_asgi() as asgi:
        for method in ("OPTIONS", "PROPFIND", "TRACE", "MADEUP", "get"):
            await asgi(method, path)
        found = requests(asgi)
    assert {labels["verb"] for labels, _ in found} == {"other"}


async def test_without_credentials_no_resource_gets_a_series() -> None:
    async with open_asgi(ServerConfig(authorization=True)) as asgi:
        for user, status in (("", 403), ("made up", 401)):
            for path in (f"{MAPS}/a", "/api/v1/nodes", "/api/v1/pods?watch=true", f"{MAPS}?{'a&' * 1000}"):
                assert (await asgi("GET", path, user=user)).status in {status, 400}
        found = requests(asgi)
        assert samples(asgi, OPEN) == []
    assert {route(labels) for labels, _ in found} == {NO_ROUTE}
    assert sum(count for _, count in found) == 8


async def test_what_a_user_may_not_do_is_counted_under_its_resource() -> None:
    async with open_asgi(ServerConfig(authorization=True)) as asgi:
        asgi.server.context.static_tokens.add({"weak": UserInfo("weak")})
        await asgi("GET", f"{MAPS}/a", user="weak")
        ((labels, _),) = requests(asgi)
    assert (route(labels), labels["code"]) == (("", "v1", "configmaps", "", "resource"), "403")


async def test_custom_resources_are_counted_while_they_are_served() -> None:
    async with open_asgi() as asgi:
        made = (await asgi("POST", CRDS, definition())).json
        await asgi.settle()
        await asgi("POST", CONFIGS, config())
        await asgi("GET", f"{CONFIGS}/c/status")
        changed = made | {"metadata": made["metadata"] | {"labels": {"a": "b"}, "resourceVersion": ""}}
        assert (await asgi("PUT", f"{CRDS}/gpuconfigs.d.x", changed)).status == 200
        await asgi.settle()
        await asgi("GET", f"{CONFIGS}/c")
        before = {route(labels) for labels, _ in requests(asgi) if labels["group"] == "d.x"}
        await asgi("DELETE", f"{CRDS}/gpuconfigs.d.x")
        await asgi.settle()
        assert (await asgi("GET", f"{CONFIGS}/c")).status == 404
        after = [labels for labels, _ in requests(asgi) if labels["group"] == "d.x"]
        timed = [labels for labels, _ in samples(asgi, "apiserver_request_duration_seconds_count")]
    assert before == {
        ("d.x", "v1", "gpuconfigs", "", "namespace"),
        ("d.x", "v1", "gpuconfigs", "", "resource"),
        ("d.x", "v1", "gpuconfigs", "status", "resource"),
    }
    assert after == []
    assert not [labels for labels in timed if labels["group"] == "d.x"]


async def test_a_watch_is_open_until_it_ends_also_where_its_resource_has_gone_meanwhile() -> None:
    async with open_asgi() as asgi:
        await asgi("POST", CRDS, definition())
        await asgi.settle()
        async with beside(asgi("GET", f"{CONFIGS}?watch=true")):
            await asgi.settle()
            ((labels, count),) = samples(asgi, OPEN)
            assert (labels["verb"], labels["resource"], count) == ("WATCH", "gpuconfigs", 1)
            await asgi("DELETE", f"{CRDS}/gpuconfigs.d.x")
            await asgi.settle()
        assert samples(asgi, OPEN) == []


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("", ""),
        ("dryRun=All", "All"),
        ("dryRun=All&dryRun=%41ll", "All"),
        ("dryRun=None", "invalid"),
        ("dryRun=All&dryRun=", "invalid"),
        ("labelSelector=dryRun", ""),
        ("dryRun=All" + "&a" * 1000, "invalid"),
    ],
)
async def test_dry_runs_are_told_apart_as_far_as_they_mean_something(query: str, shown: str) -> None:
    async with open_asgi() as asgi:
        await asgi("POST", f"{MAPS}?{query}", {"metadata": {"name": "a"}})
        ((labels, _),) = requests(asgi)
    assert labels["dry_run"] == shown


Labels = dict[str, str]


def samples(asgi: ASGIClient, name: str) -> list[tuple[Labels, float]]:
    """The series of a figure, as a scrape would find them, which itself is not counted."""
    families = text_string_to_metric_families(asgi.server.app.metrics.text().decode())
    return [(one.labels, one.value) for family in families for one in family.samples if one.name == name]


def requests(asgi: ASGIClient) -> list[tuple[Labels, float]]:
    return samples(asgi, REQUESTS)


def route(labels: Labels) -> tuple[str, ...]:
    return tuple(labels[name] for name in ROUTE)


def _sample(text: str, name: str, *labels: str) -> float:
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(label in line for label in labels):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no {name} with {labels}")


async def test_feature_gates_are_reported_as_kubernetes_reports_them() -> None:
    gates = FeatureGates.for_release("1.33", {"DynamicResourceAllocation": True})
    async with open_asgi(ServerConfig(release="1.33", gates=gates)) as asgi:
        text = (await asgi("GET", "/metrics")).body.decode()
    assert 'kubernetes_feature_enabled{name="DynamicResourceAllocation",stage="BETA"} 1' in text
    assert 'kubernetes_feature_enabled{name="DRAPrioritizedList",stage="ALPHA"} 0' in text
    assert 'name="DRAConsumableCapacity"' not in text, "1.33 does not have it"


# Families of metrics that are made when the server is scraped.


async def scraped() -> list[str]:
    async with open_asgi() as asgi:
        await asgi("POST", MAPS, {"metadata": {"name": "a"}})
        await asgi("GET", MAPS)
        await asgi("DELETE", f"{MAPS}/a")
        return (await asgi("GET", "/metrics")).body.decode().splitlines()


async def test_writes_are_counted_by_operation_and_resource() -> None:
    lines = await scraped()
    for operation in ("create", "delete"):
        assert f'etcd_requests_total{{group="",operation="{operation}",resource="configmaps"}} 1' in lines
    assert 'apiserver_watch_cache_events_received_total{group="",resource="configmaps"} 2' in lines
    assert 'watch_cache_capacity{group="",resource="configmaps"} 10000' in lines


async def test_access_is_counted_by_outcome() -> None:
    lines = await scraped()
    assert 'authentication_attempts{result="success"} 3' in lines
    assert 'authentication_attempts{result="failure"} 0' in lines
    assert 'authorization_attempts_total{result="allowed"} 3' in lines
    assert 'authenticated_user_requests{username="admin"} 3' in lines


async def test_sizes_of_lists_are_counted() -> None:
    sizes = [line for line in await scraped() if line.startswith("apiserver_response_sizes_count")]
    assert len(sizes) == 1
    assert 'verb="LIST"' in sizes[0]


def test_dispatched_requests_that_found_a_seat_waited_for_no_time() -> None:
    flow = FlowController()
    counts = flow._counted("schema", "level")
    counts.dispatched = 3
    counts.waits.add(0.3)
    lines = text_of(flow_families(flow)).decode().splitlines()
    waits = "apiserver_flowcontrol_request_wait_duration_seconds"
    labels = 'execute="true",flow_schema="schema",priority_level="level"'
    assert f'{waits}_bucket{{{labels},le="0"}} 2' in lines
    assert f"{waits}_count{{{labels}}} 3" in lines
