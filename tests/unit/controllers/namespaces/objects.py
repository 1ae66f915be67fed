"""Namespaces and what is in them."""

from __future__ import annotations

from cathedra.api.core.core_v1 import Namespace, NamespaceSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.client.resources import NAMESPACES
from tests.unit.controllers.world import World


async def make(world: World, name: str = "ns") -> None:
    await world.create(
        NAMESPACES, Namespace(metadata=ObjectMeta(name=name), spec=NamespaceSpec(finalizers=("kubernetes",)))
    )
