"""Requests of clients are counted by answer, and measured unless they are watches."""

from __future__ import annotations

from contextlib import suppress

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry

from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.requestmetrics import RequestMetrics
from cathedra.clock import SystemClock
from cathedra.exposition import text_of


async def test_requests_are_counted_by_code_method_and_host() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({}, status=404 if request.path == "/missing" else 200)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host = f"127.0.0.1:{runner.addresses[0][1]}"
    metrics, registry = RequestMetrics(SystemClock()), CollectorRegistry()
    metrics.export(registry)
    try:
        async with await HTTPTransport.open(Target(server=f"http://{host}"), requests=metrics) as transport:
            await transport.get_raw("/version")
            with suppress(Exception):
                await transport.get_raw("/missing")
            await runner.cleanup()
            with pytest.raises(ConnectionError):
                await transport.get_raw("/version")
    finally:
        await runner.cleanup()
    shown = text_of(registry.collect()).decode().splitlines()
    for code in ("200", "404", "<error>"):
        assert f'rest_client_requests_total{{code="{code}",host="{host}",method="GET"}} 1' in shown
    assert f'rest_client_request_duration_seconds_count{{host="{host}",verb="GET"}} 3' in shown
