"""Roles and bindings decide, changes take effect at once, and users grant only rights that they hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cathedra.api.core.rbac_v1 import PolicyRule
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.authorization.authorizer import Attributes
from cathedra.apiserver.authorization.policyrules import allows
from cathedra.apiserver.authorization.rbac import RBAC
from cathedra.client.resources import CONFIGMAPS, PODS, ROLEBINDINGS, SECRETS
from tests.requirements import with_memos
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, account, guarded, refused, rule, user


@run_with(guarded)
async def test_without_a_role_nothing_is_allowed(api: Guarded) -> None:
    message = await refused(api.of("alice").resource(PODS, "default").list())
    assert message == (
        'pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "default"'
    )


@run_with(guarded)
async def test_a_binding_in_a_namespace_counts_there_only_and_ends_with_it(api: Guarded) -> None:
    await api.role("reader", rule("list", "pods"))
    alice = api.of("alice")
    await refused(alice.resource(PODS, "default").list())
    await api.bind("reader", user("alice"), namespace="default")
    assert (await alice.resource(PODS, "default").list()).items == ()
    await refused(alice.resource(PODS, "kube-system").list())
    await refused(alice.resource(PODS, "").list())
    await api.admin.resource(ROLEBINDINGS, "default").delete("reader")
    await refused(alice.resource(PODS, "default").list())


@run_with(guarded)
async def test_service_accounts_and_groups_are_subjects(api: Guarded) -> None:
    await api.role("reader", rule("list", "pods"))
    await api.bind("reader", account("bot"), namespace="default")
    bot = api.of("system:serviceaccount:default:bot")
    assert (await bot.resource(PODS, "default").list()).items == ()
    await refused(api.of("system:serviceaccount:kube-system:bot").resource(PODS, "default").list())


@run_with(guarded)
async def test_the_reason_names_binding_role_and_subject(api: Guarded) -> None:
    await api.role("reader", rule("list", "pods"), namespace="default")
    await api.bind("reader", user("alice"), namespace="default", kind="Role")
    asked = Attributes(UserInfo("alice"), "list", resource="pods", namespace="default")
    decision = api.server.context.authorizer.authorize(asked)
    assert decision.reason == 'RBAC: allowed by RoleBinding "reader/default" of Role "reader" to User "alice"'


@run_with(guarded)
async def test_a_list_that_selects_one_name_is_allowed_like_that_object(api: Guarded) -> None:
    await api.role("one", rule("get list", "configmaps", names="mine"))
    await api.bind("one", user("alice"), namespace="default")
    maps = api.of("alice").resource(CONFIGMAPS, "default")
    await maps.list(field_selector="metadata.name=mine")
    await refused(maps.list(field_selector="metadata.name=other"))
    await refused(maps.list())


@run_with(guarded)
async def test_masters_may_do_everything(api: Guarded) -> None:
    assert (await api.admin.resource(SECRETS, "").list()).items == ()


@run_with(guarded)
async def test_a_rule_that_reads_a_field_outside_the_key_decides_alike_whatever_was_decided_before(
    api: Guarded,
) -> None:
    await api.role("reader", rule("list", "pods"))
    await api.bind("reader", user("alice"), namespace="default")
    plain = Attributes(UserInfo("alice"), "list", resource="pods", namespace="default")
    others = {
        "user": UserInfo("alice", uid="u", extra={"scopes": ("none",)}),
        "version": "v1",
        "field_selector": "spec.nodeName=n",
        "label_selector": "a=b",
    }
    in_key = {"verb", "group", "resource", "subresource", "namespace"}
    assert others.keys() | in_key == {*Attributes.__struct_fields__} - {"name", "path"}, "the name has a test above"
    for field, value in others.items():

        def stricter(rule: PolicyRule, attributes: Attributes, field: str = field, value: Any = value) -> bool:
            return allows(rule, attributes) and getattr(attributes, field) != value

        other = msgspec.structs.replace(plain, **{field: value})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("cathedra.apiserver.authorization.rbac.allows", stricter)
            for pair in ((plain, other), (other, plain)):
                rbac = RBAC(api.server.context.registry)
                warm = [rbac.authorize(one).allowed for one in pair]
                assert warm == [RBAC(api.server.context.registry).authorize(one).allowed for one in pair], field


@with_memos
@run_with(guarded)
async def test_what_is_refused_and_names_that_are_no_names_are_not_kept(api: Guarded) -> None:
    await api.role("reader", rule("*", "*"))
    await api.bind("reader", user("alice"), namespace="default")
    rbac = RBAC(api.server.context.registry)
    alice, long = UserInfo("alice"), "x" * 2000
    for number in range(50):
        asked = Attributes(alice, "list", resource=f"r{number}", namespace=f"n{number}")
        assert not rbac.authorize(asked).allowed
        assert rbac.authorize(Attributes(alice, "list", resource=f"{long}{number}", namespace="default")).allowed
    assert kept(rbac) == (0, {"default"})
    assert rbac.authorize(Attributes(alice, "list", resource="pods", namespace="default")).allowed
    assert kept(rbac) == (1, {"default"})


@run_with(guarded)
async def test_kept_decisions_have_a_limit(api: Guarded) -> None:
    await api.role("everything", rule("*", "*"))
    await api.bind("everything", user("alice"))
    rbac = RBAC(api.server.context.registry)
    for number in range(20_000):
        asked = Attributes(UserInfo("alice"), "list", resource=f"r{number}", namespace="default")
        assert rbac.authorize(asked).allowed
    assert len(rbac._relevant) <= 16 * 1024


def kept(rbac: RBAC) -> tuple[int, set[str]]:
    """Return the number of cached decisions, and the cached namespaces."""
    return len(rbac._relevant), {namespace for held in rbac._holdings.values() for namespace in held.within}
