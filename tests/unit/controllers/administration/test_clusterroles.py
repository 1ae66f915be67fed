"""Aggregated cluster roles."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.core.rbac_v1 import AggregationRule, ClusterRole, PolicyRule
from cathedra.client.resources import CLUSTERROLES
from cathedra.controllers.administration.clusterroles import ClusterRoleAggregationController
from tests.running import run_with
from tests.unit.controllers.world import World, play


def part(name: str, *verbs: str) -> ClusterRole:
    rule = PolicyRule(verbs=verbs, api_groups=("example.com",), resources=("things",))
    return ClusterRole(metadata=ObjectMeta(name=name, labels={"to": "whole"}), rules=(rule,))


@run_with(lambda test: play(ClusterRoleAggregationController, test))
async def test_an_aggregated_role_has_the_rules_of_its_parts_as_they_come_and_go(world: World) -> None:
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
    await world.quiet()
    assert [rule.verbs for rule in (await roles.get("whole")).rules or ()] == [("get",), ("list",)]
    await roles.delete("b")
    await world.quiet()
    assert [rule.verbs for rule in (await roles.get("whole")).rules or ()] == [("get",)]
