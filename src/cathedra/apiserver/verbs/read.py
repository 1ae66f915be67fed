"""Get, list and watch: from memory, now or at a past revision (docs/spec/apimachinery.md §5, §8 and §9)."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from operator import length_hint
from typing import Final

import msgspec

from cathedra.api.core.meta_v1 import Status, StatusCause, StatusDetails
from cathedra.api.decoding.syntax import explain_syntax
from cathedra.api.field import ErrorList, ErrorType, FieldError
from cathedra.api.goquote import go_quote
from cathedra.api.nesting import check_nesting
from cathedra.api.status import StatusError, bad_request, expired, failure, invalid, not_found
from cathedra.apiserver.queryvalues import NumberError, parse_uint64
from cathedra.apiserver.registry.selection import Selection
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table, TooOld
from cathedra.apiserver.registry.watching import Seen, Watcher
from cathedra.apiserver.request import Call, Listing
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.client.transport import EventType, ListOptions

_TOKEN_VERSION: Final = "meta.k8s.io/v1"
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]")


class _Token(msgspec.Struct):
    """The content of a continue token."""

    v: str = ""
    rv: int = 0
    start: str = ""


class WatchStart(msgspec.Struct):
    """A watch that has begun: the existing objects, and the watcher of changes after ``revision``."""

    initial: list[StoredObject]
    watcher: Watcher
    table: Table
    revision: int

    def initial_events(self) -> Iterator[Seen]:
        """Yield the existing objects as additions, and release each: a watch lasts for hours, while the states that
        it began with are replaced."""
        initial, self.initial = self.initial, []
        # Popped from the end, so that each state is released as soon as it is yielded.
        initial.reverse()
        while initial:
            yield Seen(EventType.ADDED, initial.pop())

    def stop(self) -> None:
        """End the watch: no events are queued for it any more."""
        self.table.unwatch(self.watcher)


def get(server: ServerContext, call: Call) -> StoredObject:
    """Return one object.

    Raises:
        StatusError: 404, it is not there.
    """
    entry = server.find(call)
    if entry is None:
        raise not_found(call.resource, call.name)
    return entry


def list_objects(server: ServerContext, call: Call, options: ListOptions) -> Listing:
    """Return the objects that match, a page at most.

    Raises:
        StatusError: the options make no sense, or the revision is too old or not there yet.
    """
    if errors := list_option_errors(options):
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    table, current = server.table(call), server.registry.revision
    selection = Selection.parse(
        call.definition, call.namespace, options.label_selector, options.field_selector, call.name
    )
    start, revision = "", 0
    if options.continue_:
        if options.resource_version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode_continue(options.continue_)
        start = _absolute(call, start)
    else:
        revision = _wanted_revision(options, current)
    try:
        found = table.select(selection, start) if revision <= 0 else table.select_at(revision, selection, start)
    except TooOld:
        raise _too_old(call, options, start) from None
    # -1 stands in the token of a list that continues inconsistently, and means the present state.
    shown = revision if revision > 0 else current
    limit = options.limit
    # A list at version 0 may come from any cache, and kube-apiserver ignores its limit.
    if limit <= 0 or options.resource_version == "0":
        return Listing(list(found), shown)
    return _page(call, found, limit, shown, counted=not selection.filtered)


def start_watch(
    server: ServerContext, call: Call, options: ListOptions, *, send_initial: bool | None = None
) -> WatchStart:
    """Begin a watch.

    Raises:
        StatusError: the options make no sense; 410 if the revision is too old.
    """
    table, current = server.table(call), server.registry.revision
    selection = Selection.parse(
        call.definition, call.namespace, options.label_selector, options.field_selector, call.name
    )
    if options.continue_:
        errors = ErrorList()
        errors.forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        raise invalid("meta.k8s.io", "ListOptions", "", errors)
    after = watch_revision(options.resource_version)
    initial = after == 0 if send_initial is None else send_initial
    if initial:
        # The revision was seen on another server that is ahead. The client retries after a second instead of reading an
        # older state.
        if after > current:
            raise _too_large(after, current)
        # List and watch begin in one turn of the loop. No write can fall between them.
        return WatchStart(list(table.select(selection)), table.watch(selection, current), table, current)
    if send_initial is False and after == 0:
        after = current
    try:
        return WatchStart([], table.resume(selection, after), table, after)
    except TooOld:
        raise expired_watch(after, table.floor) from None


def needs_latest(resource_version: str, current: int) -> bool:
    """Return True if a read at a resource version needs the writes that other servers have acknowledged: it names no
    version, or one that is not here yet."""
    if not resource_version:
        return True
    try:
        return parse_uint64(resource_version) > current
    except NumberError:
        return False  # the verb refuses it


def expired_watch(after: int, floor: int) -> StatusError:
    """Return the 410 of a watch that begins before the history does."""
    return expired(f"too old resource version: {after} ({floor + 1})")


def parse_revision(text: str) -> int:
    """Return a resource version as a number; 0 if it is empty.

    Raises:
        StatusError: 400, it is none.
    """
    if not text:
        return 0
    try:
        return parse_uint64(text)
    except NumberError as error:
        raise bad_request(f'invalid resource version: resourceVersion: Invalid value: "{text}": {error}') from None


def watch_revision(text: str) -> int:
    """Return the resource version after which a watch begins; 0 if it is empty.

    Raises:
        StatusError: 500, it is no number.
    """
    try:
        return parse_uint64(text) if text else 0
    except NumberError as error:
        raise failure(500, "", f'resourceVersion: Invalid value: "{text}": {error}') from None


def list_option_errors(options: ListOptions) -> ErrorList:
    """Return the errors of the options of a list."""
    errors = ErrorList()
    match, version = options.resource_version_match, options.resource_version
    if match:
        if not version:
            errors.forbidden(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        if options.continue_:
            errors.forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
        if match not in {"Exact", "NotOlderThan"}:
            supported = 'supported values: "Exact", "NotOlderThan", ""'
            errors.append(FieldError(ErrorType.NOT_SUPPORTED, "resourceVersionMatch", match, supported))
        elif match == "Exact" and version == "0":
            errors.forbidden(
                "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            )
    return errors


def _wanted_revision(options: ListOptions, current: int) -> int:
    """Return the exact revision of a list, or 0 for the latest."""
    wanted = parse_revision(options.resource_version)
    if wanted > current:
        raise _too_large(wanted, current)
    exact = options.resource_version_match == "Exact" or (not options.resource_version_match and options.limit > 0)
    return wanted if exact else 0


def _too_large(wanted: int, current: int) -> StatusError:
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return failure(504, "Timeout", message, StatusDetails(causes=(cause,), retry_after_seconds=1))


def _too_old(call: Call, options: ListOptions, start: str) -> StatusError:
    if not options.continue_:
        return expired("The resourceVersion for the provided list is too old.")
    token = _encode_continue(-1, _relative(call, start).removesuffix("\0"))
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
        "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
        "modified, or deleted between the time the first chunk was returned and now may show up in the list."
    )
    error = expired(message)
    status: Status = msgspec.structs.replace(
        error.status, metadata=msgspec.structs.replace(error.status.metadata, continue_=token)
    )
    return StatusError(status)


def _page(call: Call, found: Iterable[StoredObject], limit: int, revision: int, *, counted: bool) -> Listing:
    iterator = iter(found)
    entries = list(islice(iterator, limit))
    # One more is read to learn if there is a next page; a token that leads to an empty page would cost a request.
    following = next(iterator, None)
    if following is None:
        return Listing(entries, revision)
    # Only without selectors, as in Kubernetes: with them, counting would mean to read all objects.
    remaining = 1 + length_hint(found) if counted else None
    return Listing(entries, revision, _encode_continue(revision, _relative(call, entries[-1].key)), remaining)


def _relative(call: Call, key: str) -> str:
    return key.removeprefix(f"{call.namespace}/") if call.namespace else key


def _absolute(call: Call, key: str) -> str:
    return f"{call.namespace}/{key}" if call.namespace else key


def _encode_continue(revision: int, last: str) -> str:
    token = msgspec.json.encode({"v": _TOKEN_VERSION, "rv": revision, "start": last + "\0"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _decode_continue(token: str) -> tuple[int, str]:
    # Python's decoder drops unknown characters silently. Go's reports the first one by its position.
    foreign = _FOREIGN.search(token)
    if foreign is not None or len(token) % 4 == 1:
        raise _bad_token(f"illegal base64 data at input byte {foreign.start() if foreign else len(token) - 1}")
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    try:
        # Tokens come from clients: deep nesting would exhaust the decoder's stack.
        check_nesting(raw)
        value = msgspec.json.decode(raw, type=_Token)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad_token(explain_syntax(raw.decode(errors="replace")) or str(error)) from None
    if value.v != _TOKEN_VERSION:
        raise _bad_token(f"server does not recognize this encoded version {go_quote(value.v)}")
    if value.rv == 0:
        raise _bad_token(f"incorrect encoded start resourceVersion (version {_TOKEN_VERSION})")
    if not value.start:
        raise _bad_token(f"encoded start key empty (version {_TOKEN_VERSION})")
    return value.rv, value.start.lstrip("/")


def _bad_token(why: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {why}")
