"""The SDK's own client calls ``cathedra mcp`` over standard input and output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cathedra.clock import SystemClock
from cathedra.insight.inventory.history import HistoryWriter
from cathedra.insight.inventory.holdings import ClaimHolding
from tests.unit.cli.dra.dumps import gpu_cluster, pod_with, write_dump

mcp = pytest.importorskip("mcp", reason="the SDK mcp is missing: pip install 'cathedra[mcp]'")


def client(folder: Path, *options: str) -> Any:
    dump = write_dump(folder / "dump.json", [*gpu_cluster(), *pod_with(3)])
    command = ["-m", "cathedra.cli.main", "mcp", "--dump", dump, *options]
    return mcp.Client(mcp.stdio_client(mcp.StdioServerParameters(command=sys.executable, args=command)))


async def test_usage_has_the_device_hours_of_an_advisors_history(tmp_path: Path) -> None:
    now = SystemClock().now()
    writer = HistoryWriter(tmp_path / "history.db", SystemClock())
    writer.begun(ClaimHolding("u", "team-a", "train", "gpu", "gpu.example.com", "node-0", 2, now - 7200))
    async with client(tmp_path, f"--history={tmp_path / 'history.db'}") as agent:
        found = await agent.call_tool("usage", {"since": "1h"})
        (row,) = json.loads(found.content[0].text)["result"]["rows"]
        assert (row["name"], row["deviceHours"]) == ("team-a", 2.0)
        found = await agent.call_tool("usage", {"since": "soon"})
        assert "since 'soon' is no time such as 90m, 24h or 7d" in found.content[0].text
    writer.close()


async def test_the_client_lists_tools_that_only_read_and_calls_them(tmp_path: Path) -> None:
    async with client(tmp_path) as agent:
        tools = (await agent.list_tools()).tools
        assert [tool.name for tool in tools] == ["explain", "devices", "usage", "simulate", "lint", "match"]
        assert all(tool.annotations.read_only_hint for tool in tools)

        found = await agent.call_tool("explain", {"subject": "pod/train"})
        assert not found.is_error
        assert json.loads(found.content[0].text)["result"]["verdict"] == "does not fit"

        # The simulation runs scheduler and controllers, which must not print into the messages.
        found = await agent.call_tool("simulate", {"drain": ["node-0"]})
        assert json.loads(found.content[0].text)["result"]["kind"] == "Simulation"

        found = await agent.call_tool("explain", {"subject": "pod/none"})
        assert found.is_error
        assert "there is no pod 'none'" in found.content[0].text
