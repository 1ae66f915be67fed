"""The controller of a fabric driver does all its work with its own account, and has no more rights than that takes."""

from __future__ import annotations

import asyncio
import random

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import DeviceClass
from cathedra.api.status import StatusError
from cathedra.client.client import Client
from cathedra.client.leaderelection import make_elector
from cathedra.client.resources import DEVICECLASSES, RESOURCESLICES, SECRETS
from cathedra.cluster.identity.fabricpermissions import controller_account, fabric_objects
from cathedra.driver import FabricController
from tests.unit.apiserver.guarded import Guarded, guarded
from tests.unit.driver.fabric.switched import NAME, Switch, allocate, bound, deallocate, told
from tests.unit.driver.world import World

NAMESPACE = "kube-system"


async def granted(api: Guarded) -> Client:
    """The controller's client, after its permissions have been installed."""
    for ref, obj in fabric_objects(NAME, NAMESPACE):
        await api.admin.resource(ref, NAMESPACE if ref.namespaced else "").create(obj)
    await api.admin.resource(DEVICECLASSES).create(DeviceClass(metadata=ObjectMeta(name=NAME)))
    user = f"system:serviceaccount:{NAMESPACE}:{controller_account(NAME)}"
    return api.of(user, "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")


def test_its_account_may_do_all_that_it_does() -> None:
    async def body(api: Guarded) -> None:
        client = await granted(api)
        elector = make_elector(client, NAME, clock=api.clock, random=random.Random(1), namespace=NAMESPACE)
        switch = Switch()
        controller = FabricController(switch, client, elector=elector, owner_class=NAME)
        running = asyncio.ensure_future(controller.run())
        world = World(api.server, api.clock)
        await asyncio.sleep(1)
        assert len((await api.admin.resource(RESOURCESLICES).list()).items) == 1
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
        await deallocate(world, "c")
        await asyncio.sleep(1)
        assert (switch.ports, (await world.claim("c")).metadata.finalizers, switch.errors) == ({}, (), [])
        running.cancel()
        await asyncio.wait((running,))

    guarded(body)


def test_it_reads_no_secrets_and_no_leases_of_others() -> None:
    async def body(api: Guarded) -> None:
        client = await granted(api)
        with pytest.raises(StatusError, match="forbidden"):
            await client.resource(SECRETS, NAMESPACE).list()
        elector = make_elector(client, "other", clock=api.clock, random=random.Random(1), namespace=NAMESPACE)
        task = asyncio.ensure_future(elector.run(asyncio.Event().wait))  # type: ignore[arg-type]
        await asyncio.sleep(60)
        assert not elector.leading
        task.cancel()
        await asyncio.wait((task,))

    guarded(body)
