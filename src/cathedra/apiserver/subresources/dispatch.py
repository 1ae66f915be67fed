"""A POST on a sub-resource finds its way: binding, eviction, token."""

from __future__ import annotations

import dataclasses
from typing import Any

from cathedra.api.core.core_v1 import Binding
from cathedra.api.scheme import GroupResource
from cathedra.api.status import failure
from cathedra.apiserver.request import Call
from cathedra.apiserver.subresources.binding import bind
from cathedra.apiserver.subresources.eviction import evict
from cathedra.apiserver.verbs.world import PODS, World

__all__ = ["connect_create"]


async def connect_create(world: World, call: Call, obj: Any) -> Any:
    """Do what a POST on the sub-resource asks for.

    Raises:
        StatusError: 404, there is no such sub-resource; or it was refused.
    """
    if call.resource == GroupResource("", "bindings") and isinstance(obj, Binding):
        definition = world.registry.table(PODS).definition
        return await bind(world, dataclasses.replace(call, definition=definition, name=obj.metadata.name), obj)
    if call.resource == PODS and call.subresource == "binding":
        return await bind(world, call, obj)
    if call.resource == PODS and call.subresource == "eviction":
        return await evict(world, call, obj)
    raise failure(404, "NotFound", "the server could not find the requested resource")
