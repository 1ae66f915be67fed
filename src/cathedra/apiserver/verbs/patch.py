"""Patch: a change of some parts of a stored object, in the version of the request (docs/spec/apimachinery.md §6)."""

from __future__ import annotations

import json
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, NamedTuple

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.decoding import DecodeError, decode_values
from cathedra.api.decoding.gotypes import go_type_of
from cathedra.api.field import ErrorList
from cathedra.api.jsonvalue import JSONObject
from cathedra.api.nillists import with_nil_lists_in
from cathedra.api.scheme import GroupVersionKind
from cathedra.api.status import StatusError, bad_request, conflict, failure, invalid, not_found
from cathedra.api.struct import KubeStruct, replace, to_dict
from cathedra.apiserver.computation import LARGE
from cathedra.apiserver.custom.bodies import instance_of
from cathedra.apiserver.custom.objects import is_custom
from cathedra.apiserver.ownership.applying import applied
from cathedra.apiserver.ownership.documents import View
from cathedra.apiserver.ownership.tracking import (
    OtherVersions,
    keeps_metadata,
    kept_fields,
    tracked,
    with_kept,
    with_other_versions,
)
from cathedra.apiserver.patches.json_patch import JSONPatchError, go_kind, json_patch, malformed_operation
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import Shape, struct_shape
from cathedra.apiserver.patches.strategic import (
    ListOfListsError,
    PatchFormatError,
    StrategicPatchError,
    go_map,
    strategic_patch,
    unrestorable,
)
from cathedra.apiserver.registry.storedobject import StoredObject
from cathedra.apiserver.request import Call, CallAnswer, note_problems
from cathedra.apiserver.verbs.context import ServerContext
from cathedra.apiserver.verbs.create import create_defaulted, in_namespace
from cathedra.apiserver.verbs.update import as_addressed, change
from cathedra.client.transport import PatchType
from cathedra.kinds.definition import RequestContext
from cathedra.remembering import forget_large

JSON_PATCH_LIMIT: Final = 10_000


