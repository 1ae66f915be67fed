"""Claims on the bench allocated as a scheduler does it."""

from __future__ import annotations

import pytest

from cathedra.allocation import Allocation, AllocationError
from cathedra.driver.kit import Kit
from cathedra.driver.kit.allocating import asked, results_for
from cathedra.driver.kit.bench import NAMESPACE, NODE
from tests.unit.driver.world import DRIVER, Lamps


async def given(kit: Kit, selector: str, count: int = 1) -> list[str] | str:
    claim = asked(DRIVER, "c", NAMESPACE, selector, count)
    outcome = await results_for(kit.client, DRIVER, NODE, claim)
    if not isinstance(outcome, Allocation):
        return outcome
    (allocation,) = outcome.results
    return [result.device for result in allocation.devices.results]


def test_a_claim_asks_for_so_many_devices_of_the_driver() -> None:
    (request,) = asked(DRIVER, "c", "ns", "", 2).spec.devices.requests
    assert request.exactly is not None
    assert (request.exactly.device_class_name, request.exactly.count, request.exactly.selectors) == (DRIVER, 2, ())
    (request,) = asked(DRIVER, "c", "ns", "true", 1).spec.devices.requests
    assert request.exactly is not None
    (selector,) = request.exactly.selectors
    assert selector.cel is not None
    assert selector.cel.expression == "true"


async def test_what_is_published_is_given_out_and_what_is_held_is_not() -> None:
    index = f'device.attributes["{DRIVER}"].index'
    async with Kit(Lamps) as kit:
        assert await given(kit, f"{index} == 2") == ["lamp-2"]
        assert sorted(await given(kit, "", 4)) == [f"lamp-{i}" for i in range(4)]
        await kit.claim("lamp-2")
        assert isinstance(await given(kit, f"{index} == 2"), str), "why not, in words"
        assert await given(kit, f"{index} > 1") == ["lamp-3"]


async def test_a_selector_that_fails_is_an_error_and_no_refusal() -> None:
    async with Kit(Lamps) as kit:
        with pytest.raises(AllocationError):
            await given(kit, "device.nothing")
