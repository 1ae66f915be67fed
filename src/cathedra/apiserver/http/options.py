"""The options of writes, from the query (docs/spec/apimachinery.md §13)."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.field import ErrorList
from cathedra.api.status import invalid
from cathedra.apiserver.http.request import Request
from cathedra.client.transport import ListOptions

__all__ = [
    "MANAGER_LIMIT",
    "VALIDATIONS",
    "WriteQuery",
    "check_applied",
    "check_dry_run",
    "check_writing",
    "list_options",
    "manager_named",
    "write_query",
]

MANAGER_LIMIT: Final = 128
"""Bytes that the name of a field manager may have."""
VALIDATIONS: Final = frozenset({"", "Ignore", "Warn", "Strict"})
"""What may be done about unknown fields; "" is Warn."""


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
            check_applied(errors, manager)
        elif "force" in query:
            errors.forbidden("force", "may not be specified for non-apply patch")
    dry_run, validation = query.get("dryRun", []), request.parameter("fieldValidation")
    check_writing(errors, manager, dry_run, validation)
    if errors:
        raise invalid("meta.k8s.io", kind, "", errors)
    return WriteQuery(bool(dry_run), manager or default_manager(request), validation or "Warn", force)


def check_applied(errors: ErrorList, manager: str) -> None:
    """What is applied is applied by a manager."""
    if not manager:
        errors.required("fieldManager", "is required for apply patch")


def check_writing(errors: ErrorList, manager: str, dry_run: list[str] | tuple[str, ...], validation: str) -> None:
    """What every write may say of its manager, of being a dry run, and of what to do about unknown fields."""
    if len(manager.encode()) > MANAGER_LIMIT:
        errors.too_long("fieldManager", MANAGER_LIMIT)
    if not manager.isprintable():
        _check_letters(errors, manager)
    check_dry_run(errors, dry_run)
    if validation not in VALIDATIONS:
        errors.string_not_among("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"])


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
    return manager_named(request.header(b"user-agent"))


def manager_named(agent: str) -> str:
    """The field manager that an agent's writes have if they name none."""
    return agent.partition("/")[0][:MANAGER_LIMIT]


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
