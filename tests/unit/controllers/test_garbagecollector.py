"""Objects are deleted with their owners, in the requested order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from cathedra.api.core.core_v1 import ConfigMap, Node
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.resource import ResourcePool, ResourceSlice, ResourceSliceSpec
from cathedra.api.status import StatusError
from cathedra.api.struct import KubeStruct, Time
from cathedra.client.objects import with_metadata
from cathedra.client.resources import (
    CONFIGMAPS,
    EVENTS,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICES,
    SECRETS,
)
from cathedra.client.transport import APICall, EventType
from cathedra.controllers.controller import ControllerContext
from cathedra.controllers.garbagecollector import (
    FOREGROUND,
    GarbageCollector,
    NotServed,
    Ownership,
    OwnerState,
    is_waiting,
)
from cathedra.controllers.resourceclaim.controller import ResourceClaimController
from tests.running import run_with
from tests.unit.controllers.resourceclaim.objects import allocate, pod, template
from tests.unit.controllers.world import World, play
from tests.unit.inprocess import API, with_api
from tests.unit.passedon import PassedOn
from tests.unit.spoiled import SPOILED, SpoiledTransport


def collector(context: ControllerContext) -> GarbageCollector:

    return GarbageCollector(msgspec.structs.replace(context, served=(CONFIGMAPS, NODES, RESOURCESLICES, SECRETS)))


def owner_reference(owner: KubeStruct, kind: str = "ConfigMap", **changes: Any) -> OwnerReference:
    metadata = owner.metadata
    return OwnerReference(api_version="v1", kind=kind, name=metadata.name, uid=metadata.uid, **changes)


async def make(world: World, name: str, *owners: OwnerReference, finalizers: tuple[str, ...] = ()) -> ConfigMap:
    metadata = ObjectMeta(name=name, namespace="default", owner_references=owners, finalizers=finalizers)
    return await world.create(CONFIGMAPS, ConfigMap(metadata=metadata))


def slice_(name: str, *owners: OwnerReference) -> ResourceSlice:
    pool = ResourcePool(name="pool", generation=1, resource_slice_count=1)
    spec = ResourceSliceSpec(driver="d.example.com", pool=pool, all_nodes=True)
    return ResourceSlice(metadata=ObjectMeta(name=name, owner_references=owners), spec=spec)


async def left(world: World) -> list[str]:
    return [name for name in await world.names(CONFIGMAPS) if name != "kube-root-ca.crt"]


@run_with(lambda test: play(collector, test))
async def test_dependents_follow_their_owner_in_the_background(world: World) -> None:
    owner = await make(world, "owner")
    child = await make(world, "child", owner_reference(owner))
    await make(world, "grandchild", owner_reference(child))
    await world.quiet()
    assert await left(world) == ["child", "grandchild", "owner"]
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Background")
    await world.quiet()
    assert await left(world) == []


@run_with(lambda test: play(collector, test))
async def test_an_owner_in_another_namespace_is_told_and_owns_nothing(world: World) -> None:
    metadata = ObjectMeta(name="owner", namespace="kube-system")
    owner = await world.create(CONFIGMAPS, ConfigMap(metadata=metadata))
    await make(world, "child", owner_reference(owner))
    await world.quiet()
    assert await left(world) == []
    where = f"[v1/ConfigMap, namespace: default, name: owner, uid: {owner.metadata.uid}]"
    message = f'ownerRef {where} does not exist in namespace "default"'
    assert await world.events() == [("Warning", "OwnerRefInvalidNamespace", message)]


@run_with(lambda test: play(collector, test))
async def test_an_object_with_another_owner_only_loses_the_reference(world: World) -> None:
    a, b = await make(world, "a"), await make(world, "b")
    await make(world, "child", owner_reference(a), owner_reference(b))
    await world.of(CONFIGMAPS).delete("a")
    await world.quiet()
    child = await world.of(CONFIGMAPS).get("child")
    assert [owner.name for owner in child.metadata.owner_references] == ["b"]


@run_with(lambda test: play(collector, test))
async def test_an_owner_that_never_existed_takes_the_object_with_it(world: World) -> None:
    nobody = OwnerReference(api_version="v1", kind="Node", name="n1", uid="no-such-uid")
    await make(world, "lost", nobody)
    namesake = await make(world, "namesake")
    await make(world, "mistaken", OwnerReference(api_version="v1", kind="ConfigMap", name="namesake", uid="old"))
    await world.quiet()
    assert await left(world) == [namesake.metadata.name]


@run_with(lambda test: play(collector, test))
async def test_foreground_deletion_waits_for_blocking_dependents_alone(world: World) -> None:
    owner = await make(world, "owner")
    await make(world, "blocks", owner_reference(owner, block_owner_deletion=True), finalizers=("example.com/x",))
    await make(world, "plain", owner_reference(owner), finalizers=("example.com/x",))
    await world.quiet()
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Foreground")
    await world.quiet()
    assert await left(world) == ["blocks", "owner", "plain"]
    await world.change(CONFIGMAPS, "blocks", lambda c: with_metadata(c, finalizers=()))
    await world.quiet()
    assert await left(world) == ["plain"]


@run_with(lambda test: play(collector, test))
async def test_foreground_deletion_goes_down_the_tree(world: World) -> None:
    owner = await make(world, "owner")
    child = await make(world, "child", owner_reference(owner, block_owner_deletion=True))
    await make(world, "leaf", owner_reference(child, block_owner_deletion=True), finalizers=("example.com/x",))
    await world.quiet()
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Foreground")
    await world.quiet()
    assert await left(world) == ["child", "leaf", "owner"]
    await world.change(CONFIGMAPS, "leaf", lambda c: with_metadata(c, finalizers=()))
    await world.quiet()
    assert await left(world) == []


@run_with(lambda test: play(collector, test))
async def test_orphaning_leaves_the_dependents_without_reference(world: World) -> None:
    owner = await make(world, "owner")
    await make(world, "child", owner_reference(owner))
    await world.quiet()
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Orphan")
    await world.quiet()
    assert await left(world) == ["child"]
    assert (await world.of(CONFIGMAPS).get("child")).metadata.owner_references == ()


@run_with(lambda test: play(collector, test))
async def test_slices_go_with_their_node(world: World) -> None:
    node = await world.create(NODES, Node(metadata=ObjectMeta(name="n1")))
    await world.create(RESOURCESLICES, slice_("owned", owner_reference(node, "Node")))
    await world.create(RESOURCESLICES, slice_("by-hand"))
    await world.quiet()
    await world.of(NODES).delete("n1")
    await world.quiet()
    assert await world.names(RESOURCESLICES) == ["by-hand"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Unheard"])
@run_with(lambda test: play(collector, test))
async def test_nothing_is_deleted_on_a_guess(world: World, *, kind: str) -> None:
    """A cluster-scoped object cannot have a namespaced owner, and an unknown kind proves nothing."""
    nobody = OwnerReference(api_version="v1", kind=kind, name="x", uid="u")
    await world.create(RESOURCESLICES, slice_("s", nobody))
    await world.clock.sleep(60)
    assert await world.names(RESOURCESLICES) == ["s"]
    if kind == "ConfigMap":
        assert any(event.reason == "OwnerRefInvalidNamespace" for event in await world.list(EVENTS, ""))


@run_with(lambda test: play(collector, test))
async def test_in_a_circle_the_one_that_was_deleted_waits_for_no_other(world: World) -> None:
    first = await make(world, "first")
    second = await make(world, "second", owner_reference(first, block_owner_deletion=True), finalizers=("a.b/hold",))
    back = owner_reference(second, block_owner_deletion=True)
    await world.of(CONFIGMAPS).update(with_metadata(first, owner_references=(back,)))
    await world.quiet()
    await world.of(CONFIGMAPS).delete("first", propagation_policy="Foreground")
    await world.quiet()
    assert await left(world) == ["second"]
    held = await world.of(CONFIGMAPS).get("second")
    assert held.metadata.deletion_timestamp is not None
    assert held.metadata.finalizers == ("a.b/hold",)


async def spoil(world: World, name: str) -> None:
    """Make an object one that the collector cannot decode."""
    await world.change(CONFIGMAPS, name, lambda one: with_metadata(one, annotations={SPOILED: "data"}))


@run_with(lambda test: play(collector, test, through=SpoiledTransport))
async def test_what_an_owner_owns_that_cannot_be_decoded_stays_until_the_owner_goes(world: World) -> None:
    owner = await make(world, "owner")
    await make(world, "child", owner_reference(owner))
    await world.quiet()
    await spoil(world, "owner")
    await make(world, "late", owner_reference(owner))
    await world.clock.sleep(60)
    assert await left(world) == ["child", "late", "owner"]
    await world.of(CONFIGMAPS).delete("owner", propagation_policy="Background")
    await world.quiet()
    assert await left(world) == []


class ClaimCalls(PassedOn):
    """Records calls on claims, with the code of a refusal. Calls take a moment, as they do over a network."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: list[str] = []

    async def call(self, call: APICall) -> Any:
        if call.ref != RESOURCECLAIMS or not call.name:
            return await self._inner.call(call)
        await asyncio.sleep(0.005)
        said = f"{call.verb} {call.subresource}".strip()
        try:
            answer = await self._inner.call(call)
        except StatusError as error:
            self.calls.append(f"{said}: {error.code}")
            raise
        self.calls.append(said)
        return answer


