"""Removal of one finalizer of an object, without conflicts with other writers."""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.status import StatusError
from cathedra.client.client import ResourceClient
from cathedra.client.transport import PatchType

T = TypeVar("T", bound=KubeObject)


async def remove_finalizer(resource: ResourceClient[T], obj: T, finalizer: str) -> T | None:
    """Remove ``finalizer`` from the object; the object as it is afterwards, or None if it is gone.

    Status writes in between do not matter; another change of the finalizers does, and the caller tries again.
    """
    metadata = obj.metadata
    if finalizer not in metadata.finalizers:
        return obj
    rest = [name for name in metadata.finalizers if name != finalizer]
    body: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": metadata.uid},
        {"op": "test", "path": "/metadata/finalizers", "value": list(metadata.finalizers)},
    ]
    if rest:
        body.append({"op": "replace", "path": "/metadata/finalizers", "value": rest})
    else:
        body.append({"op": "remove", "path": "/metadata/finalizers"})
    try:
        return await resource.patch(metadata.name, PatchType.JSON, body)
    except StatusError as error:
        if error.is_not_found:
            return None
        raise
