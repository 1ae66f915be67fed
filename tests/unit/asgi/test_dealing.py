"""Connections that one process accepts and others serve; here the others are servers of the same process."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import ssl
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from cathedra.asgi.dealing import Dealer, DealtConnections, line_pair
from cathedra.asgi.listener import Listener, TLSFiles, bind
from cathedra.certificates.authority import Authority
from cathedra.clock import SystemClock

HEADERS = [(b"content-length", b"1")]


class Named:
    """Answers with its own name, one letter."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": self.name.encode()})


async def answers(port: int, times: int, context: ssl.SSLContext | None = None) -> Counter[str]:
    """Return the processes that answered on a number of connections."""
    return Counter([await answer(port, context) for _ in range(times)])


async def answer(port: int, context: ssl.SSLContext | None = None) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    letter = await reader.readexactly(1)
    writer.close()
    return letter.decode()


def fill(line: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            line.send(b"x" * 1000)


async def dealt(listener: Listener, name: str, tls: TLSFiles | None = None) -> DealtConnections:
    ours, theirs = line_pair()
    other = DealtConnections(Named(name), theirs, tls)
    await other.start()
    listener.deal_to(ours)
    return other


async def test_the_accepting_process_serves_half_as_many_as_each_other() -> None:
    listener = Listener(Named("a"), bind("127.0.0.1", 0), None)
    await listener.start()
    assert await answers(listener.port, 2) == {"a": 2}
    b = await dealt(listener, "b")
    assert await answers(listener.port, 6) == {"a": 2, "b": 4}
    c = await dealt(listener, "c")
    assert await answers(listener.port, 10) == {"a": 2, "b": 4, "c": 4}
    for each in (b, c, listener):
        await each.stop()


async def test_the_port_is_listened_on_by_one_process_alone() -> None:
    listener = Listener(Named("a"), bind("127.0.0.1", 0), None)
    await listener.start()
    other = await dealt(listener, "b")
    with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
        bind("127.0.0.1", listener.port).listen()
    await other.stop()
    await listener.stop()


async def test_what_a_process_that_has_gone_would_be_dealt_is_served_by_the_rest() -> None:
    listener = Listener(Named("a"), bind("127.0.0.1", 0), None)
    await listener.start()
    b, c = await dealt(listener, "b"), await dealt(listener, "c")
    await b.stop()
    found = await answers(listener.port, 12)
    assert found["b"] == 0
    assert found["a"] + found["c"] == 12
    assert min(found["a"], found["c"]) > 0
    await c.stop()
    assert await answers(listener.port, 3) == {"a": 3}
    await listener.stop()


async def test_a_process_that_takes_nothing_keeps_others_from_nothing() -> None:
    listener = Listener(Named("a"), bind("127.0.0.1", 0), None)
    await listener.start()
    ours, theirs = line_pair()
    ours.setblocking(False)
    fill(ours)
    listener.deal_to(ours)
    assert await answers(listener.port, 6) == {"a": 6}
    theirs.close()
    await listener.stop()


async def test_dealt_connections_have_tls_and_a_client_without_it_ends_alone(tmp_path: Path) -> None:
    now = SystemClock().now()
    authority = Authority.make(now)
    pair = authority.server(("127.0.0.1",), now)
    server, clients = tmp_path / "server.pem", tmp_path / "ca.crt"
    server.write_bytes(pair.certificate + pair.key)
    clients.write_bytes(authority.pair.certificate)
    files = TLSFiles(server, server, clients)
    listener = Listener(Named("a"), bind("127.0.0.1", 0), files)
    await listener.start()
    other = await dealt(listener, "b", files)
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        assert await reader.read() == b""
        writer.close()
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    assert await answers(listener.port, 3, context) == {"a": 1, "b": 2}
    silent = [await asyncio.open_connection("127.0.0.1", listener.port) for _ in range(3)]
    await other.stop()
    await listener.stop()
    for reader, writer in silent:
        assert await reader.read() == b""
        writer.close()


async def test_too_many_open_files_are_waited_for_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Exhausted:
        """A socket on which nothing can be accepted at first."""

        def __init__(self, listening: socket.socket) -> None:
            self.listening = listening
            self.failures = 2

        def accept(self) -> tuple[socket.socket, Any]:
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, "too many open files")
            return self.listening.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(self.listening, name)

    monkeypatch.setattr("cathedra.asgi.dealing._PAUSE_SECONDS", 0.01)
    listening = bind("127.0.0.1", 0)
    listening.listen()
    served: asyncio.Queue[socket.socket] = asyncio.Queue()
    exhausted: Any = Exhausted(listening)
    dealer = Dealer(exhausted, served.put_nowait)
    _, writer = await asyncio.open_connection(*listening.getsockname())
    (await served.get()).close()
    assert exhausted.failures == 0
    assert dealer.shortage == ""
    assert caplog.messages == [
        "no connection can be accepted now, and they wait: too many open files",
        "connections are accepted again",
    ]
    writer.close()
    dealer.close()


async def test_a_connection_for_a_process_without_descriptors_waits_until_it_has_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cathedra.asgi.dealing._PAUSE_SECONDS", 0.01)
    ours, theirs = line_pair()
    other = DealtConnections(Named("b"), theirs, None)
    await other.start()
    client, connection = socket.socketpair()
    client.setblocking(False)
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        socket.send_fds(ours, [b"c"], [connection.fileno()])
        while not other.shortage:  # noqa: ASYNC110  # the socket becomes readable in a later turn
            await asyncio.sleep(0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))
    connection.close()
    reader, writer = await asyncio.open_connection(sock=client)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
    assert caplog.messages == [
        "no connection can be accepted now, and they wait: Too many open files",
        "connections are accepted again",
    ]
    writer.close()
    await other.stop()
    ours.close()
