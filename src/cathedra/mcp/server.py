"""The tools on standard input and output, with the official SDK of the protocol."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Any, Final

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from cathedra import __version__
from cathedra.mcp.tools import TOOLS, AgentSource, answer_call

_INSTRUCTIONS: Final = (
    "Devices and claims (Dynamic Resource Allocation) of one Kubernetes cluster, read-only. Answers are JSON, as "
    "kubectl dra prints with -o json. Long answers are cut, and leftOut names what is missing: ask again for one node, "
    "class, driver, namespace or subject."
)


async def serve(source: AgentSource, executor: Executor) -> None:
    """Answer until standard input ends. Questions are answered in ``executor``, one thread."""

    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=_tools())

    async def call_tool(_: Any, call: CallToolRequestParams) -> CallToolResult:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(executor, answer_call, source, call.name, call.arguments or {})
        # As text alone: with a structured form beside it, agents would pay for each answer twice.
        return CallToolResult(content=[TextContent(type="text", text=found.text)], is_error=found.failed)

    server = Server(
        "cathedra",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _tools() -> list[Tool]:
    annotations = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
    return [
        Tool(name=one.name, description=one.purpose, input_schema=one.schema(), annotations=annotations)
        for one in TOOLS
    ]
