"""Tokens of service accounts in volumes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cathedra.client.client import Client
from tests.requirements import root
from tests.unit.node.setup.cases import make, maker_for, play, token_volume


def test_a_token_is_issued_for_the_pods_account_and_audience(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        made = await make(client, token_volume(), tmp_path)
        assert (made["t"] / "token").read_text() == "token of robot for vault"
        assert (made["t"] / "token").stat().st_mode & 0o777 == 0o644

    play(body)


def test_a_token_belongs_to_the_user_that_all_containers_run_as(tmp_path: Path) -> None:
    root()

    async def body(client: Client) -> None:
        made = await make(client, token_volume(run_as_user=1000, fs_group=2000), tmp_path)
        found = (made["t"] / "token").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1000, 2000, 0o640)

    play(body)


def test_a_token_is_renewed_before_it_expires(tmp_path: Path) -> None:
    async def body(client: Client) -> None:
        pod = token_volume()
        maker = maker_for(client, pod, tmp_path)
        file = Path((await maker.make())["t"]) / "token"
        first = file.stat().st_ino
        await asyncio.sleep(2800)
        await maker.refresh(pod)
        assert file.stat().st_ino == first
        await asyncio.sleep(100)
        await maker.refresh(pod)
        assert file.read_text() == "token of robot for vault, the second"

    play(body)
