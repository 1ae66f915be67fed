"""The options of writes, from the query (docs/spec/apimachinery.md §13)."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.field import ErrorList
from cathedra.api.status import invalid
from cathedra.apiserver.http.request import Request
from cathedra.client.transport import ListOptions

__all__ = ["WriteQuery", "check_dry_run", "list_options", "write_query"]

MANAGER_LIMIT: Final = 128


class WriteQuery(msgspec.Struct, frozen=True):
    """Dry run, field manager, field validation, force."""

    dry_run: bool
    field_manager: str
    field_validation: str
    force: bool


def write_query(request: Request, kind: str, *, apply: bool = False) -> WriteQuery:
    """The options of a create, update or patch; ``kind`` is CreateOptions, UpdateOptions or PatchOptions.

    Raises:
        StatusError: 422, some make no sense.
    """
    query = request.query
    if not query and not apply:
        return WriteQuery(False, default_manager(request), "Warn", False)
    errors = ErrorList()
    manager = request.parameter("fieldManager")
    force = request.flag("force")
    if kind == "PatchOptions":
        if apply:
            if not manager:
                errors.required("fieldManager", "is required for apply patch")
        elif "force" in query:
            errors.forbidden("force", "may not be specified for non-apply patch")
    if len(manager.encode()) > MANAGER_LIMIT:
        errors.too_long("fieldManager", MANAGER_LIMIT)
    if not manager.isprintable():
        _check_letters(errors, manager)
    dry_run = query.get("dryRun", [])
    check_dry_run(errors, dry_run)
    validation = request.parameter("fieldValidation")
    if validation not in {"", "Ignore", "Warn", "Strict"}:
        errors.not_supported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])
    if errors:
        raise invalid("meta.k8s.io", kind, "", errors)
    return WriteQuery(bool(dry_run), manager or default_manager(request), validation or "Warn", force)


def _check_letters(errors: ErrorList, manager: str) -> None:
    position = 0
    for letter in manager:
        if not letter.isprintable():
            errors.invalid("fieldManager", manager, f"invalid character U+{ord(letter):04X} (at position {position})")
        position += len(letter.encode())


def check_dry_run(errors: ErrorList, values: list[str] | tuple[str, ...]) -> None:
    """``All`` is the only dry run there is."""
    if any(value != "All" for value in values):
        errors.not_supported("dryRun", list(values), ["All"])


def default_manager(request: Request) -> str:
    """The field manager of writes that name none: the first word of the user agent."""
    return request.header(b"user-agent").partition("/")[0][:MANAGER_LIMIT]


def list_options(request: Request) -> ListOptions:
    """The options of a list or watch.

    Raises:
        StatusError: 400, a number is none.
    """
    return ListOptions(
        label_selector=request.parameter("labelSelector"),
        field_selector=request.parameter("fieldSelector"),
        limit=request.number("limit") or 0,
        continue_=request.parameter("continue"),
        resource_version=request.parameter("resourceVersion"),
        resource_version_match=request.parameter("resourceVersionMatch"),
    )
