"""A server that stops while clients watch: they see the end of their streams, and nothing is complained about."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from pathlib import Path

import aiohttp
import pytest

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.unit.apiserver.plain_definitions import plain_definitions

WATCH = "/api/v1/namespaces/default/configmaps?watch=true"


async def test_open_watches_end_at_once_and_cleanly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    server = await APIServer.open(config, clock=SystemClock(), random=random.Random(1))
    tokens = {"sesame": UserInfo("alibaba", ("system:masters",))}
    await server.serve(ServeOptions(pki=tmp_path / "pki", tokens=tokens))
    assert server.pki is not None
    context = ssl.create_default_context(cadata=server.pki.authority_certificate.decode())
    headers = {"Authorization": "Bearer sesame"}
    with caplog.at_level(logging.INFO):
        async with aiohttp.ClientSession(
            server.url, headers=headers, connector=aiohttp.TCPConnector(ssl=context)
        ) as session:
            watches = [await session.get(WATCH) for _ in range(20)]
            assert {watch.status for watch in watches} == {200}
            await asyncio.wait_for(server.close(), 120)
            bodies = await asyncio.gather(*(watch.content.read() for watch in watches))
    assert bodies == [b""] * 20
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []
