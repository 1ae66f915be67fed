"""Patch: a stored object with some of its parts changed, in the version of the request (spec: apimachinery.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, bad_request, conflict, failure, not_found
from cathedra.api.struct import from_dict, replace, to_dict
from cathedra.apiserver.ownership.tracking import applied, tracked
from cathedra.apiserver.patches.json_patch import JSONPatchError, json_patch
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.patches.strategic import StrategicPatchError, strategic_patch
from cathedra.apiserver.registry.entry import Entry
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.create import create_defaulted, in_namespace
from cathedra.apiserver.verbs.update import change
from cathedra.apiserver.verbs.world import World
from cathedra.client.transport import PatchType

__all__ = ["Patched", "patch"]


@dataclass(frozen=True, slots=True)
class Patched:
    """The object after the patch, and whether the patch created it."""

    entry: Entry
    created: bool = False


async def patch(world: World, call: Call, patch_type: PatchType, body: Any) -> Patched:
    """Patch the object with plain JSON values.

    Raises:
        StatusError: it was refused; nothing changed.
    """
    if patch_type is PatchType.APPLY:
        return await _server_side_apply(world, call, body)
    _check_shape(patch_type, body)

    def patched(entry: Entry) -> Any:
        before = to_dict(entry.view(call.version))
        before = {"kind": call.definition.kind, "apiVersion": call.api_version} | before
        after = _apply(call, patch_type, before, body)
        obj = call.strategy.default(_decoded(call, after), world.context(call))
        return tracked(call, entry.object, obj, world.clock.now())

    return Patched(await change(world, call, patched))


async def _server_side_apply(world: World, call: Call, body: Any) -> Patched:
    """Apply; the one patch that creates what is not there."""
    _check_applied(call, body)
    metadata = body.get("metadata") or {}
    if world.table(call).get(call.key) is None:
        if call.subresource:
            raise not_found(call.resource, call.name)
        if metadata.get("uid"):
            raise conflict(
                call.resource,
                call.name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )
        obj = in_namespace(call, applied(call, None, body, world.clock.now()))
        obj = replace(obj, metadata=replace(obj.metadata, resource_version=""))
        obj = call.strategy.default(obj, world.context(call))
        return Patched(await create_defaulted(world, call, obj), created=True)

    def merged(entry: Entry) -> Any:
        obj = in_namespace(call, applied(call, entry.object, body, world.clock.now()))
        return call.strategy.default(obj, world.context(call))

    return Patched(await change(world, call, merged, uid=metadata.get("uid") or ""))


def _check_applied(call: Call, body: Any) -> None:
    """Kind and name of what is applied.

    Raises:
        StatusError: 400, they are missing or others than the URL's.
    """
    if not isinstance(body, dict):
        raise bad_request("error decoding YAML: the patch is no object")
    kind, api_version = body.get("kind") or "", body.get("apiVersion") or ""
    if kind != call.definition.kind or api_version != call.api_version:
        group, _, version = api_version.rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={kind}")
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else ""
    if not name:
        raise bad_request(
            f"the name of the object ({call.name} based on URL) was undeterminable: name must be provided"
        )
    if name != call.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({call.name})")


def _apply(call: Call, patch_type: PatchType, before: Any, body: Any) -> Any:
    if patch_type is PatchType.JSON:
        try:
            return json_patch(before, body)
        except JSONPatchError as error:
            raise _unprocessable(error) from None
    if patch_type is PatchType.STRATEGIC:
        try:
            return strategic_patch(before, body, struct_shape(call.version.type))
        except StrategicPatchError as error:
            raise failure(500, "", str(error)) from None
    return merge_patch(before, body)


def _decoded(call: Call, value: Any) -> Any:
    if not isinstance(value, dict):
        raise _unprocessable(None)
    value.pop("kind", None)
    value.pop("apiVersion", None)
    try:
        return call.version.to_hub(from_dict(call.version.type, value))
    except (msgspec.ValidationError, ValueError) as error:
        raise bad_request(str(error)) from None


def _check_shape(patch_type: PatchType, body: Any) -> None:
    if patch_type is PatchType.JSON:
        if not isinstance(body, list):
            raise bad_request(
                f"error decoding patch: json: cannot unmarshal {_go_kind(body)} into Go value of type []handlers.jsonPatchOp"
            )
        return
    if not isinstance(body, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {_go_kind(body)} into Go value of type map[string]interface {{}}"
        )


def _go_kind(value: Any) -> str:
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def _unprocessable(error: Exception | None) -> StatusError:
    return failure(422, "Invalid", "the server rejected our request due to an error in our request", StatusDetails())
