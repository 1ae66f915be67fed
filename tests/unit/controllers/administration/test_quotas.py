"""Aggregated roles are filled, quotas recounted, deleted pod groups released."""

from __future__ import annotations

import msgspec

from cathedra.api.core.core_v1 import (
    ConfigMap,
    Pod,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
)
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.resources import CONFIGMAPS, PODS, RESOURCECLAIMS, RESOURCEQUOTAS
from cathedra.controllers.administration.quotas import RESYNC_SECONDS, ResourceQuotaController
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.controller_manager import served_resources
from tests.running import run_with
from tests.unit.apiserver.guarded import claim
from tests.unit.controllers.administration.objects import pod
from tests.unit.controllers.world import World, play

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


def quotas(context: ControllerContext) -> ResourceQuotaController:
    return ResourceQuotaController(msgspec.structs.replace(context, served=served_resources(context.gates)))


def quota() -> ResourceQuota:
    hard = {DEVICES: Quantity("5"), "pods": Quantity("5"), "count/configmaps": Quantity("5")}
    return ResourceQuota(metadata=ObjectMeta(name="q"), spec=ResourceQuotaSpec(hard=hard))


async def used(world: World) -> dict[str, str]:
    found = await world.of(RESOURCEQUOTAS).get("q")
    return {name: str(amount) for name, amount in found.status.used.items()}


@run_with(lambda test: play(quotas, test))
async def test_a_new_quota_counts_what_is_there_and_what_is_given_back(world: World) -> None:
    await world.of(RESOURCECLAIMS).create(claim("a", count=2))
    await world.of(CONFIGMAPS).create(ConfigMap(metadata=ObjectMeta(name="m")))
    await world.of(PODS).create(pod("p"))
    await world.of(RESOURCEQUOTAS).create(quota())
    await world.quiet()
    assert await used(world) == {DEVICES: "2", "count/configmaps": "1", "pods": "1"}
    assert (await world.of(RESOURCEQUOTAS).get("q")).status.hard == quota().spec.hard
    await world.of(RESOURCECLAIMS).delete("a")
    await world.of(CONFIGMAPS).delete("m")
    await world.finish("p")
    await world.quiet()
    assert await used(world) == {DEVICES: "0", "count/configmaps": "0", "pods": "0"}


@run_with(lambda test: play(quotas, test))
async def test_a_wrong_count_is_put_right_in_five_minutes(world: World) -> None:
    await world.of(RESOURCEQUOTAS).create(quota())
    await world.quiet()

    def spoilt(found: ResourceQuota) -> ResourceQuota:
        return replace(found, status=replace(found.status, used={**found.status.used, "pods": Quantity("4")}))

    await world.change(RESOURCEQUOTAS, "q", spoilt, status=True)
    await world.quiet()
    assert (await used(world))["pods"] == "4"
    await world.clock.sleep(RESYNC_SECONDS)
    assert (await used(world))["pods"] == "0"


@run_with(lambda test: play(quotas, test))
async def test_a_pod_that_was_made_smaller_in_place_gives_back_what_it_held(world: World) -> None:
    def sized(one: Pod, cpu: str) -> Pod:
        amounts = {"cpu": Quantity(cpu)}
        container = replace(one.spec.containers[0], resources=ResourceRequirements(requests=amounts, limits=amounts))
        return replace(one, spec=replace(one.spec, containers=(container,)))

    hard = {"requests.cpu": Quantity("5")}
    await world.of(RESOURCEQUOTAS).create(
        ResourceQuota(metadata=ObjectMeta(name="q"), spec=ResourceQuotaSpec(hard=hard))
    )
    await world.of(PODS).create(sized(pod("p"), "3"))
    await world.quiet()
    assert await used(world) == {"requests.cpu": "3"}
    await world.of(PODS).update(sized(await world.of(PODS).get("p"), "1"), subresource="resize")
    await world.quiet()
    assert await used(world) == {"requests.cpu": "1"}
