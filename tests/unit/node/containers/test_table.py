"""The containers of a pod, as one changes and others read and wait."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import Container
from cathedra.clock import run_virtual
from cathedra.node.containers.records import ContainerRecord
from cathedra.node.containers.table import ContainerTable
from tests.unit.node.containers.test_records import run


def test_a_table_keeps_the_order_of_the_spec_and_adds_behind_it() -> None:
    table = ContainerTable(ContainerRecord(Container(name=name)) for name in "ab")
    table.put(ContainerRecord(Container(name="debug"), ephemeral=True))
    table.put(table["a"].begin(run(), 0.0))
    assert [record.name for record in table.all] == ["a", "b", "debug"]
    assert table["a"].running
    assert table.get("z") is None


def test_the_end_of_a_container_wakes_those_that_wait_for_it_and_no_other_change_does() -> None:
    async def main() -> None:
        table = ContainerTable([ContainerRecord(Container(name="c")).begin(run(), 0.0)])
        waiting = asyncio.create_task(table.until_ended("c"))
        await asyncio.sleep(1)
        table.put(table["c"].stop())
        await asyncio.sleep(1)
        assert not waiting.done()
        table.put(table["c"].end(run(seconds=2.0), 2.0, restarts=False))
        await asyncio.wait_for(waiting, 1)
        await table.until_ended("c")

    run_virtual(main())
