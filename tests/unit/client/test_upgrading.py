"""Sessions are asked for, and HTTP is spoken with servers that have none."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cathedra.apiserver.authentication.pki import PKI
from cathedra.asgi.listener import Listener, bind
from cathedra.client import upgrading
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.client.local.upgraded import UpgradedConnection
from cathedra.client.opening import DISABLED, open_transport
from cathedra.client.resources import NAMESPACES
from cathedra.client.transport import APICall
from cathedra.clock import SystemClock
from tests.unit.apiserver.local.serving import VIEWER, networked

LISTED = {"kind": "NamespaceList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []}


class Foreign:
    """A server that answers the question for a session as it would any other, with one status."""

    def __init__(self, status: int) -> None:
        self.status = status
        self.questions = 0
        self.port = 0
        self.authority = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, body = 200, json.dumps(LISTED).encode()
        if scope["path"] == "/api/session":
            self.questions += 1
            status, body = self.status, b"{}"
        length = str(len(body)).encode()
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": body})

    @property
    def target(self) -> Target:
        return Target(f"https://127.0.0.1:{self.port}", certificate_authority=self.authority, token="t")


@asynccontextmanager
async def foreign(folder: Path, status: int) -> AsyncIterator[Foreign]:
    pki = PKI(folder / "pki", SystemClock().now())
    server = Foreign(status)
    server.authority = pki.authority_certificate
    listener = Listener(server, bind("127.0.0.1", 0), pki.tls_files(("127.0.0.1",), None))
    await listener.start()
    server.port = listener.port
    try:
        yield server
    finally:
        await listener.stop()


@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 426, 503])
async def test_a_server_without_sessions_is_spoken_to_over_http(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with foreign(tmp_path, status) as server, open_transport(server.target, user_agent="tests") as way:
        for _ in range(3):
            assert (await way.call(APICall("list", NAMESPACES, ""))).resource_version == "7"
        assert server.questions == 1
    assert not [record for record in caplog.records if record.name.startswith("cathedra.client")]


async def test_it_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrading, "REFUSED_SECONDS", 0.0)
    async with foreign(tmp_path, 404) as server, open_transport(server.target, user_agent="tests") as way:
        for _ in range(2):
            await way.call(APICall("list", NAMESPACES, ""))
        assert server.questions == 2


async def test_a_variable_leaves_it_at_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DISABLED, "1")
    async with foreign(tmp_path, 404) as server, open_transport(server.target, user_agent="tests") as way:
        assert isinstance(way, HTTPTransport)
        await way.call(APICall("list", NAMESPACES, ""))
        assert server.questions == 0


async def test_a_certificate_of_another_authority_is_refused(tmp_path: Path) -> None:
    async with foreign(tmp_path, 404) as server:
        other = PKI(tmp_path / "other", SystemClock().now()).authority_certificate
        wrong = replace(server.target, certificate_authority=other)
        async with open_transport(wrong, user_agent="tests") as way:
            with pytest.raises(ConnectionError):
                await way.call(APICall("list", NAMESPACES, ""))
        async with open_transport(replace(server.target, tls_server_name="other"), user_agent="tests") as way:
            with pytest.raises(ConnectionError):
                await way.call(APICall("list", NAMESPACES, ""))
        assert server.questions == 0
        async with open_transport(replace(wrong, insecure_skip_tls_verify=True), user_agent="tests") as way:
            await way.call(APICall("list", NAMESPACES, ""))


async def test_nothing_that_listens_is_a_connection_error() -> None:
    free = bind("127.0.0.1", 0)
    port = free.getsockname()[1]
    free.close()
    async with open_transport(Target(f"https://127.0.0.1:{port}"), user_agent="tests") as way:
        with pytest.raises(ConnectionError):
            await way.call(APICall("list", NAMESPACES, ""))


async def test_a_token_file_is_read_for_each_connection(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(VIEWER)
    async with networked(tmp_path) as there:
        target = replace(there.target(""), token_file=token)
        async with open_transport(target, user_agent="tests") as way:
            assert (await way.call(APICall("list", NAMESPACES, ""))).items
            assert isinstance(way, upgrading.UpgradingTransport)
            assert way._session is not None
            assert isinstance(way._session[0], UpgradedConnection)
            assert not way._refused_until
