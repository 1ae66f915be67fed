"""Objects, lists and statuses as the bytes of an answer, in the form that the client wants, and the cache of whole
lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import ListMeta
from cathedra.api.decoding import write_yaml
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.protobuf import wrap
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict
from cathedra.apiserver.computation import LARGE
from cathedra.apiserver.custom.objects import is_custom
from cathedra.apiserver.http.answers import tables
from cathedra.apiserver.http.answers.negotiation import JSON_TYPE, PROTOBUF_TYPE, YAML_TYPE, AnswerForm, negotiate
from cathedra.apiserver.http.answers.protobuf import list_to_protobuf, to_protobuf
from cathedra.apiserver.http.answers.response import JSON, Response
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.registry.table import Table
from cathedra.apiserver.request import Call, Listing
from cathedra.client.transport import ListOptions
from cathedra.remembering import IS_ON

YAML: Final = b"application/yaml"
YAML_OF_JSON: Final = b"application/yaml; of=json"
"""Type of an answer whose body is still JSON and is sent as YAML (`in_yaml`)."""
WARNINGS: Final = 80
"""Limit of ``Warning`` headers: some clients give up at a hundred headers."""
WARNING_LETTERS: Final = 4096
"""Limit of all warnings together; beyond it each is cut to `WARNING_LENGTH`, and the rest is left out."""
WARNING_LENGTH: Final = 256


Check = Callable[[], object]
ENTRIES: Final = 8
LARGEST: Final = 8 * 1024 * 1024
"""Limit of a cached list in bytes."""


_NO_TABLE: Final = tables.TableOptions()


def _never_ends() -> None:
    """Return: a list without a limit on its computation always goes on."""


def render_object(
    call: Call, entry: StoredObject, form: AnswerForm, *, status: int = 200, table: tables.TableOptions = _NO_TABLE
) -> Response:
    """Return the answer with one object, with the call's warnings."""
    headers = warning_headers(call.warnings)
    if form.drops_managers:
        entry = entry.without_managers()
    if not form.transform:
        if form.media_type == PROTOBUF_TYPE:
            return _protobuf(wrap(call.gvk, entry.message(call.version)), status, headers)
        body = call.prefix + entry.shown(call.version)[1:]
        return formatted(body, form, status, headers)
    if form.transform == "Table":
        row = tables.row(call, entry, tables.check_include(table.include), table.now, form.version)
        revision = entry.object.metadata.resource_version
        metadata = {"resourceVersion": revision} if revision else {}
        return formatted(tables.table(call, [row], metadata, version=form.version), form, status, headers)
    return formatted(encode(tables.partial(entry, call, form.version)), form, status, headers)


def render_list(
    call: Call,
    listing: Listing,
    form: AnswerForm,
    *,
    table: tables.TableOptions = _NO_TABLE,
    items: bytes = b"",
    check: Check = _never_ends,
) -> Response:
    """Return the answer with a page of objects. ``items`` are their JSON from `items_of`, if the caller has it.
    ``check`` is called for each object, and may raise an exception."""
    headers = warning_headers(call.warnings)
    if form.drops_managers:
        bare = [entry.without_managers() for entry in each(listing.entries, check)]
        listing = msgspec.structs.replace(listing, entries=bare)
    metadata = _list_metadata(listing)
    if form.transform == "Table":
        wanted = tables.check_include(table.include)
        rows = [
            msgspec.Raw(encode(tables.row(call, entry, wanted, table.now, form.version)))
            for entry in each(listing.entries, check)
        ]
        return formatted(tables.table(call, rows, metadata, version=form.version), form, 200, headers)
    if form.transform:
        partials = [tables.partial(entry, call, form.version) for entry in each(listing.entries, check)]
        return formatted(_partial_list(partials, metadata, form), form, 200, headers)
    version = call.version
    if form.media_type == PROTOBUF_TYPE:
        messages = (entry.message(version) for entry in each(listing.entries, check))
        return _protobuf(list_to_protobuf(call.gvk, from_dict(ListMeta, metadata), messages), 200, headers)
    kind = call.definition.kind
    head = f'{{"kind":"{kind}List","apiVersion":"{call.api_version}","metadata":'.encode() + encode(metadata)
    if form.media_type == JSON_TYPE:
        return Response(200, head, JSON, headers, tail=items or items_of(call, listing, check))
    return formatted(head + items_of(call, listing, check), form, 200, headers)


def _list_metadata(listing: Listing) -> JSONObject:
    metadata: JSONObject = {"resourceVersion": str(listing.revision)}
    if listing.continue_:
        metadata["continue"] = listing.continue_
    if listing.remaining is not None:
        metadata["remainingItemCount"] = listing.remaining
    return metadata


def _partial_list(partials: Sequence[Any], metadata: JSONObject, form: AnswerForm) -> bytes:
    # Kubernetes writes null for no items in JSON; a message has no such thing.
    nothing: list[Any] | None = [] if form.media_type == PROTOBUF_TYPE else None
    return encode(
        {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{form.version}",
            "metadata": metadata,
            "items": partials or nothing,
        }
    )


