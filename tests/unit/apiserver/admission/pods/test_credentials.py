"""A pod waits a moment for the account that its new namespace is about to get."""

from __future__ import annotations

import asyncio
import random

import pytest

from cathedra.api.core.core_v1 import Container, Namespace, Pod, PodSpec, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.clock import LoopClock, run_virtual


def pod(account: str = "") -> Pod:
    container = Container(name="main", image="example.com/main")
    return Pod(metadata=ObjectMeta(name="p"), spec=PodSpec(containers=(container,), service_account_name=account))


async def opened() -> tuple[APIServer, Client, LoopClock]:
    clock = LoopClock(asyncio.get_running_loop())
    server = await APIServer.open(ServerConfig(service_accounts=True), clock=clock, random=random.Random(1))
    client = Client(server.transport(), clock=clock)
    await client.resource(resources.NAMESPACES).create(Namespace(metadata=ObjectMeta(name="new")))
    return server, client, clock


def test_a_pod_is_accepted_when_the_default_account_appears_meanwhile() -> None:
    async def body() -> None:
        server, client, clock = await opened()

        async def controller() -> None:
            await clock.sleep(0.45)
            account = ServiceAccount(metadata=ObjectMeta(name="default"))
            await client.resource(resources.SERVICEACCOUNTS, "new").create(account)

        making = asyncio.create_task(controller())
        created = await client.resource(resources.PODS, "new").create(pod())
        assert created.spec.service_account_name == "default"
        await making
        await server.close()

    run_virtual(body())


@pytest.mark.parametrize(("account", "least", "most"), [("", 0.9, 1.8), ("robot", 0.0, 0.0)])
def test_a_missing_account_is_an_error_at_once_or_after_ten_looks(account: str, least: float, most: float) -> None:
    """Only ``default`` is made by a controller, so only that is waited for."""

    async def body() -> None:
        server, client, clock = await opened()
        began = clock.monotonic()
        with pytest.raises(StatusError) as refused:
            await client.resource(resources.PODS, "new").create(pod(account))
        name = account or "default"
        assert f'error looking up service account new/{name}: serviceaccount "{name}" not found' in str(refused.value)
        assert least <= clock.monotonic() - began <= most
        await server.close()

    run_virtual(body())
