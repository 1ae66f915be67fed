"""A node is ready while its container runtime can run pods."""

from __future__ import annotations

import asyncio

from cathedra.api.core.core_v1 import NodeCondition
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.clock import run_virtual
from cathedra.node.config import NodeConfig
from cathedra.node.nodestatus import NodeReporter, RuntimeInfo
from cathedra.node.runtime.runtime import RuntimeFailure
from cathedra.node.runtimemonitor import DOWN, PATIENCE, PERIOD, RuntimeMonitor
from cathedra.semantics.conditions import find_condition
from tests.unit.node.fakes import GATES, NODE, NodeTransport


class Runtime:
    """Says what the test has it say; None: nothing at all."""

    def __init__(self) -> None:
        self.errors: tuple[str, ...] | None = ()

    async def status(self) -> tuple[str, ...]:
        if self.errors is None:
            raise RuntimeFailure("Unavailable", "no answer")
        return self.errors


def test_a_runtime_that_is_silent_for_half_a_minute_makes_the_node_not_ready_until_it_answers() -> None:
    async def main() -> None:
        server, runtime = NodeTransport(), Runtime()
        clock = server.clock()
        client = Client(server, clock=clock)
        reporter = NodeReporter(
            client,
            NodeConfig(name=NODE, root=None),
            RuntimeInfo("containerd", "1", 10250),
            clock=clock,
            gates=GATES,
            monitor=RuntimeMonitor(runtime.status, clock),
        )
        task = asyncio.ensure_future(reporter.run())

        async def ready() -> NodeCondition:
            found = find_condition((await client.resource(NODES).get(NODE)).status.conditions, "Ready")
            assert found is not None
            return found

        await clock.sleep(60)
        assert (await ready()).status == "True"
        runtime.errors = None
        await clock.sleep(PATIENCE)
        assert (await ready()).status == "True"
        await clock.sleep(2 * PERIOD)
        condition = await ready()
        assert (condition.status, condition.reason, condition.message) == ("False", "KubeletNotReady", DOWN)
        runtime.errors = ()
        await clock.sleep(2 * PERIOD)
        condition = await ready()
        assert (condition.status, condition.reason) == ("True", "KubeletReady")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_several_reasons_are_listed_as_a_kubelet_lists_them() -> None:
    async def main() -> None:
        server, runtime = NodeTransport(), Runtime()
        monitor = RuntimeMonitor(runtime.status, server.clock())
        task = asyncio.ensure_future(monitor.run())
        runtime.errors = ("a",)
        await monitor.wait_changed()
        assert monitor.message == "a"
        runtime.errors = ("a", "b")
        await monitor.wait_changed()
        assert monitor.message == "[a, b]"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
