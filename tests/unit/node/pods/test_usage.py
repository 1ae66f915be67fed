"""What pods use, as the node sums it up."""

from __future__ import annotations

from cathedra.node.pods.usage import UsageMeter
from cathedra.node.runtime.runtime import ContainerUsage
from tests.running import on_virtual_clock
from tests.unit.node.fakes import NODE, Setting, make_pod

SECOND = 10**9


@on_virtual_clock
async def test_a_rate_is_that_of_the_time_since_the_last_reading() -> None:
    async with Setting() as node:
        await node.create(make_pod("p"))
        await node.clock.sleep(10)
        manager = node.agent._manager
        assert manager is not None
        (worker,) = manager.workers()
        run = worker.records[0].current
        assert run is not None
        spent = 0.0

        async def usage() -> dict[str, ContainerUsage]:
            return {run.id: ContainerUsage(int(spent * SECOND), 4096)}

        node.runtime.usage = usage  # type: ignore[method-assign]  # the edge: what the kernel has counted
        meter = UsageMeter(NODE, manager, node.runtime, node.clock)

        async def rate() -> float:
            (pod,) = (await meter.summary())["pods"]
            (container,) = pod["containers"]
            return round(container["cpu"]["usageNanoCores"] / SECOND, 3)

        spent = node.clock.now() - run.started_at
        assert await rate() == 1.0  # since it began
        await node.clock.sleep(10)
        spent += 5
        assert await rate() == 0.5
        await node.clock.sleep(1)
        spent += 1
        assert await rate() == 0.5  # too soon for another
        await node.clock.sleep(9)
        spent += 1
        assert await rate() == 0.2
        summary = await meter.summary()
        assert summary["node"]["nodeName"] == NODE
        assert summary["node"]["memory"]["workingSetBytes"] == 4096
        assert summary["pods"][0]["podRef"] == {
            "name": "p",
            "namespace": worker.pod.metadata.namespace,
            "uid": worker.pod.metadata.uid,
        }


@on_virtual_clock
async def test_what_cannot_be_measured_is_left_out() -> None:
    async with Setting() as node:
        await node.create(make_pod("p"))
        await node.clock.sleep(10)
        manager = node.agent._manager
        assert manager is not None

        async def usage() -> dict[str, ContainerUsage]:
            return {}

        node.runtime.usage = usage  # type: ignore[method-assign]  # as above
        summary = await UsageMeter(NODE, manager, node.runtime, node.clock).summary()
        assert summary["pods"] == []
        assert summary["node"]["cpu"]["usageNanoCores"] == 0