def patch(
    server: ServerContext, call: Call, patch_type: PatchType, body: Any, repeated: tuple[str, ...] = ()
) -> Coroutine[Any, Any, CallAnswer]:
    """Patch the object with plain JSON values; ``repeated`` are the problems with repeated fields of the body.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    if patch_type is PatchType.APPLY:
        return _server_side_apply(server, call, body)
    return _patch_document(server, call, patch_type, body, repeated)


async def _patch_document(
    server: ServerContext, call: Call, patch_type: PatchType, body: Any, repeated: tuple[str, ...]
) -> CallAnswer:
    # Before null is replaced by a patch without changes: Kubernetes refuses it for merge patches alone.
    if body is None and patch_type is PatchType.MERGE:
        raise bad_request("Invalid JSON Patch")
    body = _normalized(patch_type, body)
    if patch_type is PatchType.STRATEGIC and is_custom(call.version.type):
        kinds = ", ".join((PatchType.JSON.value, PatchType.MERGE.value, PatchType.APPLY.value))
        text = f"the body of the request was in an unknown format - accepted media types include: {kinds}"
        raise failure(415, "UnsupportedMediaType", text)
    _check_shape(patch_type, body)
    context = server.strategy_context(call)

    # Called again after a race with another write: everything that depends on the stored state is computed here.
    def patched(entry: StoredObject) -> Any:
        # The stored JSON is parsed here once. What the patch leaves alone is not decoded again (`_read_beside`).
        live = View(entry.body(call.version), struct_shape(call.version.type))
        forget_large(len(live.body))
        # The operations of a JSON patch meet null where Go has a nil list; other patches treat both alike.
        shown = live.value if patch_type is not PatchType.JSON else with_nil_lists_in(call.version.type, live.value)
        before = {"kind": call.definition.kind, "apiVersion": call.api_version} | shown
        after = _applied(patch_type, before, body, live.shape)
        values = _PatchedValues(patch_type, before, after, body, repeated)
        obj = as_addressed(call, _decoded(call, values, live, entry))
        # Defaults come before ownership is computed, or fields that the server filled in would have no owner.
        obj = call.strategy.default_change(obj, entry.object, context)
        return tracked(call, entry.object, obj, server.clock.now(), entry.body)

    return await change(server, call, patched, context=context)


def patched_part(call: Call, kind: GroupVersionKind, part: Any, patch_type: PatchType, body: Any) -> Any:
    """Return a part of an object that has a kind of its own, as its scale, after a patch.

    Raises:
        StatusError: it cannot be patched so.
    """
    if patch_type is PatchType.MERGE and body is None:
        raise bad_request("Invalid JSON Patch")
    body = _normalized(patch_type, body)
    _check_shape(patch_type, body)
    before = {"kind": kind.kind, "apiVersion": kind.api_version} | to_dict(part)
    target: type[KubeStruct] = type(part)
    after = _applied(patch_type, before, body, struct_shape(target))
    if not isinstance(after, dict):
        raise _undecodable(
            _shown(before, after),
            f"json: cannot unmarshal {go_kind(after)} into Go value of type map[string]interface {{}}",
        )
    values = {name: value for name, value in after.items() if name not in {"kind", "apiVersion"}}
    try:
        return decode_values(target, kind, values, call.release).object
    except DecodeError as error:
        shown = go_map(body) if patch_type is PatchType.STRATEGIC else _shown(before, after)
        raise _undecodable(shown, str(error)) from None


def _server_side_apply(server: ServerContext, call: Call, body: Any) -> Coroutine[Any, Any, CallAnswer]:
    """Apply. It is the one patch that creates an object that does not exist."""
    _check_applied(call, body)
    metadata = body["metadata"]
    context = server.strategy_context(call)
    if server.find(call) is None:
        if call.subresource:
            raise not_found(call.resource, call.name)
        # An apply that names a UID means an existing object, which is gone.
        if metadata.get("uid"):
            raise conflict(
                call.resource,
                call.name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )

        return _create_by_apply(server, call, body, context)
    # A UID in the body is no precondition: one that differs is a change of an immutable field (422).
    return change(server, call, partial(_merged, server, call, body, context), context=context)


async def _create_by_apply(server: ServerContext, call: Call, body: Any, context: RequestContext) -> CallAnswer:
    made = partial(_made, call, body, context)
    # Merging a body of a megabyte takes tens of milliseconds, which all other requests would wait for.
    obj = made() if call.size < LARGE else await server.beside_loop(call, made)
    return await create_defaulted(server, call, obj, context)


def _made(call: Call, body: Any, context: RequestContext) -> Any:
    """Return the object that an apply creates."""
    obj = in_namespace(call, applied(call, None, body, context.now))
    # Nothing is there to compare with.
    obj = replace(obj, metadata=replace(obj.metadata, resource_version=""))
    return call.strategy.default(obj, context)


def _merged(server: ServerContext, call: Call, body: Any, context: RequestContext, entry: StoredObject) -> Any:
    live_body = entry.body(call.version)
    forget_large(len(live_body))

    def apply(other: OtherVersions | None) -> Any:
        obj = in_namespace(call, applied(call, entry.object, body, server.clock.now(), live_body, other))
        return call.strategy.default_change(obj, entry.object, context)

    return with_other_versions(call, entry.object, apply)


def _check_applied(call: Call, body: Any) -> None:
    """Check kind and name of an applied body.

    Raises:
        StatusError: 400, they are missing or others than the URL's.
    """
    if _is_addressed(call, body):
        return
    if body is None:
        body = {}
    if not isinstance(body, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
            f"json: cannot unmarshal {go_kind(body)} into Go value of type map[string]interface {{}}"
        )
    kind, api_version = _text(body.get("kind")), _text(body.get("apiVersion"))
    if kind != call.definition.kind or api_version != call.api_version:
        group, _, version = api_version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = body.get("metadata")
    name = _text(metadata.get("name")) if isinstance(metadata, dict) else ""
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _is_addressed(call: Call, body: Any) -> bool:
    """Return True if the applied body names the object of the URL, as nearly always: then there is nothing to check."""
    try:
        metadata = body["metadata"]
        is_named = type(metadata) is dict and bool(call.name) and metadata["name"] == call.name
        return is_named and body["kind"] == call.definition.kind and body["apiVersion"] == call.api_version
    except (KeyError, TypeError):
        return False


def _text(value: Any) -> str:
    """Return a field that must be a text; any other value counts as absent, as in Kubernetes."""
    return value if isinstance(value, str) else ""


def _normalized(patch_type: PatchType, body: Any) -> Any:
    """Return the body of a patch; null is a patch that changes nothing."""
    if body is not None:
        return body
    return [] if patch_type is PatchType.JSON else {}


def _applied(patch_type: PatchType, before: Any, body: Any, shape: Shape) -> Any:
    """Return the values after the patch.

    Raises:
        StatusError: it cannot be applied.
    """
    if patch_type is PatchType.JSON:
        try:
            return json_patch(before, body)
        except JSONPatchError:
            raise _unprocessable() from None
    if patch_type is PatchType.STRATEGIC:
        try:
            return strategic_patch(before, body, shape)
        except StrategicPatchError as error:
            raise _unmergeable(error) from None
    return merge_patch(before, body)


class _PatchedValues(NamedTuple):
    """The values of an object before and after the patch, and the patch with its repeated fields."""

    patch_type: PatchType
    before: JSONObject
    after: Any
    body: Any
    repeated: tuple[str, ...]


def _decoded(call: Call, patched: _PatchedValues, live: View, entry: StoredObject) -> Any:
    """Return the patched values as an object (hub version).

    Raises:
        StatusError: 422, they are none.
    """
    patch_type, before, after, body, repeated = patched

    def undecodable(why: str) -> StatusError:
        if patch_type is PatchType.STRATEGIC:
            return _undecodable(go_map(body), why)
        return _undecodable(_shown(before, after), why)

    if not isinstance(after, dict):
        raise undecodable(f"json: cannot unmarshal {go_kind(after)} into Go value of type map[string]interface {{}}")
    if patch_type is not PatchType.STRATEGIC:
        problem = _kind_problem(call, after.get("kind"), after.get("apiVersion"))
        if problem:
            raise undecodable(problem)
    try:
        obj, unknown = _read_beside(call, patched, live, entry) or _read(call, _without_type(before, after))
    except DecodeError as error:
        why = str(error)
        if patch_type is PatchType.STRATEGIC:
            why = unrestorable(_without_type(before, after), go_type_of(call.gvk, call.release)) or why
        raise undecodable(why) from None
    if problems := (*repeated, *unknown):
        note_problems(call, problems, undecodable)
    return call.version.to_hub(obj)


def _without_type(before: JSONObject, after: JSONObject) -> JSONObject:
    """Return the patched values in order, without kind and apiVersion."""
    return {key: value for key, value in _as_patched(before, after).items() if key not in _TYPE}


_TYPE: Final = frozenset({"kind", "apiVersion"})


def _read_beside(
    call: Call, patched: _PatchedValues, live: View, entry: StoredObject
) -> tuple[Any, tuple[str, ...]] | None:
    """Return the result of `_read` by decoding only the values that the patch changed. Return None if something may
    be wrong, which decoding all values will find.
    """
    if is_custom(call.version.type):
        return None
    before, after, gvk = patched.before, patched.after, call.gvk
    kept = kept_fields(call, live, after)
    if kept:
        kept = frozenset(key for key in kept if live.has_known_fields(key, gvk, call.release))
    viewed = entry.view(call.version)
    if keeps_metadata(call, viewed.metadata, live, after):
        kept |= {"metadata"}
    if not kept:
        return None
    # Only within fields does order matter; where something is wrong all values are read in theirs.
    rest = {
        key: _as_patched(before.get(key), value) for key, value in after.items() if key not in kept and key not in _TYPE
    }
    try:
        decoded = decode_values(call.version.type, gvk, rest, call.release)
    except DecodeError:
        return None
    return None if decoded.problems else (with_kept(decoded.object, kept, viewed), ())


def _read(call: Call, values: JSONObject) -> tuple[Any, tuple[str, ...]]:
    """Return the object of patched values, and its unknown fields.

    Raises:
        DecodeError: they describe none.
    """
    if is_custom(call.version.type):
        return instance_of(call, values)
    decoded = decode_values(call.version.type, call.gvk, values, call.release)
    return decoded.object, decoded.problems


def _kind_problem(call: Call, kind: Any, api_version: Any) -> str:
    if kind == call.definition.kind and api_version == call.api_version:
        return ""
    scheme = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if value is not None and not isinstance(value, str):
            kind_of_value = f"json: cannot unmarshal {go_kind(value)} into Go struct field .{name} of type string"
            return f"couldn't get version/kind; json parse error: {kind_of_value}"
    kind, api_version = kind or "", api_version or ""
    if not kind and not api_version:
        return ""
    if kind == call.definition.kind and api_version.rpartition("/")[0] == call.definition.group:
        versions = {version.name for version in call.definition.versions}
        if api_version.rpartition("/")[2] in versions:
            return ""
    return f'no kind "{kind}" is registered for version "{api_version}" in scheme "{scheme}"'


def _shown(before: Any, after: Any) -> str:
    return json.dumps(_as_patched(before, after), separators=(",", ":"), ensure_ascii=False)


def _as_patched(before: Any, after: Any) -> Any:
    """Return the patched values in the order of Kubernetes: values that the patch went through are sorted, and so is
    everything that it set. Only a list in the place of an object keeps its order."""
    if before == after:
        return after
    if isinstance(after, list):
        if isinstance(before, dict):
            return after
        return [_as_patched(None, item) for item in after]
    if not isinstance(after, dict):
        return after
    before = before if isinstance(before, dict) else {}
    patched = {}
    for key in sorted(after):
        value, was = after[key], before.get(key)
        patched[key] = value if value is was or type(value) is str else _as_patched(was, value)
    return patched


def _undecodable(shown: str, why: str) -> StatusError:
    errors = ErrorList()
    errors.invalid("patch", shown, why)
    return invalid("", "", "", errors)


def _check_shape(patch_type: PatchType, body: Any) -> None:
    if patch_type is PatchType.JSON:
        if not isinstance(body, list):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {go_kind(body)} "
                "into Go value of type []handlers.jsonPatchOp"
            )
        # The limit is Kubernetes' own. Each operation may copy a part of the object, so that few kilobytes could make
        # gigabytes.
        if len(body) > JSON_PATCH_LIMIT:
            raise failure(
                413,
                "RequestEntityTooLarge",
                "Request entity too large: The allowed maximum operations in a JSON patch is "
                f"{JSON_PATCH_LIMIT}, got {len(body)}",
            )
        if problem := malformed_operation(body):
            raise bad_request(f"error decoding patch: {problem}")
        return
    if not isinstance(body, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(body)} "
            "into Go value of type map[string]interface {}"
        )


def _unmergeable(error: StrategicPatchError) -> StatusError:
    if isinstance(error, PatchFormatError):
        return bad_request(str(error))
    if isinstance(error, ListOfListsError):
        return _unprocessable()
    return failure(500, "", str(error))


def _unprocessable() -> StatusError:
    return failure(422, "Invalid", "the server rejected our request due to an error in our request", StatusDetails())
