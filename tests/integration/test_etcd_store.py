"""The shared store against a real etcd and a server that behaves as kine does: two API servers, lost connections,
compaction, TLS."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from cathedra._proto import etcd_pb2 as pb
from cathedra._proto.etcd_pb2_grpc import KVStub
from cathedra.api.core.core_v1 import ConfigMap
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.protobuf import encode_message, wrap
from cathedra.api.resource import ResourceClaim, ResourceSlice
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError
from cathedra.api.struct import from_dict, replace
from cathedra.apiserver.config import ServeOptions, ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.apiserver.storage.protocol import StoreUnavailable, Superseded
from cathedra.client.client import Client
from cathedra.client.resources import CONFIGMAPS, NAMESPACES, NODES, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import APICall, ListOptions, PatchType
from cathedra.clock import SystemClock
from cathedra.releases import FeatureGates
from tests.integration.etcd import STORES, Etcd, Kine, running_etcd, running_members
from tests.ports import free_port
from tests.unit.apiserver.plain_definitions import plain_definitions

NEW = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new","namespace":"default"}}'


@pytest.fixture(params=STORES)
def etcd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Etcd | Kine]:
    with STORES[request.param](tmp_path / "etcd") as running:
        yield running


def storage(etcd: Etcd | Kine, **options: Any) -> EtcdStorage:
    return EtcdStorage(EtcdAddress.parse(etcd.url), clock=SystemClock(), **options)


@asynccontextmanager
async def server(etcd: Etcd | Kine, **options: Any) -> AsyncIterator[APIServer]:
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=storage(etcd, **options))
    try:
        yield made
    finally:
        await made.close()


@asynccontextmanager
async def two_servers(etcd: Etcd | Kine) -> AsyncIterator[tuple[APIServer, APIServer]]:
    async with server(etcd) as one, server(etcd) as other:
        yield one, other


def maps(of: APIServer) -> Any:
    return Client(of.transport(), clock=SystemClock()).resource(CONFIGMAPS, "default")


def named(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name), data=data)


class Peek:
    """etcd as others see it: keys and values, and compaction by another client."""

    def __init__(self, etcd: Etcd | Kine) -> None:
        self._kv: Any = KVStub(grpc.insecure_channel(f"127.0.0.1:{etcd.port}"))

    def keys(self) -> set[str]:
        found = self._kv.Range(pb.RangeRequest(key=b"/", range_end=b"0"))
        return {entry.key.decode() for entry in found.kvs}

    def value(self, key: str, revision: int = 0) -> bytes:
        found: bytes = self._kv.Range(pb.RangeRequest(key=key.encode(), revision=revision)).kvs[0].value
        return found

    def put(self, key: str, value: bytes) -> int:
        """Create a key. kine takes no transaction without a comparison and a read."""
        revision: int = self._kv.Txn(
            pb.TxnRequest(
                compare=[pb.Compare(result="EQUAL", target="MOD", key=key.encode())],
                success=[pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=value))],
                failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key.encode()))],
            )
        ).header.revision
        return revision

    def compact(self, revision: int) -> None:
        self._kv.Compact(pb.CompactionRequest(revision=revision))


async def test_what_one_server_acknowledged_the_other_knows_at_once(etcd: Etcd | Kine) -> None:
    async with two_servers(etcd) as (one, other):
        for number in range(20):
            name = f"m{number}"
            made = await maps(one).create(named(name, k="1"))
            assert await maps(other).get(name) == made
            changed = await maps(other).update(replace(made, data={"k": "2"}))
            assert (await maps(one).get(name)).data == {"k": "2"}
            assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
            await maps(one).delete(name, uid=made.metadata.uid)
            with pytest.raises(StatusError, match="not found"):
                await maps(other).get(name)
        assert one.revision == other.revision


async def test_only_one_of_many_racing_writers_wins(etcd: Etcd | Kine) -> None:
    async with two_servers(etcd) as (one, other):
        attempts = [maps(of).create(named("same")) for of in (one, other) * 8]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(outcome, ConfigMap) for outcome in outcomes) == 1
        refused = [outcome for outcome in outcomes if isinstance(outcome, StatusError)]
        assert len(refused) == 15
        assert all(error.is_already_exists for error in refused)


async def test_concurrent_changes_through_both_servers_are_all_kept(etcd: Etcd | Kine) -> None:
    """Each writer reads, adds its key and writes with the resource version it read, again until it succeeds."""

    async def add(of: APIServer, key: str) -> None:
        while True:
            found = await maps(of).get("shared")
            try:
                await maps(of).update(replace(found, data={**found.data, key: key}))
            except StatusError as error:
                if not error.is_conflict:
                    raise
            else:
                return

    async with two_servers(etcd) as (one, other):
        await maps(one).create(named("shared"))
        await asyncio.gather(*(add((one, other)[number % 2], f"k{number}") for number in range(12)))
        assert len((await maps(one).get("shared")).data) == 12


async def test_watchers_of_both_servers_see_the_same_events_in_the_same_order(etcd: Etcd | Kine) -> None:
    async with two_servers(etcd) as (one, other):
        await maps(one).list()  # it has then seen what the start of the other one wrote
        start = ListOptions(resource_version=str(one.revision))
        seen: dict[int, list[tuple[str, str, str]]] = {0: [], 1: []}

        async def collect(index: int, of: APIServer) -> None:
            async with of.transport().watch(APICall("watch", CONFIGMAPS, "default", selection=start)) as events:
                async for event in events:
                    metadata = event.object.metadata
                    seen[index].append((event.type.value, metadata.name, metadata.resource_version))
                    if metadata.name == "last":
                        return

        async with asyncio.timeout(120), asyncio.TaskGroup() as group:
            group.create_task(collect(0, one))
            group.create_task(collect(1, other))
            await asyncio.sleep(0)
            for number in range(10):
                made = await maps((one, other)[number % 2]).create(named(f"m{number}"))
                await maps((other, one)[number % 2]).update(replace(made, data={"a": "b"}))
                if number % 3 == 0:
                    await maps(one).delete(f"m{number}")
            await maps(one).create(named("last"))
        assert seen[0] == seen[1]
        assert [event for event, _, _ in seen[0]].count("DELETED") == 4


async def test_a_client_that_reconnects_after_any_event_misses_none(etcd: Etcd | Kine) -> None:
    """Writes that begin together share a transaction, and so a revision."""

    async def seen_after(of: APIServer, version: str, expected: set[str]) -> None:
        selection = ListOptions(resource_version=version)
        seen: set[str] = set()
        async with of.transport().watch(APICall("watch", CONFIGMAPS, "default", selection=selection)) as events:
            async for event in events:
                seen.add(event.object.metadata.name)
                if "last" in seen:
                    break
        assert expected <= seen

    async with two_servers(etcd) as (one, other):
        made = await asyncio.gather(*(maps(one).create(named(f"m{number}")) for number in range(12)))
        await maps(other).create(named("last"))
        versions = {item.metadata.name: int(item.metadata.resource_version) for item in made}
        if isinstance(etcd, Etcd):
            assert len(set(versions.values())) < len(versions)
        async with asyncio.timeout(60):
            for name, version in versions.items():
                # Of its revision the client has seen this object alone.
                others = {key for key, later in versions.items() if later >= version and key != name}
                await asyncio.gather(*(seen_after(of, str(version), others) for of in (one, other)))


async def test_objects_survive_and_stand_under_kubernetes_keys(etcd: Etcd | Kine) -> None:
    async with server(etcd) as first:
        made = await maps(first).create(named("kept", k="v"))
    async with server(etcd) as second:
        assert await maps(second).get("kept") == made
    assert {"/registry/configmaps/default/kept", "/registry/namespaces/kube-system"} <= Peek(etcd).keys()
    value = json.loads(Peek(etcd).value("/registry/configmaps/default/kept"))
    assert (value["apiVersion"], value["kind"], value["data"]) == ("v1", "ConfigMap", {"k": "v"})
    assert "resourceVersion" not in value["metadata"]


async def test_objects_that_kubernetes_wrote_in_protobuf_are_read(etcd: Etcd | Kine, tmp_path: Path) -> None:
    written = wrap(GroupVersionKind("", "v1", "ConfigMap"), encode_message(named("theirs", k="v")))
    store = storage(etcd)
    await store.load(lambda _: None)
    await store.write("configmaps/default/theirs", written, expected=0)
    await store.close()
    async with server(etcd) as made:
        assert (await maps(made).get("theirs")).data == {"k": "v"}


async def test_a_write_compares_the_revision_it_was_made_from(etcd: Etcd | Kine) -> None:
    store = storage(etcd)
    await store.load(lambda _: None)
    first = await store.write("pods/a/b", b"1", expected=0)
    with pytest.raises(Superseded) as caught:
        await store.write("pods/a/b", b"2", expected=0)
    assert caught.value.revision == first
    second = await store.write("pods/a/b", b"2", expected=first)
    assert await store.write("pods/a/b", None, expected=second) > second
    await store.close()


async def test_while_the_store_is_away_requests_are_refused_and_afterwards_all_is_there(etcd: Etcd | Kine) -> None:
    async with server(etcd) as made:
        url = await made.serve(ServeOptions())
        await maps(made).create(named("before"))
        async with aiohttp.ClientSession(url) as session:
            assert (await session.get("/readyz")).status == 200
            etcd.kill()
            body = {"metadata": {"name": "lost"}}
            refused = await session.post("/api/v1/namespaces/default/configmaps", json=body)
            status = await refused.json()
            assert (refused.status, status["reason"]) in {(503, "ServiceUnavailable"), (504, "Timeout")}
            assert refused.headers["Retry-After"] == "1"
            assert "etcd at 127.0.0.1" in status["message"]
            ready = await session.get("/readyz")
            assert ready.status == 500
            assert "\netcd: etcd at 127.0.0.1" in await ready.text()
            cached = await session.get("/api/v1/namespaces/default/configmaps?resourceVersion=0")
            assert [item["metadata"]["name"] for item in (await cached.json())["items"]] == ["before"]
            etcd.start()
            await _until(lambda: not made.context.registry.problem)
            again = await session.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "after"}})
            assert again.status == 201
            assert (await session.get("/readyz")).status == 200
            listed = await (await session.get("/api/v1/namespaces/default/configmaps")).json()
            assert [item["metadata"]["name"] for item in listed["items"]] == ["after", "before"]


async def test_a_watch_goes_on_after_the_store_was_away(etcd: Etcd | Kine) -> None:
    async with two_servers(etcd) as (one, other):
        start = ListOptions(resource_version=str(one.revision))
        async with (
            asyncio.timeout(120),
            one.transport().watch(APICall("watch", CONFIGMAPS, "default", selection=start)) as events,
        ):
            etcd.kill()
            etcd.start()
            await _until(lambda: not other.context.registry.problem)
            made = await maps(other).create(named("a"))
            event = await anext(aiter(events))
            assert event.object == made


async def test_revisions_older_than_the_compaction_are_gone_on_every_server(etcd: Etcd | Kine) -> None:
    async with server(etcd, compaction_interval=0.3) as one, server(etcd, compaction_interval=0.3) as other:
        old = (await maps(one).create(named("a"))).metadata.resource_version
        await maps(one).create(named("b"))
        floor = int(old) + 1

        def compacted() -> bool:
            tables = [of.context.registry.table(GroupResource("", "configmaps")) for of in (one, other)]
            return all(table.floor >= floor for table in tables)

        await _until(compacted)
        for of in (one, other):
            with pytest.raises(StatusError) as caught:
                async with of.transport().watch(
                    APICall("watch", CONFIGMAPS, "default", selection=ListOptions(resource_version=old))
                ):
                    pass
            assert caught.value.is_expired
    with pytest.raises(grpc.RpcError, match="compacted"):
        Peek(etcd).value("/registry/configmaps/default/a", int(old) - 1)


async def test_a_server_that_missed_compacted_changes_reads_everything_again(etcd: Etcd | Kine) -> None:
    async with server(etcd) as one:
        await maps(one).create(named("gone"))
        kept = await maps(one).create(named("kept"))
        log = one.context.registry._log
        assert log._following is not None  # type: ignore[union-attr]
        log._following.cancel()  # type: ignore[union-attr]
        store = storage(etcd)
        await store.load(lambda _: None)
        revision = await store.write("configmaps/default/gone", None, expected=int(kept.metadata.resource_version) - 1)
        revision = await store.write("configmaps/default/new", NEW, expected=0)
        await store.close()
        Peek(etcd).compact(revision)
        log._following = asyncio.create_task(log._follow())  # type: ignore[union-attr]
        await _until(lambda: one.revision >= revision)
        names = [item.metadata.name for item in (await maps(one).list()).items]
        assert names == ["kept", "new"]


async def test_many_objects_are_read_page_by_page(etcd: Etcd | Kine) -> None:
    store = storage(etcd)
    await store.load(lambda _: None)
    await asyncio.gather(*(store.write(f"pods/a/p{number:04}", b"x", expected=0) for number in range(2100)))
    snapshot = await store.load(lambda _: None)
    assert sum(record.key.startswith("pods/") for record in snapshot.records) == 2100
    assert snapshot.revision == await store.latest()
    await store.close()


async def test_without_a_store_the_error_says_what_is_missing(etcd: Etcd | Kine) -> None:
    etcd.kill()
    store = storage(etcd)
    with pytest.raises(StoreUnavailable, match=r"etcd at 127\.0\.0\.1:\d+ cannot be reached"):
        await store.load(lambda _: None)
    await store.close()


async def test_nodes_stand_under_their_old_name(etcd: Etcd | Kine) -> None:
    from cathedra.api.core.core_v1 import Node

    async with server(etcd) as made:
        client = Client(made.transport(), clock=SystemClock())
        await client.resource(NODES).create(Node(metadata=ObjectMeta(name="n1")))
        await client.resource(NODES).delete("n1", grace_period_seconds=0)
        await client.resource(NODES).create(Node(metadata=ObjectMeta(name="n2")))
    assert Peek(etcd).keys() >= {"/registry/minions/n2"}


async def test_members_that_do_not_answer_are_passed_over(etcd: Etcd | Kine) -> None:
    address = EtcdAddress.parse(etcd.url.replace("etcd://", f"etcd://127.0.0.1:{free_port()},127.0.0.1:{free_port()},"))
    config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
    store = EtcdStorage(address, clock=SystemClock())
    made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
    await maps(made).create(named("a"))
    assert (await maps(made).get("a")).metadata.name == "a"
    await made.close()


async def test_writes_go_on_when_the_member_in_use_dies(tmp_path: Path) -> None:
    with running_members(tmp_path, 3) as members:
        url = "etcd://" + ",".join(f"127.0.0.1:{member.port}" for member in members)
        config = ServerConfig(gates=FeatureGates.for_release(), definitions=plain_definitions())
        store = EtcdStorage(EtcdAddress.parse(url), clock=SystemClock())
        made = await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=store)
        kept = []
        for number, member in enumerate((None, members[0])):
            if member is not None:
                member.kill()
            async with asyncio.timeout(120):
                for name in (f"{number}-{index}" for index in range(5)):
                    while True:
                        try:
                            await maps(made).create(named(name))
                        except StatusError as error:
                            if error.is_already_exists:
                                break  # an answer was lost, not the write
                            if error.code not in (503, 504):
                                raise
                        else:
                            break
                    kept.append(name)
        assert [item.metadata.name for item in (await maps(made).list()).items] == kept
        await made.close()


async def test_tls_with_client_certificates(tmp_path: Path) -> None:
    from cathedra.apiserver.authentication.pki import PKI

    pki = PKI(tmp_path / "pki", SystemClock().now())
    files = pki.tls_files(("127.0.0.1", "localhost"))
    pki.administrator()
    authority = str(files.client_authority)
    options = ("--cert-file", str(files.certificate), "--key-file", str(files.key), "--trusted-ca-file", authority)
    with running_etcd(tmp_path / "etcd", *options, "--client-cert-auth", scheme="https") as etcd:
        query = f"?cafile={authority}&certfile={tmp_path}/pki/admin.crt&keyfile={tmp_path}/pki/admin.key&prefix=/other"
        store = EtcdStorage(EtcdAddress.parse(etcd.url + query), clock=SystemClock())
        await store.load(lambda _: None)
        assert await store.write("pods/a/b", b"1", expected=0) > 0
        await store.close()
        plain = EtcdStorage(EtcdAddress.parse(etcd.url), clock=SystemClock())
        with pytest.raises(StoreUnavailable):
            await plain.load(lambda _: None)
        await plain.close()


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not holds():  # noqa: ASYNC110 – what is waited for happens in another process
            await asyncio.sleep(0.02)


async def test_servers_that_start_together_agree_on_what_every_cluster_has(etcd: Etcd | Kine) -> None:
    """Namespaces and roles are made by the server that comes first; the others find them."""

    async def start() -> APIServer:
        config = ServerConfig(gates=FeatureGates.for_release())
        return await APIServer.open(config, clock=SystemClock(), random=random.Random(1), store=storage(etcd))

    servers = await asyncio.gather(*(start() for _ in range(3)))
    listed = [await Client(of.transport(), clock=SystemClock()).resource(NAMESPACES).list() for of in servers]
    assert listed[0].items == listed[1].items == listed[2].items
    for of in servers:
        await of.close()


async def test_a_quiet_server_hears_from_time_to_time_how_far_the_store_is(tmp_path: Path) -> None:
    """etcd's progress notifications; bookmarks carry that revision to quiet watchers."""
    options = ("--experimental-watch-progress-notify-interval", "100ms")
    with running_etcd(tmp_path / "etcd", *options) as etcd:
        async with server(etcd) as made:
            revision = Peek(etcd).put("/another/client", b"x")
            await _until(lambda: made.revision >= revision)