def each(entries: Sequence[StoredObject], check: Check) -> Iterator[StoredObject]:
    """Yield the entries, with a call of ``check`` before each."""
    for entry in entries:
        check()
        yield entry


def items_of(call: Call, listing: Listing, check: Check = _never_ends) -> bytes:
    """Return the items of a list as JSON, with the closing brackets."""
    version = call.version
    bodies = [entry.shown(version) for entry in each(listing.entries, check)]
    if is_custom(version.type):
        prefix = call.prefix
        bodies = [prefix + body[1:] for body in bodies]
    if not bodies:
        return b',"items":[]}'
    bodies[0] = b',"items":[' + bodies[0]
    bodies[-1] += b"]}"
    return b",".join(bodies)


def render_plain(value: Any, form: AnswerForm, *, status: int = 200, warnings: Sequence[str] = ()) -> Response:
    """Return the answer with a value that has kind and apiVersion of its own."""
    return formatted(encode(value), form, status, warning_headers(warnings))


def formatted(body: bytes, form: AnswerForm, status: int, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Response:
    """Return JSON in the negotiated media type."""
    if form.media_type == JSON_TYPE:
        return Response(status, body, JSON, headers)
    if form.media_type == YAML_TYPE:
        if len(body) >= LARGE:
            return Response(status, body, YAML_OF_JSON, headers)
        return Response(status, write_yaml(msgspec.json.decode(body)), YAML, headers)
    return _protobuf(to_protobuf(body), status, headers)


def in_yaml(response: Response) -> Response:
    """Return the answer with its body in YAML. It is converted late, off the event loop: a megabyte takes a second."""
    values = msgspec.json.decode(response.body + response.tail)
    return msgspec.structs.replace(response, body=write_yaml(values), tail=b"", content_type=YAML)


def in_form_of(response: Response, accept: str) -> Response:
    """Return an error in the form that the client wants; JSON if that form is not available."""
    if not response.body.startswith(b'{"kind":"Status"'):
        return response
    try:
        form = negotiate(accept, transforms=False)
    except StatusError:
        return response
    return formatted(response.body, form, response.status, response.headers)


def _protobuf(encoded: bytes, status: int, headers: tuple[tuple[bytes, bytes], ...]) -> Response:
    return Response(status, encoded, PROTOBUF_TYPE.encode(), headers)


def warning_headers(warnings: Sequence[str]) -> tuple[tuple[bytes, bytes], ...]:
    """Return ``Warning`` headers, each text once, as many as clients can take."""
    if not warnings:
        return ()
    # Once each and in order of appearance, as the warning recorder of apiserver does.
    texts = list(dict.fromkeys(warnings))[:WARNINGS]
    if sum(map(len, texts)) > WARNING_LETTERS:
        texts = _shortened(texts)
    return tuple((b"warning", b"299 - " + _quoted(text)) for text in texts)


def _shortened(texts: list[str]) -> list[str]:
    left = WARNING_LETTERS
    kept = []
    for text in texts:
        short = text[:WARNING_LENGTH]
        left -= len(short)
        if left < 0:
            break
        kept.append(short)
    return kept


def _quoted(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'.encode("utf-8", "replace")


class ListCache:
    """Cache of the JSON of a few whole lists, because many clients list the same objects.

    Joining the bytes of the objects is most of the cost of a list. Only complete lists without a resource version of
    their own are kept; the metadata in front is made for each answer. The least recently read list is dropped first."""

    def __init__(self) -> None:
        self._kept: dict[tuple[Any, ...], tuple[tuple[Any, ...], bytes]] = {}

    def get(self, table: Table, call: Call, options: ListOptions) -> bytes | None:
        """Return the items of a list, if they are cached and nothing has changed since."""
        key = _key(table, call, options)
        found = self._kept.pop(key, None)
        if found is None or found[0] != stamp_of(table):
            return None
        self._kept[key] = found  # behind all others: the first is dropped first
        return found[1]

    def keep(
        self, table: Table, call: Call, options: ListOptions, items: bytes, stamp: tuple[Any, ...] | None = None
    ) -> None:
        """Cache the items of a complete list. ``stamp`` is the stamp of the table when the list was read (None:
        now)."""
        if len(items) > LARGEST or not IS_ON:
            return
        self._kept[_key(table, call, options)] = (stamp or stamp_of(table), items)
        if len(self._kept) > ENTRIES:
            del self._kept[next(iter(self._kept))]


def _key(table: Table, call: Call, options: ListOptions) -> tuple[Any, ...]:
    # All options are in the key, so that one that is added later cannot serve the list of another.
    return table, call.version.type, call.namespace, call.name, options


def stamp_of(table: Table) -> tuple[Any, ...]:
    """Return a value that changes with every write of a table."""
    return table.latest, id(table.definition), len(table)
