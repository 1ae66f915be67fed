"""Manifests applied to a server as ``kubectl apply`` applies them.

An object that exists gets the fields of its manifest, and loses those that were applied before and are no longer in it
(annotation ``kubectl.kubernetes.io/last-applied-configuration``). All others stay: replicas of an autoscaler, defaults,
fields of controllers. kubectl sends this as a strategic merge patch. Here the patch is computed and merged in the
newest version of the kind, because the server may have none that Cathedra's types are of.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from cathedra.allocation.errors import InvalidInput
from cathedra.allocation.reading import Placed
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.api.struct import encode, from_dict, replace
from cathedra.apiserver.patches.schema import ListShape, MapShape, Shape, StructShape, struct_shape
from cathedra.apiserver.patches.strategic import strategic_patch
from cathedra.client.client import Client
from cathedra.insight.reading.dumps import read_object
from cathedra.insight.reading.manifests import refusal_text
from cathedra.insight.reading.state import read_kind

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SERVER_FIELDS: Final = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
"""Fields of metadata that the server sets; manifests that were read from a cluster have them."""


async def apply_manifest(client: Client, one: KubeObject, placed: Placed) -> None:
    """Create the object of a manifest, or change the one of that name; errors name its place.

    Raises:
        InvalidInput: the server refuses it.
    """
    metadata = one.metadata
    ref: Any = read_kind(type(one)).ref
    resource = client.resource(ref, metadata.namespace if ref.namespaced else "")
    where = f"{ref.kind} {metadata.namespace}/{metadata.name}" if ref.namespaced else f"{ref.kind} {metadata.name}"
    action = "creating"
    try:
        try:
            current: Any = await resource.get(metadata.name) if metadata.name else None
        except StatusError as error:
            if not error.is_not_found:
                raise
            current = None
        if current is None:
            # The API server refuses new objects with a UID or a version, which copies of existing ones have.
            fresh: Any = replace(one, metadata=replace(metadata, uid="", resource_version=""))
            await resource.create(fresh)
            return
        action = "patching"
        merged = merge_applied(current, one)
        if merged != current:
            await resource.update(merged)
    except StatusError as error:
        if error.reason == "Invalid":
            # kubectl does not name the file of these, although a folder has many.
            raise InvalidInput(f"{placed}: {error}" if placed.file else f"{where}: {error}") from error
        raise InvalidInput(refusal_text(placed, where, str(error), action)) from error


def merge_applied(current: KubeObject, manifest: KubeObject) -> KubeObject:
    """Return ``current`` with the fields of ``manifest``, and without those that were applied before and left it."""
    kind = type(current)
    shape = struct_shape(kind)
    modified = _fields(manifest)
    patch = {**modified, **_removals(_last_applied(current), modified, shape)}
    return from_dict(kind, strategic_patch(msgspec.json.decode(encode(current)), patch, shape))


def _fields(one: KubeObject) -> dict[str, Any]:
    """Return the fields of a manifest that its author sets."""
    values: dict[str, Any] = msgspec.json.decode(encode(one))
    values.pop("status", None)
    metadata = values.get("metadata", {})
    for name in _SERVER_FIELDS:
        metadata.pop(name, None)
    return values


def _last_applied(current: KubeObject) -> dict[str, Any]:
    metadata = current.metadata
    text = (metadata.annotations or {}).get(LAST_APPLIED)
    if text is None:
        return {}
    try:
        values = json.loads(text)
        decoded = read_object(values) if isinstance(values, dict) else None
    except (InvalidInput, ValueError):
        # kubectl refuses such an object; a simulation goes on as if nothing had been applied before.
        return {}
    return _fields(decoded.object) if decoded is not None else {}


def _removals(before: Mapping[str, Any], now: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    """Return ``now`` with the directives that remove fields and list elements which are only in ``before``."""
    changed: dict[str, Any] = {}
    for name, old in before.items():
        new = now.get(name)
        if name not in now:
            changed[name] = None
        elif isinstance(old, dict) and isinstance(new, dict):
            changed[name] = {**new, **_removals(old, new, _of(shape, name))}
        elif isinstance(old, list) and isinstance(new, list):
            field = _of(shape, name)
            if isinstance(field, ListShape) and field.merges and field.merge_key:
                changed[name] = list(_list_removals(old, new, field))
    return changed


def _list_removals(old: list[Any], new: list[Any], shape: ListShape) -> Iterator[Any]:
    key = shape.merge_key
    before = {item.get(key): item for item in old}
    for item in new:
        yield {**item, **_removals(before.pop(item.get(key), {}), item, shape.element)}
    yield from ({"$patch": "delete", key: name} for name in before)


def _of(shape: Shape, name: str) -> Shape:
    if isinstance(shape, MapShape):
        return shape.value
    return shape.fields.get(name, shape) if isinstance(shape, StructShape) else shape
