"""Custom resources go with their owners and their namespaces, like everything else."""

from __future__ import annotations

from typing import Any

import msgspec

from cathedra.api.core.apiextensions_v1 import CustomResourceDefinition
from cathedra.api.core.core_v1 import ConfigMap, Namespace, ResourceQuota, ResourceQuotaSpec
from cathedra.api.core.meta_v1 import ObjectMeta, PartialObjectMetadata
from cathedra.api.quantity import Quantity
from cathedra.api.struct import from_dict
from cathedra.client.resources import CONFIGMAPS, NAMESPACES, RESOURCEQUOTAS, resource_ref
from cathedra.client.transport import ResourceRef
from cathedra.controllers.administration.quotas import ResourceQuotaController
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.customkinds import CustomKinds
from cathedra.controllers.garbagecollector import GarbageCollector
from cathedra.controllers.namespaces import NamespaceController
from tests.running import run_with
from tests.unit.controllers.world import World, play


def collector(context: ControllerContext) -> GarbageCollector:
    return GarbageCollector(msgspec.structs.replace(context, served=(CONFIGMAPS,)))


DEFINITIONS = resource_ref(CustomResourceDefinition, "customresourcedefinitions", namespaced=False)
CARTS: ResourceRef[Any] = ResourceRef("shop.example.com", "v1", "carts", "Cart", True, PartialObjectMetadata)


async def define(world: World) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    body = {
        "metadata": {"name": "carts.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": "carts", "kind": "Cart"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await world.of(DEFINITIONS, "").create(from_dict(CustomResourceDefinition, body))
    await world.quiet()


async def cart(world: World, name: str, *owners: dict[str, Any], namespace: str = "default") -> None:
    await world.of(CARTS, namespace).apply(name, {"metadata": {"ownerReferences": list(owners)}} if owners else {})


@run_with(lambda test: play(collector, test))
async def test_a_custom_resource_goes_with_its_owner(world: World) -> None:
    await define(world)
    metadata = ObjectMeta(name="owner", namespace="default")
    owner = await world.create(CONFIGMAPS, ConfigMap(metadata=metadata))
    uid = owner.metadata.uid
    await cart(world, "owned", {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid})
    await cart(world, "free")
    await world.quiet()
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Background")
    await world.quiet()
    assert await world.names(CARTS) == ["free"]


@run_with(lambda test: play(collector, test))
async def test_an_object_goes_with_the_custom_resource_that_owns_it(world: World) -> None:
    await define(world)
    await cart(world, "owner")
    [owner] = await world.list(CARTS)
    reference = {
        "apiVersion": "shop.example.com/v1",
        "kind": "Cart",
        "name": "owner",
        "uid": owner.metadata.uid,
    }
    metadata = from_dict(ObjectMeta, {"name": "child", "namespace": "default", "ownerReferences": [reference]})
    await world.create(CONFIGMAPS, ConfigMap(metadata=metadata))
    await world.quiet()
    assert "child" in await world.names(CONFIGMAPS)
    await world.of(CARTS).delete("owner", propagation_policy="Background")
    await world.quiet()
    assert "child" not in await world.names(CONFIGMAPS)


@run_with(lambda test: play(NamespaceController, test))
async def test_a_namespace_is_emptied_of_custom_resources_and_their_kind_may_vanish(world: World) -> None:
    await define(world)
    await world.of(NAMESPACES, "").create(Namespace(metadata=ObjectMeta(name="team")))
    await cart(world, "c", namespace="team")
    await world.quiet()
    await world.of(NAMESPACES, "").delete("team")
    await world.clock.sleep(10)
    assert "team" not in await world.names(NAMESPACES, "")
    await world.of(DEFINITIONS, "").delete("carts.shop.example.com")
    await world.of(NAMESPACES, "").create(Namespace(metadata=ObjectMeta(name="next")))
    await world.quiet()
    await world.of(NAMESPACES, "").delete("next")
    await world.clock.sleep(10)
    assert "next" not in await world.names(NAMESPACES, "")


@run_with(lambda test: play(ResourceQuotaController, test))
async def test_custom_resources_count_in_quotas_from_the_moment_they_are_served(world: World) -> None:
    hard = {"count/carts.shop.example.com": Quantity("5")}
    quota = ResourceQuota(metadata=ObjectMeta(name="q"), spec=ResourceQuotaSpec(hard=hard))
    await world.of(RESOURCEQUOTAS).create(quota)
    await world.quiet()
    assert (await world.of(RESOURCEQUOTAS).get("q")).status.used == {}
    await define(world)
    assert (await world.of(RESOURCEQUOTAS).get("q")).status.used == {"count/carts.shop.example.com": Quantity("0")}
    await cart(world, "a")
    await cart(world, "b")
    await world.of(CARTS).delete("a")
    await world.quiet()
    assert (await world.of(RESOURCEQUOTAS).get("q")).status.used == {"count/carts.shop.example.com": Quantity("1")}


class Follower:
    """Records the custom kinds of which it is notified."""

    name = "follower"

    def __init__(self, context: ControllerContext, told: list[str]) -> None:
        self._kinds = CustomKinds(context.informers, lambda ref: told.append(ref.resource))

    async def run(self) -> None:
        await self._kinds.wait_synced()


def test_a_kind_is_told_once_even_if_its_definition_goes_and_comes_again() -> None:
    told: list[str] = []

    async def story(world: World) -> None:
        await define(world)
        await world.quiet()
        assert told == ["carts"]
        await world.of(DEFINITIONS).delete("carts.shop.example.com")
        await world.quiet()
        await define(world)
        await world.quiet()
        assert told == ["carts"]

    play(lambda context: Follower(context, told), story)
