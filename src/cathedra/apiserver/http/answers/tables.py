"""Tables: objects as rows, as the definition of their kind prints them (docs/spec/apimachinery.md §10)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from cathedra.api.status import bad_request
from cathedra.api.struct import encode
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call
from cathedra.kinds.definition import Column

GENERIC_COLUMNS: Final = (
    Column("Name", "string", "name", "The object's name, unique within its namespace."),
    Column("Created At", "date", "", "When the object was created."),
)


class TableOptions(msgspec.Struct, frozen=True):
    """The options of a table."""

    include: str = ""
    """The objects in its rows, from the parameter ``includeObject``."""
    now: float = 0.0
    """Seconds since the epoch, for columns with ages."""


def check_include(include: str) -> str:
    """Return the value of ``includeObject``, with its default.

    Raises:
        StatusError: 400, it is none of the known ones.
    """
    if include not in {"", "None", "Metadata", "Object"}:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return include or "Metadata"


def columns(call: Call) -> list[dict[str, Any]]:
    """Return the column definitions of a kind."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in (call.definition.columns or GENERIC_COLUMNS)
    ]


def table(
    call: Call,
    rows: Iterable[dict[str, Any] | msgspec.Raw],
    metadata: dict[str, Any],
    *,
    version: str = "v1",
    with_columns: bool = True,
) -> bytes:
    """Return the JSON of a table with these rows."""
    return encode(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": metadata,
            # A watch sends the columns with its first event only.
            "columnDefinitions": columns(call) if with_columns else None,
            "rows": list(rows),
        }
    )


def row(call: Call, entry: StoredObject, include: str, now: float, version: str) -> dict[str, Any]:
    """Return one object as a row."""
    obj = entry.object
    if call.definition.cells is not None:
        cells = call.definition.cells(obj, now)
    else:
        cells = [obj.metadata.name, str(obj.metadata.creation_timestamp)]
    made: dict[str, Any] = {"cells": cells}
    if (conditions := _conditions(call, obj)) is not None:
        made["conditions"] = conditions
    made["object"] = None
    if include == "Metadata":
        made["object"] = partial(entry, call, version)
    elif include == "Object":
        made["object"] = msgspec.Raw(whole(entry, call))
    return made


def whole(entry: StoredObject, call: Call) -> bytes:
    """Return the JSON of an object with its kind."""
    return call.prefix + entry.shown(call.version)[1:]


def partial(entry: StoredObject, call: Call, version: str) -> dict[str, Any]:
    """Return an object with nothing but its metadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": entry.object.metadata,
    }


def _conditions(call: Call, obj: Any) -> list[dict[str, str]] | None:
    if call.definition.kind != "Pod" or call.definition.group:
        return None
    phase = obj.status.phase
    if phase == "Succeeded":
        return [
            {"type": "Completed", "status": "True", "reason": phase, "message": "The pod has completed successfully."}
        ]
    if phase == "Failed":
        return [{"type": "Completed", "status": "True", "reason": phase, "message": "The pod failed."}]
    return None
