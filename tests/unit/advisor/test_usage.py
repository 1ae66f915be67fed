"""Use over time: device-seconds without sampling, ages, durations, and the observers of holdings."""

from __future__ import annotations

from cathedra.api.resource import ResourceClaim
from cathedra.api.struct import from_dict, replace
from cathedra.insight.inventory.holdings import ClaimHolding
from tests.running import run_with
from tests.unit.advisor.world import World, with_world
from tests.unit.scheduler.objects import DRIVER, claim, exactly

PLACE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}


def allocated(one: ResourceClaim, *devices: str, admin: bool = False) -> ResourceClaim:
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": "n1", "device": device, **({"adminAccess": True} if admin else {})}
        for device in devices
    ]
    allocation = {"devices": {"results": results}, "nodeSelector": PLACE}
    return replace(one, status=from_dict(ResourceClaim, {"status": {"allocation": allocation}}).status)


class Observer:
    def __init__(self) -> None:
        self.seen: list[tuple[str, str, int]] = []

    def begun(self, holding: ClaimHolding) -> None:
        self.seen.append(("begun", holding.claim, holding.devices))

    def ended(self, holding: ClaimHolding, at: float) -> None:
        self.seen.append(("ended", holding.claim, holding.devices))


@run_with(with_world)
async def test_device_seconds_are_those_between_allocation_and_its_end(world: World) -> None:
    advisor, observer = world.advise(), Observer()
    advisor.usage.listen(observer)
    await world.create(claim("a", exactly(count=2)))
    await world.clock.sleep(10)
    await world.change(ResourceClaim, "a", lambda one: allocated(one, "gpu-0", "gpu-1"), status=True)
    await world.clock.sleep(100)
    assert advisor.usage.devices() == {("default", "gpu"): 2}
    assert advisor.usage.claims() == {("default", "gpu"): 1}
    assert advisor.usage.older_than() == {("gpu", 60): 2}
    await world.delete(ResourceClaim, "a")
    await world.clock.sleep(100)
    assert advisor.usage.devices() == {}
    assert round(advisor.usage.seconds()["default", "gpu"]) == 200
    assert observer.seen == [("begun", "a", 2), ("ended", "a", 2)]
    ((bound, _), *_) = [one for one in advisor.usage.durations["gpu"].cumulative() if one[1]]
    assert bound == "10.0"


@run_with(with_world)
async def test_holdings_that_are_there_at_the_start_are_reported(world: World) -> None:
    await world.create(allocated(claim("a"), "gpu-0"))
    advisor, observer = world.advise(), Observer()
    await world.clock.sleep(1)
    advisor.usage.listen(observer)
    (holding,) = advisor.usage.holdings()
    assert (holding.namespace, holding.device_class, holding.driver, holding.node) == (
        "default",
        "gpu",
        DRIVER,
        "n1",
    )
    assert observer.seen == [("begun", "a", 1)]