def test_the_claim_of_a_deleted_pod_is_released_and_deleted_in_three_calls() -> None:
    transports: list[ClaimCalls] = []

    def counted(inner: Any) -> ClaimCalls:
        transports.append(ClaimCalls(inner))
        return transports[-1]

    def collector_of_claims(context: ControllerContext) -> GarbageCollector:
        return GarbageCollector(msgspec.structs.replace(context, served=(PODS, RESOURCECLAIMS)))

    async def story(world: World) -> None:
        await world.create(RESOURCECLAIMTEMPLATES, template())
        made = await world.create(PODS, pod())
        await world.quiet()
        (name,) = await world.names(RESOURCECLAIMS)
        await allocate(world, name, made)
        await world.quiet()
        await world.of(PODS).delete("p", grace_period_seconds=0)
        await world.quiet()
        assert await world.names(RESOURCECLAIMS) == []
        assert [call for one in transports for call in one.calls] == ["update status", "update", "delete"]

    play((ResourceClaimController, collector_of_claims), story, through=counted)


class UnseenChanges(PassedOn):
    """Changes of config maps are not seen, only creations and deletions. Calls are recorded."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.calls: list[str] = []

    async def call(self, call: APICall) -> Any:
        if call.ref == CONFIGMAPS and call.name:
            self.calls.append(f"{call.verb} {call.name}")
        return await self._inner.call(call)

    @asynccontextmanager
    async def watch(self, call: APICall) -> AsyncIterator[Any]:
        async with self._inner.watch(call) as events:
            yield self._without_changes(events) if call.ref == CONFIGMAPS else events

    async def _without_changes(self, events: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for event in events:
            if event.type is not EventType.MODIFIED:
                yield event


@pytest.mark.parametrize("adopted", [False, True])
def test_an_object_that_changed_unseen_is_judged_by_its_latest_state(adopted: bool) -> None:
    """As a claim that is released while its pod goes: three calls, and no retry of the queue."""
    transports: list[UnseenChanges] = []

    def unseen(inner: Any) -> UnseenChanges:
        transports.append(UnseenChanges(inner))
        return transports[-1]

    async def story(world: World) -> None:
        owner, other = await make(world, "owner"), await make(world, "other")
        await make(world, "child", owner_reference(owner))
        await world.quiet()
        owners = (owner_reference(other),) if adopted else (owner_reference(owner),)
        await world.change(
            CONFIGMAPS, "child", lambda one: with_metadata(one, owner_references=owners, annotations={"a": "b"})
        )
        await world.of(CONFIGMAPS).delete("owner", propagation_policy="Background")
        await world.quiet()
        assert await left(world) == (["child", "other"] if adopted else ["other"])
        calls = [call for one in transports for call in one.calls if call.endswith(" child")]
        assert calls == ["delete child", "get child", *([] if adopted else ["delete child"])]

    play(collector, story, through=unseen)


@pytest.mark.parametrize("policy", ["Orphan", "Foreground"])
@run_with(lambda test: play(collector, test, through=SpoiledTransport))
async def test_an_owner_waits_for_a_dependent_that_cannot_be_decoded(world: World, *, policy: str) -> None:
    """Which would otherwise be deleted later where it was to be orphaned, or outlive an owner that it blocks."""
    owner = await make(world, "owner")
    await make(world, "child", owner_reference(owner, block_owner_deletion=True))
    await spoil(world, "child")
    await world.quiet()
    await world.of(CONFIGMAPS).delete("owner", propagation_policy=policy)
    await world.clock.sleep(60)
    assert await left(world) == ["child", "owner"]
    await world.change(CONFIGMAPS, "child", lambda one: with_metadata(one, annotations={}))
    await world.clock.sleep(1000)
    assert await left(world) == (["child"] if policy == "Orphan" else [])


# The owner graph, read out of informers.


def config_map(name: str, *owners: OwnerReference) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default", owner_references=owners))


def reference(owner: ConfigMap, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=owner.metadata.name, uid=owner.metadata.uid)


@run_with(with_api)
async def test_owners_and_dependents_find_each_other(api: API) -> None:
    graph = Ownership(api.informers, (CONFIGMAPS, PODS))
    api.follow()
    maps = api.client.resource(CONFIGMAPS, "default")
    owner = await maps.create(config_map("owner"))
    await maps.create(config_map("dependent", reference(owner)))
    uid = owner.metadata.uid
    await api.until(lambda: list(graph.dependents(uid)))
    (dependent,) = graph.dependents(uid)
    assert dependent.item == ("", "configmaps", "default", "dependent")
    assert graph.get(dependent.item) == dependent
    found = graph.owner(dependent, reference(owner))
    assert found is not None
    assert found.obj.metadata.name == "owner"
    assert graph.state(dependent, reference(owner)) is OwnerState.SOLID


@run_with(with_api)
async def test_a_reference_with_another_uid_or_an_unknown_kind_is_nothing_that_is_known(api: API) -> None:
    graph = Ownership(api.informers, (CONFIGMAPS,))
    api.follow()
    maps = api.client.resource(CONFIGMAPS, "default")
    owner = await maps.create(config_map("owner"))
    stale = reference(with_metadata(owner, uid="another"))
    await maps.create(config_map("dependent", stale))
    await api.until(lambda: list(graph.dependents("another")))
    (dependent,) = graph.dependents("another")
    assert graph.state(dependent, stale) is OwnerState.UNKNOWN
    with pytest.raises(NotServed, match='no matches for kind "Cart" in version "v1"'):
        graph.resource_of(reference(owner, "Cart"))


def test_an_owner_waits_while_it_is_deleted_in_the_foreground() -> None:
    going = with_metadata(config_map("c"), deletion_timestamp=Time(1))
    assert is_waiting(with_metadata(going, finalizers=(FOREGROUND,)))
    assert not is_waiting(going)
    assert not is_waiting(with_metadata(config_map("c"), finalizers=(FOREGROUND,)))
