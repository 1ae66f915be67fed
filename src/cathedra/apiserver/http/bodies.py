"""Request bodies: media types, kinds and the decoded object (docs/spec/apimachinery.md §1 and §13)."""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import partial
from typing import Any, Final

import msgspec

from cathedra.api.core.meta_v1 import DeleteOptions
from cathedra.api.decoding import (
    DecodeError,
    YAMLDocument,
    decode_json,
    decode_sound,
    decode_values,
    read_envelope,
    read_yaml,
)
from cathedra.api.decoding.envelope import envelope_of, shown_body
from cathedra.api.decoding.syntax import explain_syntax
from cathedra.api.nesting import NestingError, load_json
from cathedra.api.parts import with_parts_of
from cathedra.api.protobuf import has_message
from cathedra.api.scheme import GroupVersionKind, is_registered, type_of
from cathedra.api.status import bad_request, failure
from cathedra.api.struct import KubeStruct, encode, from_dict
from cathedra.apiserver.computation import LARGE, Computations
from cathedra.apiserver.custom.bodies import decode_instance
from cathedra.apiserver.custom.objects import is_custom
from cathedra.apiserver.http.answers.protobuf import from_protobuf
from cathedra.apiserver.http.request import Request
from cathedra.apiserver.patches.duplicates import repeated_fields, repeated_keys, warnings_of
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, note_problems, unfit
from cathedra.client.transport import PatchType
from cathedra.releases import NEWEST
from cathedra.remembering import forget_large

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_LONG: Final = 64 * 1024
"""Bytes of YAML that take so long to read that other requests would notice."""
_FRACTION: Final = re.compile(rb"[:,\[\s]-?[0-9]+[.eE]")
"""A text that may be a number with a fraction: YAML takes ``1.0`` for a whole number, JSON does not."""
_OPTIONS_SHAPE: Final = GroupVersionKind("meta", "v1", "DeleteOptions")
"""Delete options belong to every group; their type is that of the shared group."""


def media_type(request: Request, *, protobuf: bool = True) -> str:
    """Return the media type of the body without its parameters; JSON if none is given. Without ``protobuf`` that form
    is refused: custom resources have none.

    Raises:
        StatusError: 415, bodies of that type are not understood.
    """
    named = request.header(b"content-type")
    given = JSON if named == JSON else named.partition(";")[0].strip().lower()
    if not given or given == JSON:
        return JSON
    accepted = (JSON, YAML, PROTOBUF) if protobuf else (JSON, YAML)
    if given in accepted:
        return given
    raise failure(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}",
    )


def load_values(raw: bytes) -> Any:
    """Return the plain values of a JSON text.

    Raises:
        DecodeError: they do not parse.
    """
    forget_large(len(raw))
    try:
        return load_json(raw)
    except NestingError as error:
        raise DecodeError(str(error)) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise DecodeError(explain_syntax(raw.decode(errors="replace")) or str(error)) from None


async def load_yaml(raw: bytes, computations: Computations | None = None, owner: str = "") -> YAMLDocument:
    """Return the plain values of a YAML text, with its repeated keys. Long texts are read off the event loop, one at a
    time if ``computations`` are given.

    Raises:
        DecodeError: they do not parse.
    """
    if len(raw) <= _LONG:
        return read_yaml(raw)
    if computations is None:
        return await asyncio.to_thread(read_yaml, raw)
    return await computations.compute(lambda _: read_yaml(raw), owner)


async def load_applied(raw: bytes, computations: Computations | None = None, owner: str = "") -> YAMLDocument:
    """Return the values of an applied body. Most clients send JSON, which is YAML too and is read ten times faster.

    Raises:
        DecodeError: it does not parse.
    """
    forget_large(len(raw))
    # Numbers such as 1.0 are whole numbers in YAML and not in JSON, so bodies that may have one are read as YAML.
    if raw.lstrip().startswith(b"{") and not _FRACTION.search(raw):
        with contextlib.suppress(msgspec.DecodeError, ValueError):
            value = load_json(raw)
            if not repeated_fields(raw, value):
                return YAMLDocument(value)
    return await load_yaml(raw, computations, owner)


async def patch_values(
    raw: bytes, call: Call, patch_type: PatchType, computations: Computations
) -> tuple[Any, tuple[str, ...]]:
    """Return the plain values of a patch, and the problems with fields that occur twice.

    Raises:
        StatusError: 400, it does not parse, or an applied body repeats a key in strict validation.
    """
    checked = call.field_validation != "Ignore"
    if patch_type is not PatchType.APPLY:
        try:
            body = load_values(raw)
        except DecodeError as error:
            word = "" if patch_type is PatchType.STRATEGIC else "error decoding patch: "
            raise bad_request(f"{word}{error}") from None
        repeated = repeated_fields(raw, body) if checked else ()
        if patch_type is PatchType.JSON:
            return body, tuple(f"json patch {problem}" for problem in repeated)
        return body, repeated
    try:
        document = await load_applied(raw, computations, call.user.name)
    except DecodeError as error:
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    if problems := repeated_keys(document) if checked else ():
        if call.field_validation == "Strict":
            raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {problems[0]}")
        call.warnings.extend(warnings_of(problems[0]))
    return document.value, ()


