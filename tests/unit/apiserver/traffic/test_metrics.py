"""Requests and objects are counted under Kubernetes' names."""

from __future__ import annotations

from tests.unit.apiserver.asgi import open_asgi

MAPS = "/api/v1/namespaces/default/configmaps"


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


async def test_a_server_of_several_processes_answers_with_the_figures_of_all() -> None:
    async with open_asgi() as asgi:

        async def everywhere() -> bytes:
            return asgi.server.app.metrics.text() + b"# and of others\n"

        asgi.server.app.exposition = everywhere
        answer = await asgi("GET", "/metrics")
    assert answer.status == 200
    assert answer.header("content-type").startswith("text/plain; version=0.0.4")
    assert answer.body.endswith(b"# and of others\n")


def _sample(text: str, name: str, *labels: str) -> float:
    for line in text.splitlines():
        if line.startswith(f"{name}{{") and all(label in line for label in labels):
            return float(line.rpartition(" ")[2])
    raise AssertionError(f"no {name} with {labels}")
