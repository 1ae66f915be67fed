"""The context of verbs and strategies."""

from __future__ import annotations

from typing import Any

import pytest

from cathedra.api.core.core_v1 import Namespace, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import (
    AllocatedDeviceStatus,
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)
from cathedra.api.scheme import GroupResource
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.request import Call
from cathedra.client.client import Client
from cathedra.client.resources import NAMESPACES, RESOURCECLAIMS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, account, claim, guarded, refused, rule, user


def call(api: Guarded, plural: str = "configmaps", group: str = "", **options: object) -> Call:
    definition = api.server.catalog.definition(GroupResource(group, plural))
    assert definition is not None
    asked = Call.on(definition, definition.versions[0], user=UserInfo("ada", ("g",)), verb="get")
    return asked.but(**{"namespace": "default", "name": "a", **options})


@run_with(guarded)
async def test_strategies_know_the_user_the_version_and_the_labels_of_the_namespace(api: Guarded) -> None:
    labelled = Namespace(metadata=ObjectMeta(name="team", labels={"a": "b"}))
    await api.admin.resource(NAMESPACES).create(labelled)
    context = api.server.context.strategy_context(call(api, namespace="team"))
    assert (context.user, context.api_version) == (UserInfo("ada", ("g",)), "v1")
    assert context.namespace_labels("team")["a"] == "b"
    assert context.now == api.clock.now()
    assert context.gates == api.server.context.gates
    assert api.server.context.namespace_labels("nowhere") == api.server.context.namespace_labels("") == {}


@run_with(guarded)
async def test_a_call_passes_if_its_user_may_do_that(api: Guarded) -> None:
    asked = call(api)
    with pytest.raises(StatusError) as refused:
        api.server.context.authorize(asked)
    assert refused.value.code == 403
    assert 'User "ada" cannot get resource "configmaps" in API group "" in the namespace "default"' in str(
        refused.value
    )
    await api.role("read", rule("get", "configmaps"))
    await api.bind("read", user("ada"))
    api.server.context.authorize(asked)


@run_with(guarded)
async def test_what_creates_by_another_verb_needs_the_permission_to_create(api: Guarded) -> None:
    await api.role("patch", rule("patch", "configmaps"))
    await api.bind("patch", user("ada"))
    asked = call(api, verb="patch")
    api.server.context.authorize(asked)
    with pytest.raises(StatusError) as refused:
        api.server.context.authorize_creation(asked)
    assert refused.value.code == 403
    await api.role("create", rule("create", "configmaps"))
    await api.bind("create", user("ada"))
    api.server.context.authorize_creation(asked)


@run_with(guarded)
async def test_both_groups_of_events_are_one_table(api: Guarded) -> None:
    context = api.server.context
    assert context.table(call(api, "events")) is context.table(call(api, "events", "events.k8s.io"))
    assert context.table(call(api, "events")) is not context.table(call(api))


DRA = "resource.k8s.io"
DRIVER = "gpu.example.com"
NODE_NAME = "authentication.kubernetes.io/node-name"
BOT = "system:serviceaccount:default:driver"


def on_node(*names: str) -> NodeSelector:
    fields = (NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)) for name in names)
    return NodeSelector(node_selector_terms=tuple(NodeSelectorTerm(match_fields=(field,)) for field in fields))


def allocated(stored: ResourceClaim, selector: NodeSelector | None = None) -> ResourceClaim:
    result = DeviceRequestAllocationResult(request="r", driver=DRIVER, pool="p", device="d")
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)), node_selector=selector)
    return replace(stored, status=replace(stored.status, allocation=allocation))


def reported(stored: ResourceClaim) -> ResourceClaim:
    entry = AllocatedDeviceStatus(driver=DRIVER, pool="p", device="d")
    return replace(stored, status=replace(stored.status, devices=(entry,)))


async def with_claim(api: Guarded, subject: Any, *rules: Any, selector: NodeSelector | None = None) -> ResourceClaim:
    """An allocated claim, and a subject who may write its status and has some more rules."""
    await api.role("status", rule("get update patch", "resourceclaims/status", DRA), *rules)
    await api.bind("status", subject)
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    made = await claims.create(claim("c"))
    return await claims.update_status(allocated(made, selector))


@run_with(guarded)
async def test_allocating_needs_the_permission_to_bind_cluster_wide(api: Guarded) -> None:
    stored = await with_claim(api, user("alice"))
    claims = api.of("alice").resource(RESOURCECLAIMS, "default")
    free = replace(stored, status=replace(stored.status, allocation=None))
    message = await refused(claims.update_status(free), 422)
    assert "status.allocation: Forbidden: changing status.allocation or status.reservedFor requires" in message
    await api.role("bind", rule("update", "resourceclaims/binding", DRA))
    await api.bind("bind", user("alice"), namespace="default")
    await refused(claims.update_status(free), 422)
    await api.bind("bind", user("alice"))
    await claims.update_status(free)


@run_with(guarded)
async def test_writing_the_same_status_needs_nothing_more(api: Guarded) -> None:
    stored = await with_claim(api, user("alice"))
    await api.of("alice").resource(RESOURCECLAIMS, "default").update_status(stored)


def driver_on(api: Guarded, node: str) -> Client:
    return api.of(BOT, "system:serviceaccounts", extra={NODE_NAME: (node,)})


ASSOCIATED = rule("associated-node:update", "resourceclaims/driver", DRA, names=DRIVER)
ARBITRARY = rule("arbitrary-node:update", "resourceclaims/driver", DRA, names=DRIVER)


@pytest.mark.parametrize(
    ("granted", "node", "selector", "allowed"),
    [
        (ASSOCIATED, "n1", on_node("n1"), True),
        (ASSOCIATED, "n2", on_node("n1"), False),
        (ASSOCIATED, "n1", on_node("n1", "n2"), False),
        (ASSOCIATED, "n1", None, False),
        (ARBITRARY, "n2", on_node("n1"), True),
        (ARBITRARY, "", None, True),
    ],
)
@run_with(guarded)
async def test_a_driver_reports_where_its_permission_says(
    api: Guarded, *, granted: Any, node: str, selector: NodeSelector | None, allowed: bool
) -> None:
    stored = await with_claim(api, account("driver", "default"), granted, selector=selector)
    claims = driver_on(api, node).resource(RESOURCECLAIMS, "default")
    if allowed:
        await claims.update_status(reported(stored))
        return
    message = await refused(claims.update_status(reported(stored)), 422)
    assert 'status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver"' in message


@run_with(guarded)
async def test_users_with_a_nodes_name_are_no_drivers(api: Guarded) -> None:
    stored = await with_claim(api, user("alice"), ASSOCIATED, selector=on_node("n1"))
    alice = api.of("alice", extra={NODE_NAME: ("n1",)}).resource(RESOURCECLAIMS, "default")
    assert 'verb="[arbitrary-node:update]"' in await refused(alice.update_status(reported(stored)), 422)


@run_with(lambda test: guarded(test, gates={"DRAResourceClaimGranularStatusAuthorization": False}))
async def test_without_the_gate_the_status_permission_is_enough(api: Guarded) -> None:
    stored = await with_claim(api, user("alice"))
    free = replace(stored, status=replace(stored.status, allocation=None))
    await api.of("alice").resource(RESOURCECLAIMS, "default").update_status(free)
