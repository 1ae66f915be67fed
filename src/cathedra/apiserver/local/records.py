"""What metrics and audit are told of requests that came in binary messages: the same as of those over HTTP."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import REASON, Attributes
from cathedra.apiserver.names import generate_uid
from cathedra.apiserver.requestinfo import RequestInfo
from cathedra.apiserver.traffic.audit import AuditLog
from cathedra.apiserver.traffic.metrics import Metrics
from cathedra.apiserver.traffic.record import RequestRecord
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.local.messages import PATCH_TYPES, LocalRequest, Options

__all__ = ["Recorder", "request_info_of", "request_path"]

_METHODS: Final = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
    "deletecollection": "DELETE",
}
_SORTS: Final = 1024
"""Sorts of requests that are known at a time: a kind has a few."""
_KNOWN_LENGTH: Final = 512
"""Characters of a sort's names. Longer ones name nothing that is served, and are not kept: together they could take as
many times the size of a message."""
_DRY_RUN: Final = b"dryRun=All"
_SELECTED: Final = frozenset({"list", "watch", "deletecollection"})


class Recorder:
    """Tells metrics of every request, and the audit log, as far as they are there."""

    def __init__(self, server: ServerContext, metrics: Metrics | None, audit: AuditLog | None) -> None:
        self._server = server
        self._metrics = metrics
        self._audit = audit
        self.audits = audit is not None
        """Whether requests are written down."""
        self._now = server.clock.monotonic
        self._sorts: dict[tuple[str | bool, ...], RequestRecord] = {}

    def begin(self, request: LocalRequest, user: UserInfo, agent: str, source: str = "") -> RequestRecord:
        """A request has come; ``source`` is the address of its client, if that has one."""
        began = self._now()
        if self._audit is None:
            sort = self._sort(request)
            query = _DRY_RUN if request.options.dry_run else b""
            record = RequestRecord(sort.info, query, "", began, user, counted_as=sort.counted_as)
        else:
            record = self._audited(request, user, agent, began)
            record.source = source
            record.content_type = _content_type(request)
        if self._metrics is not None:
            self._metrics.begin(record)
        return record

    def _sort(self, request: LocalRequest) -> RequestRecord:
        """A request of the same sort, which metrics count alike: they look at nothing else."""
        key = (
            request.verb,
            request.group,
            request.version,
            request.resource,
            request.subresource,
            request.options.patch_type,
            not request.namespace,
            not request.name,
        )
        found = self._sorts.get(key)
        if found is None:
            found = RequestRecord(request_info_of(request), b"", "", 0.0)
            found.content_type = _content_type(request)
            found.counted_as = found.labels()
            if len(self._sorts) >= _SORTS:
                self._sorts.clear()
            if sum(map(len, key[:6])) <= _KNOWN_LENGTH:
                self._sorts[key] = found
        return found

    def streams(self, record: RequestRecord) -> None:
        """A watch has begun."""
        record.status = 200
        self._write(record, "ResponseStarted")

    def end(self, record: RequestRecord, status: int) -> None:
        """It has been answered."""
        record.status = status
        if self._metrics is not None:
            self._metrics.end(record, self._now() - record.began)
        if self._audit is not None:
            self._write(record, "ResponseComplete")

    def _audited(self, request: LocalRequest, user: UserInfo, agent: str, began: float) -> RequestRecord:
        query = _query(request.verb, request.options)
        record = RequestRecord(
            request_info_of(request, request_path(request)), query, generate_uid(self._server.random), began, user
        )
        record.user_agent = agent
        record.request_body = request.body
        selected = request.verb in _SELECTED
        attributes = Attributes.of(
            record.info,
            user,
            field_selector=request.options.field_selector if selected else "",
            label_selector=request.options.label_selector if selected else "",
        )
        decision = self._server.authorizer.authorize(attributes)
        record.annotations[REASON] = decision.reason
        record.allowed = decision.allowed
        return record

    def _write(self, record: RequestRecord, stage: str) -> None:
        if self._audit is None:
            return
        now = self._server.clock.now()
        self._audit.write(record, stage, now - (self._server.clock.monotonic() - record.began), now)


def _content_type(request: LocalRequest) -> str:
    patch_type = PATCH_TYPES.get(request.options.patch_type)
    return "" if patch_type is None else patch_type.value


def request_info_of(request: LocalRequest, path: str = "") -> RequestInfo:
    """What a request asks for, as it would be over HTTP."""
    return RequestInfo(
        method=_METHODS.get(request.verb, "POST"),
        path=path,
        verb=request.verb,
        is_resource=True,
        group=request.group,
        version=request.version,
        namespace=request.namespace,
        resource=request.resource,
        name=request.name,
        subresource=request.subresource,
        below_namespace=bool(request.namespace),
    )


def request_path(request: LocalRequest) -> str:
    """The path that the request would have over HTTP."""
    root = f"/apis/{request.group}/{request.version}" if request.group else f"/api/{request.version}"
    inside = f"/namespaces/{request.namespace}" if request.namespace else ""
    name = f"/{quote(request.name, safe='')}" if request.name and request.verb != "create" else ""
    if request.subresource:
        name = f"/{request.name}/{request.subresource}"
    return f"{root}{inside}/{request.resource}{name}"


def _query(verb: str, options: Options) -> bytes:
    """The query that the request would have over HTTP."""
    values = {
        "labelSelector": options.label_selector,
        "fieldSelector": options.field_selector,
        "limit": str(options.limit or ""),
        "continue": options.continue_,
        "resourceVersion": options.resource_version,
        "resourceVersionMatch": options.resource_version_match,
        "dryRun": "All" if options.dry_run else "",
        "fieldManager": options.field_manager,
        "fieldValidation": options.field_validation,
        "force": "true" if options.force else "",
        "watch": "true" if verb == "watch" else "",
    }
    return urlencode({name: value for name, value in values.items() if value}).encode()
