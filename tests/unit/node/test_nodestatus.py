"""Heartbeats of a node (docs/spec/node.md §17.11)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import Node, NodeCondition, Taint
from cathedra.api.struct import replace
from cathedra.client.client import Client
from cathedra.client.resources import NODES
from cathedra.client.transport import APICall
from cathedra.node.config import NodeConfig
from cathedra.node.nodestatus import (
    DOWN,
    PATIENCE,
    PERIOD,
    NodeReporter,
    ReportSources,
    RuntimeInfo,
    RuntimeMonitor,
    in_user_namespace,
    node_allocatable,
    node_capacity,
)
from cathedra.node.runtime.runtime import RuntimeFailure
from cathedra.semantics.conditions import find_condition
from tests.running import beside, on_virtual_clock, run_with
from tests.unit.node.fakes import GATES, NODE, NodeTransport, Setting
from tests.unit.node.test_agent import play

NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule")


class Meddling(NodeTransport):
    """A controller taints the node right after its creation, as the node lifecycle controller does."""

    async def create(self, call: APICall) -> Any:
        created = await super().create(call)
        if isinstance(created, Node):
            tainted = replace(created, spec=replace(created.spec, taints=(NOT_READY,)))
            await super().update(msgspec.structs.replace(call, verb="update", name=NODE, body=tainted))
        return created


def test_a_node_that_others_change_meanwhile_is_written_again_in_silence(caplog: pytest.LogCaptureFixture) -> None:
    async def body(s: Setting) -> None:
        await asyncio.sleep(0.1)
        node = await s.client.resource(NODES).get(NODE)
        assert node.spec.taints == (NOT_READY,)
        assert any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)

    with caplog.at_level(logging.WARNING):
        play(body, Meddling)
    assert caplog.text == ""


@run_with(play)
async def test_a_node_declares_that_websockets_come_as_they_are(s: Setting) -> None:
    await asyncio.sleep(0.1)
    status = (await s.client.resource(NODES).get(NODE)).status
    assert status.declared_features == ("ExtendWebSocketsToKubelet",)


@pytest.mark.parametrize(
    ("mapping", "inside"),
    [
        ("         0          0 4294967295\n", False),
        ("0 1000 1\n", True),
        ("0 1000 1\n1 100000 65536\n", True),
        (None, False),
    ],
)
def test_a_user_namespace_is_known_by_its_mapping(tmp_path: Path, mapping: str | None, inside: bool) -> None:
    if mapping is not None:
        (tmp_path / "uid_map").write_text(mapping)
    assert in_user_namespace(tmp_path / "uid_map") is inside


def test_pods_may_have_what_is_not_reserved() -> None:
    config = NodeConfig(
        name=NODE, root=None, capacity={"cpu": "4", "memory": "1Gi"}, reserved={"cpu": "1500m", "memory": "2Gi"}
    )
    assert node_capacity(config)["cpu"] == "4"
    found = {name: str(quantity) for name, quantity in node_allocatable(config).items()}
    assert (found["cpu"], found["memory"], found["pods"]) == ("2500m", "0", "110")


class Counting(NodeTransport):
    """Counts writes of the Node's status."""

    writes = 0

    async def update(self, call: APICall) -> Any:
        self.writes += isinstance(call.body, Node)
        return await super().update(call)


@run_with(lambda test: play(test, Counting))
async def test_a_node_that_was_marked_as_lost_reports_that_it_is_ready_with_the_next_heartbeat(s: Setting) -> None:
    await asyncio.sleep(60)
    nodes = s.client.resource(NODES)
    node = await nodes.get(NODE)
    before = s.server.writes
    unknown = tuple(replace(one, status="Unknown", reason="NodeStatusUnknown") for one in node.status.conditions)
    await nodes.update_status(replace(node, status=replace(node.status, conditions=unknown)))
    await asyncio.sleep(15)
    conditions = (await nodes.get(NODE)).status.conditions
    assert {one.type: one.status for one in conditions if one.type == "Ready"} == {"Ready": "True"}
    assert "Unknown" not in {one.status for one in conditions}
    await asyncio.sleep(60)
    # The mark, and one write of the agent.
    assert s.server.writes == before + 2


class Runtime:
    """Reports the status that the test sets; None: no status."""

    def __init__(self) -> None:
        self.errors: tuple[str, ...] | None = ()

    async def status(self) -> tuple[str, ...]:
        if self.errors is None:
            raise RuntimeFailure("Unavailable", "no answer")
        return self.errors


@on_virtual_clock
async def test_a_runtime_that_is_silent_for_half_a_minute_makes_the_node_not_ready_until_it_answers() -> None:
    server, runtime = NodeTransport(), Runtime()
    clock = server.clock()
    client = Client(server, clock=clock)
    reporter = NodeReporter(
        client,
        NodeConfig(name=NODE, root=None),
        RuntimeInfo("containerd", "1", 10250),
        clock=clock,
        gates=GATES,
        sources=ReportSources(monitor=RuntimeMonitor(runtime.status, clock)),
    )
    async with beside(reporter.run()):

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


@on_virtual_clock
async def test_several_reasons_are_listed_as_a_kubelet_lists_them() -> None:
    server, runtime = NodeTransport(), Runtime()
    monitor = RuntimeMonitor(runtime.status, server.clock())
    async with beside(monitor.run()):
        runtime.errors = ("a",)
        await monitor.wait_changed()
        assert monitor.message == "a"
        runtime.errors = ("a", "b")
        await monitor.wait_changed()
        assert monitor.message == "[a, b]"
