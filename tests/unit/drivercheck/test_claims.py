"""Claims on devices that several claims share leave room for other claims."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.resource import Device, DeviceCapacity, ResourcePool, ResourceSlice, ResourceSliceSpec
from cathedra.client.resources import RESOURCESLICES
from cathedra.clock import SystemClock
from cathedra.drivercheck.claims import Claims
from cathedra.drivercheck.errors import CheckSkipped
from cathedra.drivercheck.program import hosted_server
from cathedra.releases import FeatureGates

DRIVER, NODE = "nic.example.com", "node-0"


async def test_a_shared_device_serves_many_claims_with_the_least_amount_each() -> None:
    shared = Device(
        name="nic-0",
        allow_multiple_allocations=True,
        capacity={"queues": DeviceCapacity(value=Quantity(4))},
    )
    spec = ResourceSliceSpec(
        driver=DRIVER,
        node_name=NODE,
        pool=ResourcePool(name=NODE, generation=1, resource_slice_count=1),
        devices=(shared,),
    )
    with tempfile.TemporaryDirectory(prefix="check-") as place:
        async with hosted_server(Path(place), [NODE], FeatureGates.for_release(), SystemClock()) as client:
            await client.resource(RESOURCESLICES).create(ResourceSlice(metadata=ObjectMeta(name="one"), spec=spec))
            claims = Claims(client, NODE, "checked")
            claims.driver = DRIVER
            await claims.open()
            made = [await claims.allocate() for _ in range(4)]
            assert [one.results[0].consumed_capacity for one in made] == [{"queues": Quantity(1)}] * 4
            assert len({one.results[0].share_id for one in made}) == 4
            with pytest.raises(CheckSkipped, match="needs 1 free device"):
                await claims.allocate()
