"""The tools with the official SDK of the protocol: on standard input and output, and over streamable HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
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
from cathedra.allocation.errors import InvalidInput
from cathedra.api.status import StatusError
from cathedra.asgi.application import ASGIApplication
from cathedra.mcp.answering import UserAnswers
from cathedra.mcp.http import MOST_BYTES, USER
from cathedra.mcp.tools import TOOLS, AgentSource, ToolAnswer, answer_call, error_answer, question_of

_INSTRUCTIONS: Final = (
    "Devices and claims (Dynamic Resource Allocation) of one Kubernetes cluster, read-only. Answers are JSON, as "
    "kubectl dra prints with -o json. Long answers are cut, and leftOut names what is missing: ask again for one node, "
    "class, driver, namespace or subject."
)


async def serve(source: AgentSource, executor: Executor) -> None:
    """Answer until standard input ends. Questions are answered in ``executor``, one thread."""

    async def answer(_: Any, call: CallToolRequestParams) -> ToolAnswer:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(executor, answer_call, source, call.name, call.arguments or {})

    server = _server(answer)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


@asynccontextmanager
async def serving_http(answers: UserAnswers) -> AsyncIterator[ASGIApplication]:
    """Yield an application that answers while the body runs. It expects the user under `USER` in the scope.

    It keeps no sessions: a client may send each request to another replica, with another token.
    """

    async def answer(context: Any, call: CallToolRequestParams) -> ToolAnswer:
        try:
            question = question_of(call.name, call.arguments or {})
            return ToolAnswer(await answers.answer(context.request.scope[USER], question))
        except (InvalidInput, StatusError, ConnectionError) as error:
            return error_answer(str(error))

    # Requests of a page are refused by their Origin. The Host may be any name under which the Service is reached; DNS
    # rebinding gains nothing, because each request needs a token that a page does not have.
    security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    manager = StreamableHTTPSessionManager(
        _server(answer),
        json_response=True,
        stateless=True,
        security_settings=security,
        max_request_body_size=MOST_BYTES,
    )
    async with manager.run():
        yield manager.handle_request


def _server(answer: Callable[[Any, CallToolRequestParams], Awaitable[ToolAnswer]]) -> Any:
    async def list_tools(_: Any, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=_tools())

    async def call_tool(context: Any, call: CallToolRequestParams) -> CallToolResult:
        found = await answer(context, call)
        # As text alone: with a structured form beside it, agents would pay for each answer twice.
        return CallToolResult(content=[TextContent(type="text", text=found.text)], is_error=found.failed)

    return Server(
        "cathedra",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tools() -> list[Tool]:
    annotations = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True)
    return [
        Tool(name=one.name, description=one.purpose, input_schema=one.schema(), annotations=annotations)
        for one in TOOLS
    ]
