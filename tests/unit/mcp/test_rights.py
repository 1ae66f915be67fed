"""Rights of readers: what is reviewed, for how long, and what a refusal names."""

from __future__ import annotations

import re

import msgspec
import pytest

from cathedra.api.core.authentication_v1 import UserInfo
from cathedra.api.core.core_v1 import Node, Pod, ResourceQuota
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.storage_v1 import StorageClass
from cathedra.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from cathedra.api.status import StatusError
from cathedra.client.resources import CLUSTERROLEBINDINGS
from cathedra.insight import PlannedChanges, devices, simulate
from cathedra.mcp.rights import KEPT_SECONDS, Access, ReaderRights, Visibility, visible_state
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded, rule, user
from tests.unit.mcp.asked import TEAM, TEAM_A, TEAM_B, cluster

JANE = UserInfo(username="jane")


async def with_namespace(api: Guarded, name: str) -> None:
    from cathedra.api.core.core_v1 import Namespace
    from cathedra.api.core.meta_v1 import ObjectMeta
    from cathedra.client.resources import NAMESPACES

    await api.admin.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name=name)))


@run_with(guarded)
async def test_a_missing_right_is_refused_as_by_the_api_server(api: Guarded) -> None:
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


@run_with(guarded)
async def test_a_right_in_all_namespaces_is_one_in_each(api: Guarded) -> None:
    await api.role("pods", rule("list", "pods"))
    await api.bind("pods", user("jane"))
    await ReaderRights(api.admin, api.clock).require(JANE, [Access(Pod, TEAM_A), Access(Pod)])


@run_with(guarded)
async def test_a_right_that_is_taken_away_counts_for_seconds_only(api: Guarded) -> None:
    await api.role("nodes", rule("list", "nodes"))
    await api.bind("nodes", user("jane"))
    rights = ReaderRights(api.admin, api.clock)
    await rights.require(JANE, [Access(Node)])
    await api.admin.resource(CLUSTERROLEBINDINGS).delete("nodes")
    await rights.require(JANE, [Access(Node)])
    await api.clock.sleep(KEPT_SECONDS + 0.1)
    with pytest.raises(StatusError, match="cannot list resource"):
        await rights.require(JANE, [Access(Node)])


@run_with(guarded)
async def test_a_namespace_is_visible_to_users_who_may_list_its_pods_and_its_claims(api: Guarded) -> None:
    for team, rules in ((TEAM_A, TEAM), (TEAM_B, TEAM[:1])):
        await with_namespace(api, team)
        await api.role(team, *rules)
        await api.bind(team, user("jane"), namespace=team)
    found = await ReaderRights(api.admin, api.clock).visibility(JANE, cluster())
    assert found.namespaces == frozenset((TEAM_A,))
    assert found.kinds[StorageClass] == frozenset()
    assert found.kinds[ResourceQuota] == frozenset()


@run_with(guarded)
async def test_who_may_list_everything_sees_everything(api: Guarded) -> None:
    await api.role("all", rule("list", "*", "*"))
    await api.bind("all", user("jane"))
    found = await ReaderRights(api.admin, api.clock).visibility(JANE, cluster())
    assert found.namespaces is None
    assert set(found.kinds.values()) == {None}


# A state without what a reader may not know: devices stay held, and names and contents are gone.

EVERYWHERE = dict.fromkeys((Node, ResourceSlice, DeviceClass))
OWN = Visibility(frozenset((TEAM_A,)), EVERYWHERE)
SECRET = b"secret"


def test_a_hidden_object_keeps_nothing_but_what_it_takes_from_others() -> None:
    seen = visible_state(cluster(), OWN, SECRET)
    (claim,) = [one for one in seen.all(ResourceClaim) if one.metadata.namespace not in TEAM_A]
    (pod,) = [one for one in seen.all(Pod) if one.metadata.namespace not in TEAM_A]
    shown = msgspec.json.encode((claim, pod)).decode()
    for word in ("team-b", "train-b", "next-b", "secret", "project", "password", "uid-team"):
        assert word not in shown
    assert claim.status.allocation is not None
    assert [one.device for one in claim.status.allocation.devices.results] == ["gpu-1"]
    assert pod.spec.node_name == "n1"
    # They still refer to each other.
    assert [one.uid for one in claim.status.reserved_for] == [pod.metadata.uid]
    assert [one.resource_claim_name for one in pod.spec.resource_claims] == [claim.metadata.name]


def test_pseudonyms_are_the_same_for_all_readers_and_differ_between_processes() -> None:
    def names(secret: bytes, *namespaces: str) -> set[str]:
        found = visible_state(cluster(), Visibility(frozenset(namespaces), EVERYWHERE), secret).all(ResourceClaim)
        return {one.metadata.name for one in found if one.metadata.namespace == "(hidden)"}

    assert names(b"1", TEAM_A) <= names(b"1")
    assert not names(b"1") & names(b"2")
    assert all(re.fullmatch("claim-[0-9a-f]{12}", name) for name in names(b"1"))


def test_waiting_objects_of_others_are_left_out() -> None:
    seen = visible_state(cluster(), OWN, SECRET)
    assert {one.metadata.name for one in seen.pods if not one.spec.node_name} == {"next-a"}


def test_a_kind_that_may_not_be_listed_is_unknown_and_noted() -> None:
    quota = ResourceQuota(metadata=ObjectMeta(name="devices", namespace=TEAM_A))
    state = cluster().including([quota])
    seen = visible_state(state, OWN, SECRET)
    assert not seen.is_known(ResourceQuota)
    assert "you may not list resourcequotas" in {note.text for note in seen.notes}
    seen = visible_state(state, Visibility(OWN.namespaces, EVERYWHERE | {ResourceQuota: frozenset((TEAM_A,))}), SECRET)
    assert seen.all(ResourceQuota) == (quota,) or seen.is_known(ResourceQuota)


def test_to_those_who_see_everything_the_state_is_as_it_is() -> None:
    state = cluster()
    seen = visible_state(state, Visibility(None, dict.fromkeys(state.objects)), SECRET)
    assert seen.objects == state.objects
    assert devices(seen).to_dict() == devices(state).to_dict()


def test_hidden_pods_take_part_in_a_simulation_without_their_names() -> None:
    seen = visible_state(cluster(), OWN, SECRET)
    found = simulate(seen, PlannedChanges(drain=("n1",), force=True), copies=0)
    text = msgspec.json.encode(found.to_dict()).decode()
    assert "(hidden)/pod-" in text
    assert "team-b" not in text
    assert "train-b" not in text
