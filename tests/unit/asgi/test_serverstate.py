"""State that the connections of a server share."""

from __future__ import annotations

import asyncio
from email.utils import parsedate_to_datetime
from typing import Any

import pytest

from cathedra.asgi.serverstate import ServerState, addresses


async def _app(scope: Any, receive: Any, send: Any) -> None:
    raise AssertionError


def test_the_date_header_is_a_whole_line_and_renewed() -> None:
    server = ServerState(_app)
    assert server.date.startswith(b"date: ")
    assert server.date.endswith(b" GMT\r\n")
    server.date = b""
    server.renew_date()
    assert parsedate_to_datetime(server.date[len(b"date: ") :].decode().strip()).tzinfo is not None


class _Peer(asyncio.Transport):
    def __init__(self, address: object) -> None:
        super().__init__({"peername": address, "sockname": ("127.0.0.1", 6443)})


@pytest.mark.parametrize(
    ("peer", "shown"),
    [(("10.0.0.1", 5), ("10.0.0.1", 5)), (("::1", 5, 0, 0), ("::1", 5)), ("", None), (None, None)],
)
def test_addresses_are_host_and_port(peer: object, shown: object) -> None:
    assert addresses(_Peer(peer)) == (("127.0.0.1", 6443), shown)
