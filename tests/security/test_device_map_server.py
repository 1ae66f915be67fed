"""Responses of the device map's server, for each path and each kind of client: a row for each path."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from cathedra.engine import Engine
from cathedra.insight import read_dump
from cathedra.page.history import Unchanging
from cathedra.page.server import HOST, serving_page, static_files
from tests.unit.cli.dra.dumps import gpu_cluster

CLIENTS = ("stranger", "wrong", "rebound", "elsewhere", "own")
"""Without a token; with a wrong one; with it and a foreign Host; with it and a foreign Origin; the page."""
TABLE = """
stranger  wrong  rebound  elsewhere  own
     200    200      403        403  200  GET /
     404    404      403        403  404  POST /
     401    401      403        403  405  GET /engine
     401    401      403        403  200  POST /engine
     401    401      403        403  200  GET /events
     401    401      403        403  405  POST /events
     404    404      403        403  404  GET /metrics
     404    404      403        403  404  GET /../server.py
     404    404      403        403  404  GET /vendor
""".strip().splitlines()[1:]


@pytest.fixture
async def address() -> AsyncIterator[str]:
    engine = Engine(read_dump(gpu_cluster()))
    with ThreadPoolExecutor(1) as executor:
        async with serving_page(engine, Unchanging(), executor) as found:
            yield found


async def status(address: str, client: str, method: str, path: str) -> int:
    where, _, token = address.partition("/#")
    host = where.removeprefix("http://")
    headers = {
        "Host": "rebound.example" if client == "rebound" else host,
        "Content-Type": "application/json",
        "Content-Length": "18" if method == "POST" else "0",
    }
    if client != "stranger":
        headers["Authorization"] = "Bearer " + ("x" * len(token) if client == "wrong" else token)
    if client == "elsewhere":
        headers["Origin"] = "http://elsewhere.example"
    reader, writer = await asyncio.open_connection(HOST, int(host.rpartition(":")[2]))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    body = '{"question":"map"}' if method == "POST" else ""
    writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n{body}".encode())
    try:
        return int((await reader.readline()).split()[1])
    finally:
        writer.close()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.split(maxsplit=5)[5])
async def test_each_client_gets_what_the_table_says(address: str, row: str) -> None:
    *expected, method, path = row.split()
    found = [str(await status(address, client, method, path)) for client in CLIENTS]
    assert found == expected


async def test_every_file_of_the_page_is_public_and_nothing_else(address: str) -> None:
    """The files are in every installation; no other path may be served without a token."""
    for path in static_files():
        assert await status(address, "stranger", "GET", path) == 200
        assert await status(address, "rebound", "GET", path) == 403


async def test_only_the_loopback_is_listened_on(address: str) -> None:
    assert address.startswith(f"http://{HOST}:")
    assert HOST == "127.0.0.1"
