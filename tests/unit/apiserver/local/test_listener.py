"""The socket's file: this user's alone, taken over from a killed server, gone with the server."""

from __future__ import annotations

import stat
from pathlib import Path

from cathedra.client.resources import NAMESPACES
from cathedra.client.transport import APICall
from tests.unit.apiserver.local.serving import served


async def test_the_socket_is_for_its_owner_alone_and_goes_with_the_server(tmp_path: Path) -> None:
    async with served(tmp_path) as there:
        assert stat.S_IMODE(there.socket.stat().st_mode) == 0o600
    assert not there.socket.exists()


async def test_a_socket_that_a_killed_server_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "api.sock").touch()
    async with served(tmp_path) as there:
        assert (await there.user().call(APICall("list", NAMESPACES, ""))).items
