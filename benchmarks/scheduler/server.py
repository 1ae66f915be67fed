"""The program of an API server that a workload has in a process of its own; it ends with its standard input."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path

import uvloop

from benchmarks.scheduler.serving import USERS
from cathedra.apiserver.authentication.user import MASTERS_GROUP, UserInfo
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.sqlite import SQLiteStorage
from cathedra.clock import SystemClock
from cathedra.cluster.parts.gctuning import collected_by_memory, suspend_collection
from cathedra.cluster.process.signals import switch_soon
from cathedra.releases import FeatureGates
from cathedra.session.server import listen_on_socket, serve_sessions


async def _serve(folder: Path) -> None:
    suspend_collection()
    switch_soon()
    server = await APIServer.open(
        ServerConfig(gates=FeatureGates.for_release()),
        clock=SystemClock(),
        random=random.Random(1),
        store=SQLiteStorage(folder / "store.db"),
    )
    serve_sessions(server)
    tokens = {user: UserInfo(user, (MASTERS_GROUP,)) for user in USERS}
    try:
        url = await server.serve(ServeOptions(pki=folder / "pki", tokens=tokens))
        await listen_on_socket(server, folder / "api.sock", tokens)
        print(json.dumps({"url": url}), flush=True)
        async with collected_by_memory(SystemClock()):
            await asyncio.to_thread(sys.stdin.read)
    finally:
        await server.close()


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1])))
