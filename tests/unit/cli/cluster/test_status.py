"""Warnings of ``cathedra status`` about the whole cluster."""

from __future__ import annotations

import asyncio
from typing import cast

from cathedra.api.status import failure
from cathedra.cli.cluster.status import _warnings
from cathedra.client.http import HTTPTransport


class Server:
    """Answers one health check."""

    def __init__(self, code: int) -> None:
        self._code = code

    async def get_raw(self, path: str) -> bytes:
        assert path == "/readyz/etcd"
        if self._code >= 400:
            raise failure(self._code, "", "")
        return b"ok"


def warnings(code: int) -> tuple[str, ...]:
    return asyncio.run(_warnings(cast("HTTPTransport", Server(code))))


def test_a_store_that_refuses_writes_is_named() -> None:
    (line,) = warnings(500)
    assert line.startswith("the store cannot be written")


def test_a_sound_store_and_a_server_without_the_check_need_no_warning() -> None:
    assert warnings(200) == warnings(404) == warnings(403) == ()
