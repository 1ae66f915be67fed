"""What a cluster holds before anybody comes: the four namespaces (spec: apimachinery.md, section 16.1)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.core_v1 import Namespace
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import LOOPBACK
from cathedra.apiserver.request import Call
from cathedra.apiserver.verbs.create import create
from cathedra.apiserver.verbs.world import NAMESPACES, World

__all__ = ["SYSTEM_NAMESPACES", "create_namespaces"]

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


async def create_namespaces(world: World) -> None:
    """Create those of the system's namespaces that are missing."""
    for name in SYSTEM_NAMESPACES:
        if world.registry.find(NAMESPACES, name) is None:
            await _create(world, Namespace(metadata=ObjectMeta(name=name)))


async def _create(world: World, obj: Any) -> None:
    definition = world.registry.table(NAMESPACES).definition
    call = Call(user=LOOPBACK, verb="create", definition=definition, version=definition.versions[0])
    try:
        await create(world, call, obj)
    except StatusError as error:
        if not error.is_already_exists:  # another server on the same store was faster
            raise
