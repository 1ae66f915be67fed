"""Options of requests, read from the query (docs/spec/apimachinery.md §13)."""

from __future__ import annotations

from cathedra.apiserver.http.request import Request
from cathedra.apiserver.pipeline.operations import WriteQuery, checked_write, manager_named
from cathedra.client.transport import ListOptions

__all__ = ["list_options", "write_query"]


def write_query(request: Request, kind: str, *, apply: bool = False) -> WriteQuery:
    """Return the options of a create, update or patch; ``kind`` is CreateOptions, UpdateOptions or PatchOptions.

    Raises:
        StatusError: 422, some are invalid.
    """
    query, agent = request.query, request.header(b"user-agent")
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
