"""The port for the health of a node agent or a driver."""

from __future__ import annotations

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from cathedra.cluster.config import InvalidOption
from cathedra.cluster.process.plainhealth import PlainEndpoint, endpoint_of, serving_plain_health
from tests.ports import free_port


async def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, f"http://127.0.0.1:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_a_part_is_alive_before_it_is_ready() -> None:
    missing = ["the slices are not published yet"]
    registry = CollectorRegistry()
    Counter("prepared", "Claims.", registry=registry).inc()
    endpoint, said = PlainEndpoint("--http-endpoint", port=free_port()), list[str]()
    async with serving_plain_health(endpoint, lambda: "".join(missing), registry, say=said.append):
        for path in ("/healthz", "/livez"):
            assert await ask(endpoint.port, path) == (200, "ok")
        assert await ask(endpoint.port, "/readyz") == (500, "[-]the slices are not published yet\n")
        missing.clear()
        assert await ask(endpoint.port, "/readyz") == (200, "ok")
        assert "prepared_total 1" in (await ask(endpoint.port, "/metrics"))[1]
        assert (await ask(endpoint.port, "/other"))[0] == 404
        assert (await ask(endpoint.port, "/healthz", "POST"))[0] == 405
        assert await ask(endpoint.port, "/healthz", "HEAD") == (200, "")
        with pytest.raises(InvalidOption, match="in use"):
            async with serving_plain_health(endpoint, str, say=said.append):
                pass
    assert said == [f"health and metrics at http://127.0.0.1:{endpoint.port}"]


async def test_without_a_port_nothing_is_served() -> None:
    async with serving_plain_health(PlainEndpoint("--healthz-port"), str, say=pytest.fail):
        pass


@pytest.mark.parametrize(
    ("text", "address", "port"), [("", "127.0.0.1", 0), (":80", "0.0.0.0", 80), ("[::1]:80", "::1", 80)]
)
def test_endpoints_are_written_as_for_go_programs(text: str, address: str, port: int) -> None:
    found = endpoint_of("--http-endpoint", text)
    assert (found.address, found.port) == (address, port)


@pytest.mark.parametrize("text", ["80", "x:", "x:y", ":70000"])
def test_what_is_no_endpoint_names_its_option(text: str) -> None:
    with pytest.raises(InvalidOption, match="--http-endpoint must be"):
        endpoint_of("--http-endpoint", text)
