"""The tools over HTTP, for programs: one path for each, with the user's own rights.

    GET  /explain?pod=team-a/train     why a pod waits, and what would help; claim=…, subject=deployment/…, or nothing
    GET  /devices?node=node-0          devices, holders, totals; deviceClass=…, driver=…, free=true
    GET  /usage?by=class&since=7d      devices in use by class, namespace, driver or node
    GET  /match?expression=…           the devices that a selector matches
    POST /explain, /simulate, /lint, /match     the same with the arguments as a JSON object
    GET  /openapi.json                 this interface, as an OpenAPI document
    POST /mcp                          the Model Context Protocol, if its SDK is installed

A bearer token, or a client certificate, identifies the user. Errors are a Status, as those of the API server are.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.nesting import WRAPPED_DEPTH, load_json
from cathedra.api.status import StatusError, bad_request, failure, internal_error
from cathedra.api.undecodable import FAULTS
from cathedra.asgi.application import ASGIApplication, Receive, Scope, Send, read_body
from cathedra.client.client import Client
from cathedra.client.reviews import RequestAuthenticator, ReviewUnavailable
from cathedra.clock import Clock
from cathedra.mcp.answering import AnswerLimits, StateSource, UserAnswers, compute_beside
from cathedra.mcp.tools import MOST_CHARACTERS, TOOLS, AgentTool, question_of

TOKEN_SECONDS: Final = 10.0
"""Time for which a token is not reviewed again, and may have been revoked."""
MOST_BYTES: Final = 1 << 20
"""Longest body, which holds manifests."""
_MOST_PARAMETERS: Final = 64
_LOG: Final = logging.getLogger(__name__)
_BY_PATH: Final = {f"/{one.name}": one for one in TOOLS}
OPENAPI_PATH: Final = "/openapi.json"
MCP_PATH: Final = "/mcp"
DETAILS: Final = ("summary", "full")
"""Values of ``detail``: the beginnings of long lists, or everything."""
USER: Final = "cathedra.user"
"""Key of the user in the scope of a request to `MCP_PATH`."""


class AnswerApplication:
    """The ASGI application of all paths."""

    def __init__(self, answers: UserAnswers, client: Client, clock: Clock) -> None:
        """``client`` makes the reviews of tokens."""
        self.answers = answers
        self._authenticator = RequestAuthenticator(client, clock, TOKEN_SECONDS)
        self.mcp: ASGIApplication | None = None
        """The application at `MCP_PATH`; None: there is none."""

    @property
    def paths(self) -> frozenset[str]:
        """The paths that are served."""
        own = (*_BY_PATH, OPENAPI_PATH)
        return frozenset((*own, MCP_PATH) if self.mcp is not None else own)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and answer errors with a Status."""
        try:
            user = await self._authenticator.identify(scope)
            if scope["path"] == MCP_PATH and self.mcp is not None:
                await self.mcp({**scope, USER: user}, receive, send)
                return
            body = await self._answer(user, scope, receive)
        except StatusError as error:
            await _respond(send, error.code, msgspec.json.encode(error.to_json()), _retry(error))
        except ReviewUnavailable:
            await _respond(send, 503, _unavailable("the token cannot be reviewed"))
        except ConnectionError:
            await _respond(send, 503, _unavailable("the rights of the user cannot be reviewed"))
        # A connection with several requests must not end for one that meets a fault.
        except Exception as error:
            _LOG.exception("%s", scope["path"])
            await _respond(send, 500, msgspec.json.encode(internal_error(type(error).__name__).to_json()))
        else:
            await _respond(send, 200, body)

    async def _answer(self, user: UserInfo, scope: Scope, receive: Receive) -> bytes:
        method, path = scope["method"], scope["path"]
        if path == OPENAPI_PATH and method == "GET":
            # start-up time: it is rarely requested
            from cathedra.mcp.openapi import document

            return document()
        tool = _BY_PATH.get(path)
        if tool is None:
            raise failure(404, "NotFound", "the server could not find the requested resource")
        if method not in tool.methods:
            raise failure(405, "MethodNotAllowed", f"{path} has {' and '.join(tool.methods)}, not {method[:16]}")
        if method == "GET":
            arguments, detail = _query_arguments(tool, scope.get("query_string", b""))
        else:
            detail = _detail(
                parse_qs(scope.get("query_string", b"").decode("latin-1"), max_num_fields=_MOST_PARAMETERS)
            )
            body = await read_body(receive, MOST_BYTES)
            if body is None:
                raise failure(413, "RequestEntityTooLarge", f"a body is limited to {MOST_BYTES >> 20} MiB")
            arguments = _body_arguments(body)
        try:
            question = question_of(tool.name, arguments)
        except InvalidInput as error:
            raise bad_request(str(error)) from error
        found = await self.answers.answer(user, question, 0 if detail == "full" else MOST_CHARACTERS)
        return found.encode()


