"""One HTTP request, read as far as it is needed, and the options in its query (docs/spec/apimachinery.md §13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from cathedra.api.status import StatusError, bad_request, failure
from cathedra.apiserver.authentication.user import ANONYMOUS, UserInfo
from cathedra.apiserver.pipeline.operations import WriteQuery, checked_write, manager_named
from cathedra.apiserver.pipeline.record import RequestRecord
from cathedra.apiserver.queryvalues import NumberError, parse_int64, says_true
from cathedra.apiserver.requestinfo import request_info
from cathedra.asgi.application import Receive, RequestHeaders, Scope
from cathedra.asgi.direct import DIRECT_ANSWER, DirectAnswer
from cathedra.asgi.upgrade import UPGRADE
from cathedra.client.transport import ListOptions

BODY_LIMIT: Final = 3 * 1024 * 1024
QUERY_FIELDS: Final = 1000
"""Limit of parameters in a query; far more than any client sends, and parsed in a millisecond."""
_SELECTED: Final = frozenset({"list", "watch", "deletecollection"})
_NO_QUERY: Final[dict[str, list[str]]] = {}


class ClientGone(ConnectionError):
    """The client closed the connection before its request was complete."""


class Request:
    """One HTTP request: its `RequestInfo`, the parts that are read on demand (query, headers, body), and its record."""

    __slots__ = (
        "_body",
        "direct",
        "extensions",
        "headers",
        "info",
        "query",
        "receive",
        "record",
        "scope",
        "user",
    )

    def __init__(self, scope: Scope, receive: Receive, audit_id: str = "", began: float = 0.0) -> None:
        self.scope = scope
        self.receive = receive
        raw: bytes = scope["query_string"]
        self.query: dict[str, list[str]] = _NO_QUERY
        """All query parameters with their values."""
        # Longer queries are refused after authentication (`check_query`). Parsing them first would let anyone hold the
        # loop.
        if raw and raw.count(b"&") < QUERY_FIELDS:
            self.query = parse_qs(raw.decode("latin-1"), keep_blank_values=True)
        watch = says_true(self.query.get("watch", ())) if raw else False
        self.info = request_info(scope.get("method", "GET"), scope["path"], watch=watch)
        record = self.record = RequestRecord(self.info, raw, audit_id, began)
        headers = scope["headers"]
        self.headers: RequestHeaders = headers if type(headers) is RequestHeaders else RequestHeaders(headers)
        """All headers, in order."""
        self.extensions: Mapping[str, Any] = scope.get("extensions", {})
        """The extensions that the connection offers."""
        self.direct: DirectAnswer | None = self.extensions.get(DIRECT_ANSWER)
        """Sends a whole answer in one step, if the connection can."""
        # Read once; handlers, audit and a second attempt share it.
        self._body: bytes | None = None
        self.user: UserInfo = ANONYMOUS
        """The user on whose behalf it is answered: the authenticated one, or the one that is impersonated."""
        if not self.info.reads:
            record.upgrades = UPGRADE in self.extensions
            if self.info.verb == "patch":
                record.content_type = self.header(b"content-type")
        if raw:
            self._record_query()

    def _record_query(self) -> None:
        """Note the parameters that the pipeline reads."""
        record = self.record
        record.timeout = self.parameter("timeout")
        record.resource_version = self.parameter("resourceVersion")
        if self.info.verb in _SELECTED:
            record.field_selector = self.parameter("fieldSelector")
            record.label_selector = self.parameter("labelSelector")

    def check_query(self) -> None:
        """Refuse a query of more parameters than are read.

        Raises:
            StatusError: 400, it has too many.
        """
        if self.record.query and not self.query and self.record.query.count(b"&") >= QUERY_FIELDS:
            raise bad_request(f"the query has more than {QUERY_FIELDS} parameters")

    @property
    def path(self) -> str:
        """The path of the URL, decoded."""
        return self.info.path

    @property
    def audit_id(self) -> bytes:
        """The identity of its audit events, for the ``Audit-Id`` header."""
        return self.record.audit_id.encode()

    def parameter(self, name: str) -> str:
        """Return the first value of a query parameter, or ""."""
        values = self.query.get(name)
        return values[0] if values else ""

    def flag(self, name: str) -> bool:
        """Return True if a boolean query parameter is set."""
        return says_true(self.query.get(name, ()))

    def number(self, name: str) -> int | None:
        """Return a query parameter as a 64-bit integer; None if it is missing.

        Raises:
            StatusError: 400, it is no number, or out of range.
        """
        text = self.parameter(name)
        if not text:
            return None
        try:
            return parse_int64(text)
        except NumberError as error:
            raise bad_request(str(error)) from None

    def header(self, name: bytes) -> str:
        """Return the value of a header, or "". ``name`` is in lower case."""
        return self.headers.texts.get(name, "")

    def header_values(self, name: bytes) -> list[str]:
        """Return all values of a header."""
        return [value.decode("latin-1") for key, value in self.headers if key == name]

    @property
    def announced_size(self) -> int:
        """Size of the body in bytes by its header; the limit if the body comes in chunks."""
        announced = self.header(b"content-length")
        # ``isdigit`` alone accepts digits of other scripts, and a number of thousands of digits takes long to parse.
        if announced.isascii() and announced.isdigit() and len(announced) < 10:
            return int(announced)
        # The length of a chunked body is unknown beforehand. Fairness has to reckon with the largest.
        return BODY_LIMIT if self.header(b"transfer-encoding") else 0

    @property
    def read_body(self) -> bytes:
        """The part of the body that has been read."""
        return self._body or b""

    async def body(self) -> bytes:
        """Read and return the whole body.

        Raises:
            StatusError: 413, it is longer than 3 MiB.
            ClientGone: the client went away.
        """
        if self._body is None:
            direct = self.direct
            arrived = direct.arrived() if direct is not None else None
            if arrived is None:
                arrived = await self._read()
            elif len(arrived) > BODY_LIMIT:
                raise _too_large()
            self._body = arrived
        return self._body

    async def _read(self) -> bytes:
        chunks, size = [], 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone(self.path)
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            # Tested for every chunk: a body without an announced length must not be collected beyond the limit.
            if size > BODY_LIMIT:
                raise _too_large()
            chunks.append(chunk)
            if not message.get("more_body", False):
                # A body of one chunk is not copied.
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large() -> StatusError:
    return failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {BODY_LIMIT}")


def write_query(request: Request, kind: str, *, apply: bool = False) -> WriteQuery:
    """Return the options of a create, update or patch; ``kind`` is CreateOptions, UpdateOptions or PatchOptions.

    Raises:
        StatusError: 422, some are invalid.
    """
    query, agent = request.query, request.header(b"user-agent")
    # Without parameters there is nothing to validate. Most writes of controllers are of this kind.
    if not query and not apply:
        return WriteQuery(False, manager_named(agent), "Warn", False)
    manager, validation = request.parameter("fieldManager"), request.parameter("fieldValidation")
    dry_run = query.get("dryRun", [])
    given = WriteQuery(bool(dry_run), manager, validation, request.flag("force"), apply)
    checked_write(kind, given, dry_run=dry_run, forces="force" in query)
    return WriteQuery(given.dry_run, manager or manager_named(agent), validation or "Warn", given.force)


def list_options(request: Request) -> ListOptions:
    """Return the options of a list or watch.

    Raises:
        StatusError: 400, the limit is no number.
    """
    return ListOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        limit=request.number("limit") or 0,
        continue_=request.parameter("continue"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
    )
