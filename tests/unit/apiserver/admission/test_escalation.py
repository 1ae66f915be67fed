"""No user grants what the user does not hold."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.core.rbac_v1 import AggregationRule, ClusterRole
from cathedra.client.resources import CLUSTERROLES
from tests.running import run_with
from tests.unit.apiserver.guarded import RBAC_GROUP, Guarded, guarded, refused, rule, user


@run_with(guarded)
async def test_a_role_gives_no_more_than_its_writer_holds(api: Guarded) -> None:
    await api.role("author", rule("create update", "clusterroles", RBAC_GROUP), rule("get", "pods"))
    await api.bind("author", user("alice"))
    roles = api.of("alice").resource(CLUSTERROLES)
    await roles.create(ClusterRole(metadata=ObjectMeta(name="less"), rules=(rule("get", "pods", names="a"),)))
    more = ClusterRole(metadata=ObjectMeta(name="more"), rules=(rule("get list", "pods"),))
    message = await refused(roles.create(more))
    assert message == (
        'clusterroles.rbac.authorization.k8s.io "more" is forbidden: user "alice" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
        '{APIGroups:[""], Resources:["pods"], Verbs:["list"]}'
    )


@run_with(guarded)
async def test_who_may_escalate_or_bind_may_give_more(api: Guarded) -> None:
    await api.role("author", rule("create escalate", "clusterroles", RBAC_GROUP))
    await api.bind("author", user("alice"))
    wild = ClusterRole(metadata=ObjectMeta(name="wild"), rules=(rule("*", "*", "*"),))
    await api.of("alice").resource(CLUSTERROLES).create(wild)


@run_with(guarded)
async def test_an_aggregated_role_needs_all_permissions(api: Guarded) -> None:
    await api.role("author", rule("create", "clusterroles", RBAC_GROUP))
    await api.bind("author", user("alice"))
    rule_ = AggregationRule(cluster_role_selectors=(LabelSelector(match_labels={"a": "b"}),))
    role = ClusterRole(metadata=ObjectMeta(name="all"), rules=(), aggregation_rule=rule_)
    message = await refused(api.of("alice").resource(CLUSTERROLES).create(role))
    assert message.endswith("must have cluster-admin privileges to use an aggregationRule")


@run_with(guarded)
async def test_a_rule_for_millions_of_permissions_is_refused(api: Guarded) -> None:
    await api.role("author", rule("create", "clusterroles", RBAC_GROUP))
    await api.bind("author", user("alice"))
    many = " ".join(f"n{number}" for number in range(700))
    role = ClusterRole(metadata=ObjectMeta(name="huge"), rules=(rule(many, many, many),))
    message = await refused(api.of("alice").resource(CLUSTERROLES).create(role))
    assert message.endswith("too many single permissions to be compared with those that the user has")