def _query_arguments(tool: AgentTool, query: bytes) -> tuple[dict[str, Any], str]:
    """Return the arguments in a query, with the types that the tool has, and the wanted detail.

    Raises:
        StatusError: 400, a parameter is given twice, or has another form.
    """
    try:
        given = parse_qs(query.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
    except ValueError as error:
        raise bad_request(f"the query: {error}") from error
    detail = _detail(given)
    given.pop("detail", None)
    properties: Mapping[str, Any] = tool.schema()["properties"]
    found: dict[str, Any] = {}
    for name, values in given.items():
        kind = properties.get(name, {}).get("type")
        if kind == "array":
            found[name] = values
            continue
        if len(values) > 1:
            raise bad_request(f"{name[:40]!r} is given {len(values)} times")
        found[name] = _typed(name, values[0], kind)
    if tool.name == "explain":
        _name_subject(found)
    return found, detail


def _typed(name: str, text: str, kind: str | None) -> Any:
    if kind == "boolean":
        if text not in ("true", "false"):
            raise bad_request(f"{name} is true or false, not {text[:40]!r}")
        return text == "true"
    if kind == "integer":
        if not text.isdecimal() or len(text) > 9:
            raise bad_request(f"{name} is a number, not {text[:40]!r}")
        return int(text)
    return text


def _name_subject(found: dict[str, Any]) -> None:
    """Turn ``pod=NAMESPACE/NAME`` and ``claim=NAMESPACE/NAME`` into the arguments of the tool."""
    named = [kind for kind in ("pod", "claim") if kind in found]
    if len(named) > 1 or (named and "subject" in found):
        raise bad_request("give one of pod, claim and subject")
    for kind in named:
        namespace, slash, name = found.pop(kind).partition("/")
        if not slash or not namespace or not name or "/" in name:
            raise bad_request(f"{kind} has the form NAMESPACE/NAME")
        if found.get("namespace", namespace) != namespace:
            raise bad_request(f"{kind} is in namespace {namespace}, and namespace names another one")
        found |= {"subject": f"{kind}/{name}", "namespace": namespace}


def _detail(given: Mapping[str, list[str]]) -> str:
    detail = given.get("detail", ["summary"])[-1]
    if detail not in DETAILS:
        raise bad_request(f"detail is {' or '.join(DETAILS)}, not {detail[:40]!r}")
    return detail


def _body_arguments(body: bytes) -> dict[str, Any]:
    try:
        found = load_json(body or b"{}", WRAPPED_DEPTH)
    except (*FAULTS, UnicodeError) as error:
        raise bad_request(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise bad_request("the body is no JSON object with the arguments of the tool")
    return found


def _unavailable(why: str) -> bytes:
    text = f"the API server does not answer: {why}"
    return msgspec.json.encode(failure(503, "ServiceUnavailable", text).to_json())


def _retry(error: StatusError) -> int:
    details = error.status.details
    return details.retry_after_seconds if details is not None else 0


async def _respond(send: Send, status: int, body: bytes, retry_after: int = 0) -> None:
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if retry_after:
        headers.append((b"retry-after", str(retry_after).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def serving_answers(
    source: StateSource, client: Client, clock: Clock, limits: AnswerLimits | None = None
) -> AsyncIterator[AnswerApplication]:
    """Yield the application, with the Model Context Protocol if its SDK is installed."""
    answers = UserAnswers(source, client, clock, limits, compute_beside(source))
    application = AnswerApplication(answers, client, clock)
    async with AsyncExitStack() as stack:
        stack.callback(answers.close)
        try:
            # inside: the SDK is an extra of the package
            from cathedra.mcp.server import serving_http
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
                raise
        else:
            application.mcp = await stack.enter_async_context(serving_http(answers))
        yield application
