"""Failures of connections have the texts of Go."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from cathedra.apiserver.networktexts import network_text
from cathedra.certificates import KeyPair
from cathedra.certificates.authority import Authority


@asynccontextmanager
async def listening(folder: Path, pair: KeyPair | None) -> AsyncIterator[int]:
    """The port of a server that answers nothing; without ``pair`` it speaks no TLS."""
    context = None
    if pair is not None:
        (folder / "crt").write_bytes(pair.certificate)
        (folder / "key").write_bytes(pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "crt", folder / "key")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if context is None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        else:
            await reader.readuntil(b"\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def told(port: int, trusted: Authority, name: str = "") -> str:
    """The text of the failure to reach a server."""
    context = ssl.create_default_context(cadata=trusted.pair.certificate.decode())
    options = {"server_hostname": name} if name else {}
    async with aiohttp.ClientSession() as session:
        with pytest.raises((aiohttp.ClientError, OSError)) as caught:
            await session.post(f"https://127.0.0.1:{port}/", ssl=context, **options)  # type: ignore[arg-type]  # a name
    return network_text(caught.value)


async def test_a_certificate_of_another_authority(tmp_path: Path) -> None:
    known, other = Authority.make(time.time()), Authority.make(time.time())
    async with listening(tmp_path, other.server(("127.0.0.1",), time.time())) as port:
        text = await told(port, known)
    assert text == "tls: failed to verify certificate: x509: certificate signed by unknown authority"


async def test_a_certificate_for_other_names_and_addresses(tmp_path: Path) -> None:
    known = Authority.make(time.time())
    async with listening(tmp_path, known.server(("other",), time.time())) as port:
        named, addressed = await told(port, known, "hooks.n.svc"), await told(port, known)
    assert named == (
        "tls: failed to verify certificate: x509: certificate is not valid for any names, "
        "but wanted to match hooks.n.svc"
    )
    assert addressed == (
        "tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1 "
        "because it doesn't contain any IP SANs"
    )


async def test_a_certificate_that_is_over(tmp_path: Path) -> None:
    past = time.time() - 50 * 365 * 86400
    known = Authority.make(time.time())
    async with listening(tmp_path, known.server(("127.0.0.1",), past)) as port:
        text = await told(port, known)
    assert text == "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"


async def test_nobody_there_no_tls_and_no_answer(tmp_path: Path) -> None:
    known = Authority.make(time.time())
    async with listening(tmp_path, known.server(("127.0.0.1",), time.time())) as port:
        assert await told(port, known) == "EOF"
    assert await told(port, known) == f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    async with listening(tmp_path, None) as plain:
        assert await told(plain, known) == "http: server gave HTTP response to HTTPS client"


def test_what_go_has_no_words_for() -> None:
    assert network_text(ValueError("odd")) == "odd"
    assert network_text(TimeoutError()) == "TimeoutError"
