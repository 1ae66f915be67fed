"""A server's certificate, exchanged while it serves; and what a client shows."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

from cryptography import x509

from cathedra.asgi.application import PEER_CERTIFICATE
from cathedra.asgi.listener import Listener, TLSFiles, bind
from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority
from cathedra.client.http import HTTPTransport
from cathedra.client.kubeconfig import Target
from cathedra.clock import SystemClock

NOW = SystemClock().now()
AUTHORITY = Authority.make(NOW)
HEADERS = [(b"content-length", b"2"), (b"connection", b"close")]


def written(folder: Path, name: str, pair: KeyPair) -> Path:
    file = folder / f"{name}.pem"
    file.write_bytes(pair.certificate + pair.key)
    return file


def name_of(certificate: x509.Certificate) -> str:
    return str(next(iter(certificate.subject)).value)


class Names:
    """Remembers whose certificates were shown."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        shown = scope["extensions"][PEER_CERTIFICATE]
        self.seen.append("" if shown is None else name_of(x509.load_der_x509_certificate(shown.der)))
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"{}"})


async def server_name(port: int, context: ssl.SSLContext) -> str:
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return name_of(x509.load_der_x509_certificate(der))


async def test_certificates_change_from_the_next_connection_on(tmp_path: Path) -> None:
    first = written(tmp_path, "first", AUTHORITY.server(("127.0.0.1",), NOW, name="first"))
    second = written(tmp_path, "second", AUTHORITY.server(("127.0.0.1",), NOW, name="second"))
    authority = tmp_path / "ca.crt"
    authority.write_bytes(AUTHORITY.pair.certificate)
    app, listening = Names(), bind("127.0.0.1", 0)
    listener = Listener(app, listening, TLSFiles(first, first, authority))
    await listener.start()
    context = ssl.create_default_context(cadata=AUTHORITY.pair.certificate.decode())
    assert await server_name(listener.port, context) == "first"
    listener.show_certificate(second)
    assert await server_name(listener.port, context) == "second"

    old, new = AUTHORITY.client("old", (), NOW), AUTHORITY.client("new", (), NOW)
    target = Target(
        f"https://127.0.0.1:{listener.port}",
        certificate_authority=AUTHORITY.pair.certificate,
        client_certificate=old.certificate,
        client_key=old.key,
    )
    async with await HTTPTransport.open(target) as transport:
        await transport.get_raw("/")
        transport.show_certificate(written(tmp_path, "new", new))
        await transport.get_raw("/")
    assert app.seen == ["old", "new"]
    await listener.stop()


async def test_a_server_without_connections_stops_within_a_few_turns_of_the_loop() -> None:
    listener = Listener(Names(), bind("127.0.0.1", 0), None)
    await listener.start()
    stopping = asyncio.create_task(listener.stop())
    for _ in range(10):
        await asyncio.sleep(0)
    assert stopping.done()
    await listener.ended()
