"""The API in process: what clients in the same process may rely on, in virtual time."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Binding, ConfigMap, Namespace, ObjectReference, Pod, PodSpec
from cathedra.api.core.meta_v1 import DeleteOptions, ObjectMeta
from cathedra.api.quantity import Format, Quantity
from cathedra.api.resource import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceClaim,
    DeviceRequest,
    DeviceRequestAllocationResult,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
)
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.pipeline.audit import load_policy
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.denials import Denials
from cathedra.client.resources import CONFIGMAPS, NAMESPACES, PODS, RESOURCECLAIMS
from cathedra.client.transport import APICall, EventType, ListOptions, PatchType, WriteOptions, in_batches
from cathedra.clock import LoopClock, SystemClock, run_virtual
from cathedra.releases import FeatureGates
from tests.running import on_virtual_clock, run_with
from tests.unit.apiserver.asgi import open_asgi
from tests.unit.apiserver.plain_definitions import plain_definitions


def on_server(body: Callable[[APIServer], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        try:
            return await body(server)
        finally:
            await server.close()

    return run_virtual(main())


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


def pod(name: str, node: str = "") -> Pod:
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(node_name=node))


@run_with(on_server)
async def test_a_created_object_gets_uid_time_and_revision(server: APIServer) -> None:
    api = server.transport()
    made = await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    assert made.metadata.uid
    assert made.metadata.creation_timestamp is not None
    assert made.metadata.namespace == "default"
    assert int(made.metadata.resource_version) == server.revision
    assert await api.call(APICall("get", CONFIGMAPS, "default", "a")) is made


@on_virtual_clock
async def test_quantities_are_stored_as_http_clients_write_them() -> None:
    """A binary amount of 5000000000 bytes is sent as ``5000000000``, read as a decimal one, and shown as ``5G``."""
    amount = Quantity.of_value(5 * 10**9, Format.BINARY_SI)
    result = DeviceRequestAllocationResult(
        request="r", driver="d.example.com", pool="p", device="a", consumed_capacity={"memory": amount}
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    async with open_asgi() as asgi:
        api = asgi.server.transport()
        request = DeviceRequest(name="r", exactly=ExactDeviceRequest(device_class_name="c"))
        claim = ResourceClaim(
            metadata=ObjectMeta(name="a"), spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,)))
        )
        made = await api.call(APICall("create", RESOURCECLAIMS, "default", body=claim))
        allocated = replace(made, status=ResourceClaimStatus(allocation=allocation))
        stored = await api.call(APICall("update", RESOURCECLAIMS, "default", "a", "status", allocated))
        shown = await asgi("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a")
        assert shown.json["status"]["allocation"]["devices"]["results"][0]["consumedCapacity"] == {"memory": "5G"}
        assert stored.status.allocation is not None
        assert stored.status.allocation.devices.results[0].consumed_capacity["memory"].text == "5G"


@run_with(on_server)
async def test_the_four_namespaces_are_there_from_the_start(server: APIServer) -> None:
    page = await server.transport().call(APICall("list", NAMESPACES, ""))
    names = [item.metadata.name for item in page.items]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]


@run_with(on_server)
async def test_creating_the_same_name_again_is_refused(server: APIServer) -> None:
    api = server.transport()
    await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    with pytest.raises(StatusError, match='configmaps "a" already exists'):
        await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))


@run_with(on_server)
async def test_creating_in_a_missing_namespace_is_refused(server: APIServer) -> None:
    with pytest.raises(StatusError, match='namespaces "nowhere" not found'):
        await server.transport().call(APICall("create", CONFIGMAPS, "nowhere", body=config_map("a")))


@run_with(on_server)
async def test_a_stale_update_conflicts_and_a_fresh_one_counts(server: APIServer) -> None:
    api = server.transport()
    first = await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    second = await api.call(
        APICall("update", CONFIGMAPS, "default", first.metadata.name, body=replace(first, data={"k": "1"}))
    )
    assert int(second.metadata.resource_version) > int(first.metadata.resource_version)
    with pytest.raises(StatusError) as refused:
        await api.call(
            APICall("update", CONFIGMAPS, "default", first.metadata.name, body=replace(first, data={"k": "2"}))
        )
    assert refused.value.is_conflict


@run_with(on_server)
async def test_an_update_without_change_keeps_the_resource_version(server: APIServer) -> None:
    api = server.transport()
    first = await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a", k="1")))
    again = await api.call(APICall("update", CONFIGMAPS, "default", first.metadata.name, body=first))
    assert again.metadata.resource_version == first.metadata.resource_version


@run_with(on_server)
async def test_a_watch_shows_what_is_there_and_then_every_change_in_order(server: APIServer) -> None:
    api = server.transport()
    await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    async with api.watch(APICall("watch", CONFIGMAPS, "default")) as events:
        await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("b")))
        await api.call(
            APICall("patch", CONFIGMAPS, "default", "b", body={"data": {"x": "y"}}, patch_type=PatchType.MERGE)
        )
        await api.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions()))
        seen = [await anext(events) for _ in range(4)]
    assert [(event.type, event.object.metadata.name) for event in seen] == [
        (EventType.ADDED, "a"),
        (EventType.ADDED, "b"),
        (EventType.MODIFIED, "b"),
        (EventType.DELETED, "a"),
    ]
    assert int(seen[3].object.metadata.resource_version) == server.revision


@run_with(on_server)
async def test_events_that_have_arrived_are_one_batch(server: APIServer) -> None:
    api = server.transport()
    async with api.watch(APICall("watch", CONFIGMAPS, "default")) as events:
        for name in ("a", "b", "c"):
            await api.call(APICall("create", CONFIGMAPS, "default", body=config_map(name)))
        batch = await anext(in_batches(events))
        assert [event.object.metadata.name for event in batch] == ["a", "b", "c"]
        await api.call(APICall("delete", CONFIGMAPS, "default", "b", body=DeleteOptions()))
        assert (await anext(events)).type is EventType.DELETED


@run_with(on_server)
async def test_a_watch_from_a_resource_version_shows_only_what_came_after(server: APIServer) -> None:
    api = server.transport()
    first = await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))
    await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("b")))
    options = ListOptions(resource_version=first.metadata.resource_version)
    async with api.watch(APICall("watch", CONFIGMAPS, "default", selection=options)) as events:
        assert (await anext(events)).object.metadata.name == "b"


@run_with(on_server)
async def test_an_object_that_leaves_the_selection_is_shown_as_deleted_in_its_last_matching_state(
    server: APIServer,
) -> None:
    api = server.transport()
    labelled = ConfigMap(metadata=ObjectMeta(name="a", labels={"app": "x"}))
    await api.call(APICall("create", CONFIGMAPS, "default", body=labelled))
    async with api.watch(
        APICall("watch", CONFIGMAPS, "default", selection=ListOptions(label_selector="app=x"))
    ) as events:
        assert (await anext(events)).type is EventType.ADDED
        await api.call(
            APICall(
                "patch",
                CONFIGMAPS,
                "default",
                "a",
                body={"metadata": {"labels": {"app": "y"}}},
                patch_type=PatchType.MERGE,
            )
        )
        gone = await anext(events)
    assert gone.type is EventType.DELETED
    assert gone.object.metadata.labels == {"app": "x"}
    assert int(gone.object.metadata.resource_version) == server.revision


@run_with(on_server)
async def test_a_node_sees_only_the_pods_bound_to_it(server: APIServer) -> None:
    api = server.transport()
    async with api.watch(
        APICall("watch", PODS, "", selection=ListOptions(field_selector="spec.nodeName=n1"))
    ) as events:
        await api.call(APICall("create", PODS, "default", body=pod("p")))
        await api.call(APICall("create", PODS, "default", body=pod("other", "n2")))
        binding = Binding(metadata=ObjectMeta(name="p"), target=ObjectReference(kind="Node", name="n1"))
        await api.call(APICall("create", PODS, "default", "p", "binding", body=binding))
        event = await anext(events)
    assert (event.type, event.object.metadata.name) == (EventType.ADDED, "p")
    assert event.object.spec.node_name == "n1"


@run_with(on_server)
async def test_a_pod_is_bound_once(server: APIServer) -> None:
    api = server.transport()
    await api.call(APICall("create", PODS, "default", body=pod("p", "n1")))
    binding = Binding(metadata=ObjectMeta(name="p"), target=ObjectReference(kind="Node", name="n2"))
    with pytest.raises(StatusError, match='pod p is already assigned to node "n1"'):
        await api.call(APICall("create", PODS, "default", "p", "binding", body=binding))


@run_with(on_server)
async def test_a_finalizer_holds_an_object_until_it_is_taken_away(server: APIServer) -> None:
    api = server.transport()
    held = ConfigMap(metadata=ObjectMeta(name="a", finalizers=("example.com/hold",)))
    await api.call(APICall("create", CONFIGMAPS, "default", body=held))
    marked = await api.call(APICall("delete", CONFIGMAPS, "default", "a", body=DeleteOptions()))
    assert marked is not None
    assert marked.metadata.deletion_timestamp is not None
    await api.call(
        APICall(
            "patch", CONFIGMAPS, "default", "a", body={"metadata": {"finalizers": None}}, patch_type=PatchType.MERGE
        )
    )
    with pytest.raises(StatusError) as gone:
        await api.call(APICall("get", CONFIGMAPS, "default", "a"))
    assert gone.value.is_not_found


@run_with(on_server)
async def test_a_bound_pod_is_deleted_gracefully_and_then_for_good(server: APIServer) -> None:
    api = server.transport()
    await api.call(APICall("create", PODS, "default", body=pod("p", "n1")))
    marked = await api.call(APICall("delete", PODS, "default", "p", body=DeleteOptions()))
    assert marked is not None
    assert marked.metadata.deletion_grace_period_seconds == 30
    await api.call(APICall("delete", PODS, "default", "p", body=DeleteOptions(grace_period_seconds=0)))
    assert (await api.call(APICall("list", PODS, "default"))).items == ()


@run_with(on_server)
async def test_pages_show_one_moment_although_objects_change_meanwhile(server: APIServer) -> None:
    api = server.transport()
    for name in "abcd":
        await api.call(APICall("create", CONFIGMAPS, "default", body=config_map(name)))
    first = await api.call(APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=2)))
    assert first.remaining == 2
    await api.call(APICall("delete", CONFIGMAPS, "default", "c", body=DeleteOptions()))
    await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("bb")))
    second = await api.call(
        APICall("list", CONFIGMAPS, "default", selection=ListOptions(limit=2, continue_=first.continue_))
    )
    assert [item.metadata.name for item in second.items] == ["c", "d"]
    assert second.resource_version == first.resource_version


@run_with(on_server)
async def test_a_dry_run_changes_nothing(server: APIServer) -> None:
    api = server.transport()
    made = await api.call(
        APICall("create", CONFIGMAPS, "default", body=config_map("a"), options=WriteOptions(dry_run=True))
    )
    assert made.metadata.uid
    assert made.metadata.resource_version == ""
    assert (await api.call(APICall("list", CONFIGMAPS, "default"))).items == ()


@run_with(on_server)
async def test_generated_names_are_unique(server: APIServer) -> None:
    api = server.transport()
    made = [
        await api.call(
            APICall("create", CONFIGMAPS, "default", body=ConfigMap(metadata=ObjectMeta(generate_name="n-")))
        )
        for _ in range(20)
    ]
    names = {item.metadata.name for item in made}
    assert len(names) == 20
    assert all(len(name) == 7 and name.startswith("n-") for name in names)


@run_with(on_server)
async def test_concurrent_writers_of_one_object_lose_no_write(server: APIServer) -> None:
    api = server.transport()
    await api.call(APICall("create", CONFIGMAPS, "default", body=config_map("a")))

    async def writer(index: int) -> None:
        await api.call(
            APICall("patch", CONFIGMAPS, "default", "a", body={"data": {f"k{index}": "v"}}, patch_type=PatchType.MERGE)
        )

    async with asyncio.TaskGroup() as group:
        for index in range(50):
            group.create_task(writer(index))
    assert len((await api.call(APICall("get", CONFIGMAPS, "default", "a"))).data) == 50


@run_with(on_server)
async def test_a_terminating_namespace_takes_no_new_content(server: APIServer) -> None:
    api = server.transport()
    held = Namespace(metadata=ObjectMeta(name="ns", finalizers=("example.com/hold",)))
    await api.call(APICall("create", NAMESPACES, "", body=held))
    await api.call(APICall("delete", NAMESPACES, "", "ns", body=DeleteOptions()))
    with pytest.raises(StatusError) as refused:
        await api.call(APICall("create", CONFIGMAPS, "ns", body=config_map("a")))
    assert refused.value.causes[0].reason == "NamespaceTerminating"


MASTER = UserInfo("system:kube-controller-manager", ("system:masters",))
POD_GC = UserInfo("system:serviceaccount:kube-system:pod-garbage-collector")


async def audited(log: Path | None, policy: str = "{kind: Policy, rules: [{level: Metadata}]}") -> APIServer:
    config = ServerConfig(
        gates=FeatureGates.for_release(), authorization=True, audit_log=log, audit_policy=load_policy(policy)
    )
    return await APIServer.open(config, clock=SystemClock(), random=random.Random(1))


def client_of(server: APIServer, user: UserInfo) -> Client:
    return Client(server.transport_of_part(user, "part", Denials(SystemClock())), clock=SystemClock())


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


async def test_every_call_of_a_part_is_written_down(tmp_path: Path) -> None:
    server = await audited(tmp_path / "log")
    maps = client_of(server, MASTER).resource(CONFIGMAPS, "default")
    made = await maps.create(ConfigMap(metadata=ObjectMeta(generate_name="a-")))
    name = made.metadata.name
    await maps.update(made)
    await maps.patch(name, PatchType.MERGE, {"data": {"k": "v"}})
    await maps.get(name)
    page = await maps.list("a=b")
    async with maps.watch(resource_version=page.resource_version):
        pass
    await maps.delete(name)
    await maps.delete_collection()
    await server.close()
    written = lines(tmp_path / "log")
    assert [(line["verb"], line["responseStatus"]["code"]) for line in written] == [
        ("create", 201),
        ("update", 200),
        ("patch", 200),
        ("get", 200),
        ("list", 200),
        ("watch", 200),
        ("watch", 200),
        ("delete", 200),
        ("deletecollection", 200),
    ]
    assert {(line["user"]["username"], line["userAgent"]) for line in written} == {(MASTER.name, "part")}
    assert written[0]["objectRef"]["name"] == name
    assert written[4]["requestURI"] == "/api/v1/namespaces/default/configmaps?labelSelector=a%3Db"


async def test_a_refused_call_is_written_down_as_forbidden(tmp_path: Path) -> None:
    server = await audited(tmp_path / "log")
    with pytest.raises(StatusError):
        await client_of(server, POD_GC).resource(PODS, "default").get("p")
    await server.close()
    (line,) = lines(tmp_path / "log")
    assert line["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert (line["responseStatus"]["code"], line["objectRef"]["name"]) == (403, "p")


async def test_the_policy_decides_about_parts_too(tmp_path: Path) -> None:
    policy = (
        "{kind: Policy, rules: [{level: None, verbs: [get]}, "
        "{level: RequestResponse, resources: [{group: '', resources: [configmaps]}]}]}"
    )
    server = await audited(tmp_path / "log", policy)
    maps = client_of(server, MASTER).resource(CONFIGMAPS, "default")
    await maps.create(ConfigMap(metadata=ObjectMeta(name="a"), data={"k": "v"}))
    await maps.get("a")
    await server.close()
    (line,) = lines(tmp_path / "log")
    assert line["requestObject"]["data"] == line["responseObject"]["data"] == {"k": "v"}


async def test_without_a_log_parts_call_the_server_directly() -> None:
    server = await audited(None)
    part = server.transport_of_part(MASTER, "part", Denials(SystemClock()))
    assert type(part) is type(server.transport_of(MASTER))
    await server.close()
