"""The choice between a session, HTTP and a unix socket, by the kubeconfig and by what the server has."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.apiserver.authentication.pki import PKI
from cathedra.asgi.listener import Listener, bind
from cathedra.client import kubeconfig
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import KubeconfigError, Target
from cathedra.client.resources import CONFIGMAPS, NAMESPACES
from cathedra.client.servers import ServerLeft
from cathedra.client.transport import APICall
from cathedra.clock import SystemClock
from cathedra.session import opening
from cathedra.session.opening import DISABLED, UpgradingTransport, open_transport
from cathedra.session.transport import UpgradedConnection
from tests.unit.session.serving import ADMIN, VIEWER, networked, served

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
    monkeypatch.setattr(opening, "REFUSED_SECONDS", 0.0)
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


class Way:
    """A relay to a server that can stop forwarding with its connections open, as if the server hung."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._forwards = asyncio.Event()
        self._forwards.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def hang(self) -> None:
        self._forwards.clear()

    def go_on(self) -> None:
        self._forwards.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self._port)
        for one, other in ((reader, other_writer), (other_reader, writer)):
            task = asyncio.create_task(self._forward(one, other))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._forwards.wait()
                writer.write(data)
        writer.close()

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()


async def test_a_session_with_a_server_that_hangs_ends_and_another_server_carries_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cathedra.client.servers.INTERVAL", 0.05)
    monkeypatch.setattr("cathedra.client.http.ANSWER_SECONDS", 1.0)
    async with networked(tmp_path) as there, contextlib.AsyncExitStack() as stack:
        target, ways, urls = there.target(), [], []
        for _ in range(2):
            way = Way(int(target.server.rpartition(":")[2]))
            listening = await asyncio.start_server(way.serve, "127.0.0.1", 0)
            stack.callback(way.end)
            stack.callback(listening.close)
            ways.append(way)
            urls.append(f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        several = replace(target, server=urls[0], further=(urls[1],))
        transport = await stack.enter_async_context(open_transport(several, user_agent="tests"))
        await transport.call(APICall("list", NAMESPACES, ""))

        async def watch() -> None:
            async with transport.watch(APICall("watch", CONFIGMAPS, "default")) as events:
                async for _ in events:
                    pass

        def create(name: str) -> APICall:
            return APICall("create", CONFIGMAPS, "default", body=ConfigMap(metadata=ObjectMeta(name=name)))

        watching = asyncio.create_task(watch())
        await transport.call(create("before"))
        ways[0].hang()
        async with asyncio.timeout(60):
            with pytest.raises(ServerLeft):
                await transport.call(create("lost"))
            with pytest.raises(ServerLeft):
                await watching
            await transport.call(create("after"))
            found = await transport.call(APICall("list", CONFIGMAPS, "default"))
            # The one without an answer was not sent again: it has not reached the server.
            names = {item.metadata.name for item in found.items}
            assert {"before", "after"} <= names
            assert "lost" not in names
            ways[0].go_on()
            ways[1].hang()
            # A read is sent again, to the server that answers now.
            assert (await transport.call(APICall("list", CONFIGMAPS, "default"))).items


async def test_a_token_file_is_read_for_each_connection(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(VIEWER)
    async with networked(tmp_path) as there:
        target = replace(there.target(""), token_file=token)
        async with open_transport(target, user_agent="tests") as way:
            assert (await way.call(APICall("list", NAMESPACES, ""))).items
            assert isinstance(way, UpgradingTransport)
            assert way._session is not None
            assert isinstance(way._session[0], UpgradedConnection)
            assert not way._refused_until


async def test_a_socket_of_a_kubeconfig_is_used_with_its_token(tmp_path: Path) -> None:
    async with served(tmp_path, authorization=True):
        kubeconfig.write(tmp_path / "config", Target(f"unix://{tmp_path / 'api.sock'}", token=ADMIN))
        target = kubeconfig.load(tmp_path / "config")
        assert target.socket == tmp_path / "api.sock"
        async with open_transport(target, user_agent="tests") as transport:
            made = await transport.call(
                APICall("create", CONFIGMAPS, "default", body=ConfigMap(metadata=ObjectMeta(name="a")))
            )
            assert await transport.call(APICall("get", CONFIGMAPS, "default", "a")) == made


async def test_a_url_of_a_kubeconfig_is_asked_over_http() -> None:
    target = Target("http://127.0.0.1:1")
    assert target.socket is None
    async with open_transport(target, user_agent="tests") as transport:
        assert isinstance(transport, HTTPTransport)


async def test_who_needs_all_of_the_api_is_told_that_a_socket_has_not_all_of_it(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="for cathedra scheduler and cathedra controller-manager alone"):
        await HTTPTransport.open(Target(f"unix://{tmp_path}"))
