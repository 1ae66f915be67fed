"""Aggregated roles are filled, quotas recounted, deleted pod groups let go."""

from __future__ import annotations

import dataclasses

from cathedra.api.core.core_v1 import (
    ConfigMap,
    Container,
    Pod,
    PodSchedulingGroup,
    PodSpec,
    ResourceQuota,
    ResourceQuotaSpec,
)
from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.core.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from cathedra.api.core.scheduling_v1beta1 import (
    BasicSchedulingPolicy,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
)
from cathedra.api.gates import FeatureGates
from cathedra.api.quantity import Quantity
from cathedra.api.struct import replace
from cathedra.client.resources import CLUSTERROLES, CONFIGMAPS, PODGROUPS, PODS, RESOURCECLAIMS, RESOURCEQUOTAS
from cathedra.controllers.administration.clusterroles import ClusterRoleAggregationController
from cathedra.controllers.administration.podgroups import FINALIZER, PodGroupProtectionController
from cathedra.controllers.administration.quotas import RESYNC_SECONDS, ResourceQuotaController
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.controller_manager import served_resources
from tests.unit.apiserver.guarded import claim
from tests.unit.controllers.world import World, play, settle

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


BASIC = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())


def part(name: str, *verbs: str) -> ClusterRole:
    rule = PolicyRule(verbs=verbs, api_groups=("example.com",), resources=("things",))
    return ClusterRole(metadata=ObjectMeta(name=name, labels={"to": "whole"}), rules=(rule,))


def test_an_aggregated_role_has_the_rules_of_its_parts_as_they_come_and_go() -> None:
    async def story(world: World) -> None:
        selector = LabelSelector(match_labels={"to": "whole"})
        whole = ClusterRole(
            metadata=ObjectMeta(name="whole"),
            rules=(),
            aggregation_rule=AggregationRule(cluster_role_selectors=(selector,)),
        )
        roles = world.of(CLUSTERROLES)
        await roles.create(whole)
        for role in (part("b", "list"), part("a", "get"), part("c", "get")):
            await roles.create(role)
        await settle()
        assert [rule.verbs for rule in (await roles.get("whole")).rules or ()] == [("get",), ("list",)]
        await roles.delete("b")
        await settle()
        assert [rule.verbs for rule in (await roles.get("whole")).rules or ()] == [("get",)]

    play(ClusterRoleAggregationController, story)


def quotas(context: ControllerContext) -> ResourceQuotaController:
    return ResourceQuotaController(dataclasses.replace(context, served=served_resources(context.gates)))


def quota() -> ResourceQuota:
    hard = {DEVICES: Quantity("5"), "pods": Quantity("5"), "count/configmaps": Quantity("5")}
    return ResourceQuota(metadata=ObjectMeta(name="q"), spec=ResourceQuotaSpec(hard=hard))


async def used(world: World) -> dict[str, str]:
    found = await world.of(RESOURCEQUOTAS).get("q")
    return {name: str(amount) for name, amount in found.status.used.items()}


def pod(name: str, **spec: object) -> Pod:
    container = Container(name="c", image="i")
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,), **spec))  # type: ignore[arg-type]  # whatever field the test is about


def test_a_new_quota_counts_what_is_there_and_what_is_given_back() -> None:
    async def story(world: World) -> None:
        await world.of(RESOURCECLAIMS).create(claim("a", count=2))
        await world.of(CONFIGMAPS).create(ConfigMap(metadata=ObjectMeta(name="m")))
        await world.of(PODS).create(pod("p"))
        await world.of(RESOURCEQUOTAS).create(quota())
        await settle()
        assert await used(world) == {DEVICES: "2", "count/configmaps": "1", "pods": "1"}
        assert (await world.of(RESOURCEQUOTAS).get("q")).status.hard == quota().spec.hard
        await world.of(RESOURCECLAIMS).delete("a")
        await world.of(CONFIGMAPS).delete("m")
        await world.finish("p")
        await settle()
        assert await used(world) == {DEVICES: "0", "count/configmaps": "0", "pods": "0"}

    play(quotas, story)


def test_a_wrong_count_is_put_right_in_five_minutes() -> None:
    async def story(world: World) -> None:
        await world.of(RESOURCEQUOTAS).create(quota())
        await settle()

        def spoilt(found: ResourceQuota) -> ResourceQuota:
            return replace(found, status=replace(found.status, used={**found.status.used, "pods": Quantity("4")}))

        await world.change(RESOURCEQUOTAS, "q", spoilt, status=True)
        await settle()
        assert (await used(world))["pods"] == "4"
        await settle(RESYNC_SECONDS)
        assert (await used(world))["pods"] == "0"

    play(quotas, story)


def test_a_deleted_pod_group_stays_until_its_last_pod_has_ended() -> None:
    async def story(world: World) -> None:
        group = PodGroup(
            metadata=ObjectMeta(name="g", finalizers=(FINALIZER,)), spec=PodGroupSpec(scheduling_policy=BASIC)
        )
        groups = world.of(PODGROUPS)
        await groups.create(group)
        await world.of(PODS).create(pod("p", scheduling_group=PodSchedulingGroup(pod_group_name="g")))
        await groups.delete("g")
        await settle()
        assert await world.names(PODGROUPS) == ["g"]
        await world.finish("p")
        await settle()
        assert await world.names(PODGROUPS) == []

    gates = FeatureGates.for_release("1.37", {"GenericWorkload": True})
    play(PodGroupProtectionController, story, gates=gates)
