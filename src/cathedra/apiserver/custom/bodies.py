"""Bodies of custom resources: kind and version are required, unknown fields are reported
(docs/spec/apimachinery.md §1 and §17)."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.decoding import DecodeError
from cathedra.api.decoding.syntax import explain_syntax
from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject, JSONValue
from cathedra.api.nesting import load_json
from cathedra.api.status import StatusError, bad_request, invalid
from cathedra.apiserver.custom.objects import CustomObject, decode_custom
from cathedra.apiserver.patches.duplicates import repeated_fields
from cathedra.apiserver.request import Call, note_problems, unfit


def decode_instance(call: Call, raw: bytes, repeated: tuple[str, ...] = ()) -> CustomObject:
    """Return the instance of a JSON body; ``repeated`` are the repeated fields if it was YAML before.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    try:
        values: JSONValue = load_json(raw)
    except (msgspec.DecodeError, ValueError) as error:
        why = explain_syntax(raw.decode(errors="replace")) or error
        raise _unrecognized(call, f"couldn't get version/kind; json parse error: {why}") from None
    if not isinstance(values, dict):
        raise _unrecognized(call, "couldn't get version/kind; json parse error: the body is no object")
    shown = raw[:1024].decode(errors="replace")
    if not values.get("kind"):
        raise _unrecognized(call, f"Object 'Kind' is missing in '{shown}' ({raw[:1024].hex()})")
    if not values.get("apiVersion"):
        raise _unrecognized(call, f"Object 'apiVersion' is missing in '{shown}' ({raw[:1024].hex()})")
    if values["apiVersion"] != call.api_version:
        raise bad_request(
            f"the API version in the data ({values['apiVersion']}) does not match the expected API version "
            f"({call.api_version})"
        )
    kind = call.definition.kind
    if values["kind"] != kind:
        # Kubernetes decodes any kind here, and then validates it.
        errors = ErrorList()
        errors.invalid("kind", values["kind"], f"must be {kind}")
        metadata = values.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        raise invalid(call.definition.group, str(values["kind"]), str(name or call.name), errors)
    try:
        obj, problems = instance_of(call, values)
    except DecodeError as error:
        raise unfit(call.gvk, str(error)) from None
    if problems := (*repeated, *repeated_fields(raw, values), *problems):
        note_problems(call, problems, lambda text: unfit(call.gvk, text))
    return obj


def instance_of(call: Call, values: JSONObject) -> tuple[CustomObject, tuple[str, ...]]:
    """Return the instance of plain values, and their unknown fields.

    Raises:
        DecodeError: its metadata cannot be understood.
    """
    kind: Any = call.version.type
    found: tuple[CustomObject, tuple[str, ...]] = decode_custom(kind, values, call.release)
    return found


def _unrecognized(call: Call, why: str) -> StatusError:
    return bad_request(f"the object provided is unrecognized (must be of type {call.definition.kind}): {why}")
