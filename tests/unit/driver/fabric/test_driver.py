"""Defaults of a fabric driver."""

from __future__ import annotations

from cathedra.driver import Attachment, FabricDriver, Ref
from tests.running import run_with
from tests.unit.driver.fabric.switched import NAME, Switch
from tests.unit.driver.world import SHARES, World, in_virtual_time, running

WHOLE = Attachment("rack-1", "gpu-0", "node-a")
SHARE = Attachment("rack-1", "gpu-0", "node-a", SHARES[0])


def test_a_whole_device_excludes_all_its_shares_and_a_share_only_itself() -> None:
    assert WHOLE.excludes(WHOLE)
    assert WHOLE.excludes(SHARE)
    assert SHARE.excludes(SHARE)
    assert not SHARE.excludes(Attachment("rack-1", "gpu-0", "node-b", SHARES[1]))
    assert not WHOLE.excludes(Attachment("rack-2", "gpu-0", "node-a"))


def test_attaching_and_detaching_need_not_do_anything() -> None:
    driver = FabricDriver()
    assert driver.pools() == ()
    assert driver.detach(Ref("default", "c", "u"), WHOLE) is None


@run_with(in_virtual_time)
async def test_on_a_node_it_publishes_nothing_of_its_own(world: World) -> None:
    async with running(world.runner(Switch())) as runner:
        assert runner.driver.name == NAME
        assert await world.slices() == []
