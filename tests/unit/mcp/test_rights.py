"""Rights of readers: what is reviewed, for how long, and what a refusal names."""

from __future__ import annotations

import pytest

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.core_v1 import Node, Pod, ResourceQuota
from cathedra.api.core.storage_v1 import StorageClass
from cathedra.api.status import StatusError
from cathedra.client.resources import CLUSTERROLEBINDINGS
from cathedra.mcp.rights import KEPT_SECONDS, Access, ReaderRights
from tests.unit.apiserver.guarded import Guarded, guarded, rule, user
from tests.unit.mcp.asked import TEAM, TEAM_A, TEAM_B, cluster

JANE = UserInfo(username="jane")


async def with_namespace(api: Guarded, name: str) -> None:
    from cathedra.api.core.core_v1 import Namespace
    from cathedra.api.core.meta_v1 import ObjectMeta
    from cathedra.client.resources import NAMESPACES

    await api.admin.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=name)))


def test_a_missing_right_is_refused_as_by_the_api_server() -> None:
    async def body(api: Guarded) -> None:
        rights = ReaderRights(api.admin, api.clock)
        for access, text in (
            (
                Access(Node),
                'nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope',
            ),
            (
                Access(Pod, TEAM_A),
                'pods is forbidden: User "jane" cannot list resource "pods" in API group "" in the namespace "team-a"',
            ),
        ):
            with pytest.raises(StatusError) as refused:
                await rights.require(JANE, [access])
            assert (refused.value.code, refused.value.status.message) == (403, text)

    guarded(body)


def test_a_right_in_all_namespaces_is_one_in_each() -> None:
    async def body(api: Guarded) -> None:
        await api.role("pods", rule("list", "pods"))
        await api.bind("pods", user("jane"))
        await ReaderRights(api.admin, api.clock).require(JANE, [Access(Pod, TEAM_A), Access(Pod)])

    guarded(body)


def test_a_right_that_is_taken_away_counts_for_seconds_only() -> None:
    async def body(api: Guarded) -> None:
        await api.role("nodes", rule("list", "nodes"))
        await api.bind("nodes", user("jane"))
        rights = ReaderRights(api.admin, api.clock)
        await rights.require(JANE, [Access(Node)])
        await api.admin.resource(CLUSTERROLEBINDINGS).delete("nodes")
        await rights.require(JANE, [Access(Node)])
        await api.clock.sleep(KEPT_SECONDS + 0.1)
        with pytest.raises(StatusError, match="cannot list resource"):
            await rights.require(JANE, [Access(Node)])

    guarded(body)


def test_a_namespace_is_visible_to_users_who_may_list_its_pods_and_its_claims() -> None:
    async def body(api: Guarded) -> None:
        for team, rules in ((TEAM_A, TEAM), (TEAM_B, TEAM[:1])):
            await with_namespace(api, team)
            await api.role(team, *rules)
            await api.bind(team, user("jane"), namespace=team)
        found = await ReaderRights(api.admin, api.clock).visibility(JANE, cluster())
        assert found.namespaces == frozenset((TEAM_A,))
        assert found.kinds[StorageClass] == frozenset()
        assert found.kinds[ResourceQuota] == frozenset()

    guarded(body)


def test_who_may_list_everything_sees_everything() -> None:
    async def body(api: Guarded) -> None:
        await api.role("all", rule("list", "*", "*"))
        await api.bind("all", user("jane"))
        found = await ReaderRights(api.admin, api.clock).visibility(JANE, cluster())
        assert found.namespaces is None
        assert set(found.kinds.values()) == {None}

    guarded(body)