async def decode_object(
    request: Request,
    call: Call,
    kind: GroupVersionKind | None = None,
    *,
    stored: StoredObject | None = None,
    computations: Computations | None = None,
) -> Any:
    """Return the object of the body, in the version of the request, or of another ``kind`` that a sub-resource takes.
    Parts with the bytes that they have in ``stored`` become the stored parts themselves. ``computations`` decode large
    bodies.

    Raises:
        StatusError: 400 or 415, it cannot be understood.
    """
    expected = kind or call.gvk
    target = type_of(kind) if kind else call.version.type
    media = media_type(request, protobuf=has_message(target))
    raw = await request.body()
    forget_large(len(raw))
    if media == PROTOBUF:
        return from_protobuf(raw, expected, target, call.release)
    repeated: tuple[str, ...] = ()
    if media == YAML:
        raw, repeated = await _from_yaml(raw, expected.kind, computations, call.user.name)
    # The JSON of a YAML body has other bytes than the stored JSON, so no part could be shared.
    beside = stored if media != YAML else None
    if computations is None or len(raw) < LARGE:
        return decode_plain(call, expected, target, raw, repeated, beside)
    decoded = partial(decode_plain, call, expected, target, raw, repeated, beside)
    return await computations.compute(lambda _: decoded(), call.user.name)


def decode_plain(
    call: Call,
    expected: GroupVersionKind,
    target: type[KubeStruct],
    raw: bytes,
    repeated: tuple[str, ...] = (),
    stored: StoredObject | None = None,
) -> Any:
    """Return the object of a JSON body of the type ``target`` and the kind ``expected``. ``repeated`` are problems with
    its keys that were found before.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    if is_custom(target):
        try:
            return decode_instance(call, raw, repeated)
        except DecodeError as error:
            raise bad_request(str(error)) from None
    # Fast path: most bodies have nothing wrong. Only the others are decoded value by value, which finds the text of the
    # error.
    obj = None if repeated else decode_sound(target, expected, raw, call.release)
    if obj is None:
        obj, problems = _decode_closely(target, expected, raw, call.release)
        if problems := (*repeated, *problems):
            note_problems(call, problems, lambda text: unfit(expected, text))
            return obj
    if stored is not None and type(stored.object) is target:
        return with_parts_of(obj, raw, stored.object, stored.body(call.version))
    return obj


def _decode_closely(
    target: type[KubeStruct], expected: GroupVersionKind, raw: bytes, release: str
) -> tuple[Any, tuple[str, ...]]:
    """Return the object of a JSON body in which something may be wrong, and the problems with its fields.

    Raises:
        StatusError: 400, it cannot be understood.
    """
    try:
        read_envelope(raw, expected.kind).check(expected, is_registered)
    except DecodeError as error:
        raise bad_request(str(error)) from None
    try:
        decoded = decode_json(target, expected, raw, release)
    except DecodeError as error:
        raise unfit(expected, str(error)) from None
    return decoded.object, decoded.problems


async def _from_yaml(
    raw: bytes, kind: str, computations: Computations | None, owner: str
) -> tuple[bytes, tuple[str, ...]]:
    """Return a YAML body as JSON, and the problems with its repeated keys.

    Raises:
        StatusError: 400, it is no YAML.
    """
    try:
        document = await load_yaml(raw, computations, owner)
    except DecodeError as error:
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {error} ({shown_body(raw)})"
        ) from None
    return msgspec.json.encode(document.value), repeated_keys(document)


async def decode_delete_options(request: Request) -> DeleteOptions:
    """Return deletion options from the body or, without one, from the query.

    Raises:
        StatusError: they cannot be understood.
    """
    raw = await request.body()
    if raw:
        media = media_type(request)
        gvk = GroupVersionKind("", "v1", "DeleteOptions")
        if media == PROTOBUF:
            decoded: DeleteOptions = from_protobuf(raw, gvk, DeleteOptions, NEWEST)
            return decoded
        try:
            if media == YAML:
                raw = encode((await load_yaml(raw)).value)
            return json_delete_options(raw)
        except DecodeError as error:
            raise bad_request(str(error)) from None
    values: dict[str, Any] = {}
    grace = request.number("gracePeriodSeconds")
    if grace is not None:
        values["gracePeriodSeconds"] = grace
    if "orphanDependents" in request.query:
        values["orphanDependents"] = request.flag("orphanDependents")
    if policy := request.parameter("propagationPolicy"):
        values["propagationPolicy"] = policy
    if dry_run := request.query.get("dryRun"):
        values["dryRun"] = dry_run
    return from_dict(DeleteOptions, values)


def json_delete_options(raw: bytes) -> DeleteOptions:
    """Return the deletion options of a JSON body; ``null`` has none.

    Raises:
        DecodeError: it is something else.
    """
    if raw.strip() == b"null":
        return DeleteOptions()
    envelope = envelope_of(raw)
    if envelope.kind not in {"", "DeleteOptions"}:
        raise DecodeError(
            f'no kind "{envelope.kind}" is registered for version "{envelope.api_version or "v1"}" in scheme '
            '"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"'
        )
    values = {name: value for name, value in load_values(raw).items() if name not in {"kind", "apiVersion"}}
    return decode_values(DeleteOptions, _OPTIONS_SHAPE, values).object
