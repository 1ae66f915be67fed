"""Definitions put into force by the server that decides on them."""

from __future__ import annotations

import asyncio

from cathedra.apiserver.storage.memory import MemoryStorage
from cathedra.apiserver.storage.protocol import Settled, StorageError, Write
from cathedra.clock import run_virtual
from tests.unit.apiserver.asgi import ASGIClient, open_asgi
from tests.unit.apiserver.custom.test_custom_resources import CONFIGS, CRDS, definition


class FailingStorage(MemoryStorage):
    """Fails as many writes of definitions as it is told to, from the second on."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.written = 0
        self.recovered = asyncio.Event()

    def commit(self, write: Write, settled: Settled) -> None:
        if "customresourcedefinitions" in write.key:
            self.written += 1
            if self.written > 1 and self.failures:
                self.failures -= 1
                settled(StorageError("disk full"))
                return
            if self.written > 1:
                self.recovered.set()
        super().commit(write, settled)


def test_a_definition_is_established_after_the_store_has_failed() -> None:
    store = FailingStorage(failures=12)

    async def run() -> float:
        async with open_asgi(store=store) as asgi:
            begun = asyncio.get_running_loop().time()
            assert (await asgi("POST", CRDS, definition())).status == 201
            await store.recovered.wait()
            await asgi.settle()
            assert (await asgi("GET", CONFIGS)).status == 200
            assert await _established(asgi)
            return asyncio.get_running_loop().time() - begun

    assert 10 < run_virtual(run()) < 60
    assert store.failures == 0


async def _established(asgi: ASGIClient) -> bool:
    answer = await asgi("GET", f"{CRDS}/gpuconfigs.d.x")
    conditions = answer.json["status"].get("conditions", [])
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
