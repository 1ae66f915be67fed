"""Tokens in files that are replaced while they are used."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from cathedra.api.status import StatusError
from cathedra.certificates.authority import Authority
from cathedra.client.http import PERIOD, HTTPTransport, TokenFile
from cathedra.client.kubeconfig import Target
from cathedra.client.resources import NODES
from cathedra.client.transport import APICall
from cathedra.clock import SystemClock
from tests.running import on_virtual_clock


@on_virtual_clock
async def test_a_token_is_read_again_after_a_minute(*, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    token = TokenFile(file)
    assert await token.current() == "one"
    file.write_text("two\n")
    await asyncio.sleep(PERIOD - 1)
    assert await token.current() == "one"
    await asyncio.sleep(1)
    assert await token.current() == "two"


@on_virtual_clock
async def test_a_file_that_cannot_be_read_leaves_the_last_token(*, tmp_path: Path) -> None:
    token = TokenFile(tmp_path / "missing", "first")
    assert await token.current() == "first"
    assert not await token.replaced("first")
    (tmp_path / "missing").write_text("")
    assert not await token.replaced("first")
    (tmp_path / "missing").write_text("second")
    assert await token.replaced("first")
    assert await token.current() == "second"


@pytest.fixture
def tls(tmp_path: Path) -> tuple[ssl.SSLContext, bytes]:
    """A server's context, and the authority that vouches for it."""
    authority = Authority.make(SystemClock().now())
    pair = authority.server(("127.0.0.1",), SystemClock().now())
    (tmp_path / "server.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    return context, authority.pair.certificate


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path, tls: tuple[ssl.SSLContext, bytes]) -> None:
    shown: list[str] = []
    valid = "Bearer one"

    async def answer(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization", ""))
        if shown[-1] != valid:
            return web.json_response({"kind": "Status", "status": "Failure", "code": 401}, status=401)
        return web.json_response({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls[0]).start()
    file = tmp_path / "token"
    file.write_text("one")
    target = Target(
        f"https://127.0.0.1:{runner.addresses[0][1]}", certificate_authority=tls[1], token="one", token_file=file
    )
    async with await HTTPTransport.open(target) as api:
        await api.call(APICall("get", NODES, "", "n"))
        valid = "Bearer two"
        with pytest.raises(StatusError):  # there is no other token yet: requested once
            await api.call(APICall("get", NODES, "", "n"))
        file.write_text("two")
        await api.call(APICall("get", NODES, "", "n"))
        valid = "Bearer three"
        file.write_text("three")
        with pytest.raises(StatusError):
            async with api.watch(APICall("watch", NODES, "")):
                pass
        async with api.watch(APICall("watch", NODES, "")):
            pass
    await runner.cleanup()
    assert shown == [f"Bearer {token}" for token in ("one", "one", "one", "two", "two", "three")]