async def test_a_key_that_is_not_kept_again_expires(tmp_path: Path) -> None:
    with running_etcd(tmp_path / "etcd") as etcd:
        store = storage(etcd)
        await store.load(lambda _: None)
        try:
            await store.keep("masterleases/192.0.2.1", b"a", 1)
            revision = await store.keep("masterleases/192.0.2.1", b"b", 3600)
            await store.keep("masterleases/192.0.2.2", b"c", 1)
            both = {"masterleases/192.0.2.1": b"b", "masterleases/192.0.2.2": b"c"}
            assert await store.values("masterleases/") == both
            async with asyncio.timeout(60), contextlib.aclosing(store.follow(revision + 1)) as stream:
                async for progress in stream:
                    if any(write.value is None for write in progress.writes):
                        break
            assert await store.values("masterleases/") == {"masterleases/192.0.2.1": b"b"}
            await store.write("masterleases/192.0.2.1", None, expected=revision)
            assert await store.values("masterleases/") == {}
        finally:
            await store.close()


def test_of_allocations_through_two_servers_at_one_moment_one_is_kept(tmp_path: Path) -> None:
    """On etcd alone: kine compares one key in a transaction."""
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "nodeName": "n", "devices": [{"name": "gpu-0"}]}
    gpus = from_dict(ResourceSlice, {"metadata": {"name": "s"}, "spec": spec})
    requests = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
    results = [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu-0"}]
    allocated = {"status": {"allocation": {"devices": {"results": results}}}}

    async def story(etcd: Etcd | Kine) -> None:
        async with AsyncExitStack() as stack:
            servers = [
                await APIServer.open(
                    ServerConfig(), clock=SystemClock(), random=random.Random(number), store=storage(etcd)
                )
                for number in range(2)
            ]
            for one in servers:
                stack.push_async_callback(one.close)
            clients = [Client(one.transport(), clock=SystemClock()) for one in servers]
            await clients[0].resource(RESOURCESLICES).create(gpus)
            claims = [one.resource(RESOURCECLAIMS, "default") for one in clients]
            for _ in range(10):
                for name in ("a", "b"):
                    body = {"metadata": {"name": name}, "spec": {"devices": requests}}
                    await claims[0].create(from_dict(ResourceClaim, body))
                merge = PatchType.MERGE
                writing = (
                    one.patch(name, merge, allocated, subresource="status")
                    for one, name in zip(claims, "ab", strict=True)
                )
                outcomes = await asyncio.gather(*writing, return_exceptions=True)
                refused = [one for one in outcomes if isinstance(one, StatusError)]
                assert len(refused) == 1
                assert "device d.example.com/p/gpu-0 is allocated to claim default/" in str(refused[0])
                for name in ("a", "b"):
                    await claims[0].delete(name)

    with running_etcd(tmp_path / "etcd") as etcd:
        asyncio.run(story(etcd))
