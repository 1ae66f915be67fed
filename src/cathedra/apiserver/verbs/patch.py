"""Patch: a stored object with some of its parts changed, in the version of the request (spec: apimachinery.md, section 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from cathedra.api.core.meta_v1 import StatusDetails
from cathedra.api.status import StatusError, bad_request, failure
from cathedra.api.struct import from_dict, to_dict
from cathedra.apiserver.patches.json_patch import JSONPatchError, json_patch
from cathedra.apiserver.patches.merge_patch import merge_patch
from cathedra.apiserver.patches.schema import struct_shape
from cathedra.apiserver.patches.strategic import StrategicPatchError, strategic_patch
from cathedra.apiserver.registry.entry import Entry
from cathedra.apiserver.request import Call
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
    _check_shape(patch_type, body)

    def patched(entry: Entry) -> Any:
        before = to_dict(entry.view(call.version))
        after = _apply(call, patch_type, before, body)
        obj = _decoded(call, after)
        return call.strategy.default(obj, world.context(call))

    return Patched(await change(world, call, patched))


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
