"""Nothing that was acknowledged is lost, whichever process is killed in a storm of writes, and however often."""

from __future__ import annotations

import random
from pathlib import Path

from tests.integration.etcd import running_etcd
from tests.integration.storm import Account, Storm, StormServer

KILLS = 50


async def test_sqlite_keeps_every_acknowledged_write_through_fifty_kills(tmp_path: Path) -> None:
    server, account, chance = StormServer(tmp_path), Account(), random.Random(7)
    storm = Storm(account, seed=7)

    async def strike() -> None:
        server.kill()

    try:
        for _ in range(KILLS):
            await server.start()
            async with server.session() as session:
                await storm.verify(session)
                await storm.burst(session, chance.randrange(5, 25), strike)
        await server.start()
        async with server.session() as session:
            await storm.verify(session)
    finally:
        server.kill()
    assert account.answers > KILLS * 5


async def test_etcd_keeps_every_acknowledged_write_whichever_process_is_killed(tmp_path: Path) -> None:
    """Twenty-five times the API server, twenty-five times etcd itself, which starts again on its own data."""
    account, chance = Account(), random.Random(11)
    storm = Storm(account, seed=11)
    with running_etcd(tmp_path / "etcd") as etcd:
        server = StormServer(tmp_path, etcd.url)

        async def strike_server() -> None:
            server.kill()

        async def strike_etcd() -> None:
            etcd.kill()
            etcd.start()

        try:
            await server.start()
            for _ in range(KILLS // 2):
                async with server.session() as session:
                    await storm.burst(session, chance.randrange(5, 20), strike_etcd)
                    await storm.verify(session)
                    await storm.burst(session, chance.randrange(5, 20), strike_server)
                await server.start()
                async with server.session() as session:
                    await storm.verify(session)
        finally:
            server.kill()
    assert account.answers > KILLS * 5
