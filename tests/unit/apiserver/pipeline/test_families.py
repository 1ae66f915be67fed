"""Families of metrics that are made when the server is scraped."""

from __future__ import annotations

from cathedra.apiserver.pipeline.families import flow_families
from cathedra.apiserver.pipeline.flowcontrol import FlowController
from cathedra.exposition import text_of
from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


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
