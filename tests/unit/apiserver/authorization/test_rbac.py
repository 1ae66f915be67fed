"""Roles and bindings decide; changes of them count at once; rights are handed out only by users who hold them."""

from __future__ import annotations

from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.core.rbac_v1 import AggregationRule, ClusterRole
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.client.resources import CLUSTERROLES, CONFIGMAPS, PODS, ROLEBINDINGS, SECRETS
from tests.unit.apiserver.guarded import RBAC_GROUP, Guarded, account, guarded, refused, rule, user


def test_without_a_role_nothing_is_allowed() -> None:
    async def body(api: Guarded) -> None:
        message = await refused(api.of("alice").resource(PODS, "default").list())
        assert message == (
            'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
        )

    guarded(body)


def test_a_binding_in_a_namespace_counts_there_only_and_ends_with_it() -> None:
    async def body(api: Guarded) -> None:
        await api.role("reader", rule("list", "pods"))
        alice = api.of("alice")
        await refused(alice.resource(PODS, "default").list())
        await api.bind("reader", user("alice"), namespace="default")
        assert (await alice.resource(PODS, "default").list()).items == ()
        await refused(alice.resource(PODS, "kube-system").list())
        await refused(alice.resource(PODS, "").list())
        await api.admin.resource(ROLEBINDINGS, "default").delete("reader")
        await refused(alice.resource(PODS, "default").list())

    guarded(body)


def test_service_accounts_and_groups_are_subjects() -> None:
    async def body(api: Guarded) -> None:
        await api.role("reader", rule("list", "pods"))
        await api.bind("reader", account("bot"), namespace="default")
        bot = api.of("system:serviceaccount:default:bot")
        assert (await bot.resource(PODS, "default").list()).items == ()
        await refused(api.of("system:serviceaccount:kube-system:bot").resource(PODS, "default").list())

    guarded(body)


def test_the_reason_names_binding_role_and_subject() -> None:
    async def body(api: Guarded) -> None:
        await api.role("reader", rule("list", "pods"), namespace="default")
        await api.bind("reader", user("alice"), namespace="default", kind="Role")
        asked = Attributes(UserInfo("alice"), "list", resource="pods", namespace="default")
        decision = api.server.context.authorizer.authorize(asked)
        assert decision.reason == 'RBAC: allowed by RoleBinding "reader/default" of Role "reader" to User "alice"'

    guarded(body)


def test_a_list_that_selects_one_name_is_allowed_like_that_object() -> None:
    async def body(api: Guarded) -> None:
        await api.role("one", rule("get list", "configmaps", names="mine"))
        await api.bind("one", user("alice"), namespace="default")
        maps = api.of("alice").resource(CONFIGMAPS, "default")
        await maps.list(field_selector="metadata.name=mine")
        await refused(maps.list(field_selector="metadata.name=other"))
        await refused(maps.list())

    guarded(body)


def test_masters_may_do_everything() -> None:
    async def body(api: Guarded) -> None:
        assert (await api.admin.resource(SECRETS, "").list()).items == ()

    guarded(body)


def test_a_role_gives_no_more_than_its_writer_holds() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


def test_who_may_escalate_or_bind_may_give_more() -> None:
    async def body(api: Guarded) -> None:
        await api.role("author", rule("create escalate", "clusterroles", RBAC_GROUP))
        await api.bind("author", user("alice"))
        wild = ClusterRole(metadata=ObjectMeta(name="wild"), rules=(rule("*", "*", "*"),))
        await api.of("alice").resource(CLUSTERROLES).create(wild)

    guarded(body)


def test_an_aggregated_role_needs_all_permissions() -> None:
    async def body(api: Guarded) -> None:
        await api.role("author", rule("create", "clusterroles", RBAC_GROUP))
        await api.bind("author", user("alice"))
        rule_ = AggregationRule(cluster_role_selectors=(LabelSelector(match_labels={"a": "b"}),))
        role = ClusterRole(metadata=ObjectMeta(name="all"), rules=(), aggregation_rule=rule_)
        message = await refused(api.of("alice").resource(CLUSTERROLES).create(role))
        assert message.endswith("must have cluster-admin privileges to use an aggregationRule")

    guarded(body)


def test_default_roles_come_back_unless_they_are_to_be_left_alone() -> None:
    from cathedra.api.struct import replace
    from cathedra.apiserver.bootstrap.roles import reconcile_roles

    async def body(api: Guarded) -> None:
        roles = api.admin.resource(CLUSTERROLES)
        for name, automatic in (("system:kube-scheduler", True), ("system:node-proxier", False)):
            role = await roles.get(name)
            metadata = role.metadata
            if not automatic:
                metadata = replace(metadata, annotations={"rbac.authorization.kubernetes.io/autoupdate": "false"})
            await roles.update(replace(role, metadata=metadata, rules=(rule("get", "mine"),)))
        await reconcile_roles(api.server.context)
        scheduler = await roles.get("system:kube-scheduler")
        assert rule("get", "mine") in (scheduler.rules or ())
        assert len(scheduler.rules or ()) > 10
        assert (await roles.get("system:node-proxier")).rules == (rule("get", "mine"),)
        before = api.server.revision
        await reconcile_roles(api.server.context)
        assert api.server.revision == before

    guarded(body)
