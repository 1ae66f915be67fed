"""Writes that share transactions: what is in one, and what each of its writes ends with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
import pytest

from cathedra._proto import etcd_pb2 as pb
from cathedra.apiserver.storage.etcd import EtcdAddress, EtcdStorage
from cathedra.apiserver.storage.etcd.groupcommit import deletion, put, transaction
from cathedra.apiserver.storage.protocol import StorageError, StoreUnavailable, Superseded
from cathedra.clock import LoopClock, run_virtual
from tests.unit.apiserver.storage.etcd.fakemember import Cluster


class _Channel:
    async def close(self, grace: object) -> None:
        """There is nothing to close."""


def virtual(cluster: Cluster, test: Callable[[EtcdStorage], Awaitable[None]]) -> None:
    async def run() -> None:
        store = EtcdStorage(EtcdAddress.parse("etcd://m0:1"), clock=LoopClock(asyncio.get_running_loop()))
        store._connection._channels["m0:1"] = (_Channel(), cluster.members["m0:1"])  # type: ignore[assignment]
        await store.load(lambda _: None)
        cluster.transactions.clear()
        await test(store)
        await store.close()

    run_virtual(run())


def refused(details: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> grpc.aio.AioRpcError:
    none = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(code, none, none, details)


def test_writes_of_one_turn_share_a_transaction_with_one_write_of_each_resource() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        keys = ("pods/a/1", "pods/a/2", "events/a/1", "resourceclaims/a/1", "events/a/2")
        revisions = await asyncio.gather(*(store.write(key, b"x", expected=0) for key in keys))
        assert len(cluster.transactions) == 2
        # Two events of one watch must differ in their revision, or a client that resumes after the first misses one.
        assert revisions[0] != revisions[1]
        assert revisions[2] != revisions[4]
        assert revisions[0] == revisions[2] == revisions[3]

    virtual(cluster, test)


def test_several_writes_of_a_resource_share_a_transaction_if_they_may_share_a_revision() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        store.shares_revisions = True
        keys = ("pods/a/1", "pods/a/2", "events/a/1", "pods/a/1")
        outcomes = await asyncio.gather(*(store.write(key, b"x", expected=0) for key in keys), return_exceptions=True)
        assert outcomes[0] == outcomes[1] == outcomes[2]
        # etcd takes no key twice in a transaction.
        assert isinstance(outcomes[3], Superseded)
        assert len(cluster.transactions) == 2

    virtual(cluster, test)


def test_a_write_that_loses_its_race_does_not_fail_the_others() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        first = await store.write("pods/a/1", b"x", expected=0)
        outcomes = await asyncio.gather(
            store.write("pods/a/1", b"y", expected=0),
            store.write("events/a/1", b"x", expected=0),
            store.write("nodes/n", None, expected=7),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], Superseded)
        assert outcomes[0].revision == first
        assert outcomes[1] == first + 1
        assert isinstance(outcomes[2], Superseded)
        assert len(cluster.transactions) == 2

    virtual(cluster, test)


def test_a_write_that_etcd_refuses_fails_alone() -> None:
    cluster = Cluster("m0:1")
    cluster.refuse = lambda request: (
        refused("etcdserver: request is too large") if b"huge" in str(request).encode() else None
    )

    async def test(store: EtcdStorage) -> None:
        outcomes = await asyncio.gather(
            store.write("pods/a/1", b"huge", expected=0),
            store.write("events/a/1", b"x", expected=0),
            return_exceptions=True,
        )
        assert isinstance(outcomes[0], StorageError)
        assert "request is too large" in str(outcomes[0])
        assert isinstance(outcomes[1], int)

    virtual(cluster, test)


def test_a_group_that_etcd_cannot_store_is_not_sent_again() -> None:
    cluster = Cluster("m0:1")
    cluster.refuse = lambda _: refused("mvcc: database space exceeded", grpc.StatusCode.RESOURCE_EXHAUSTED)

    async def test(store: EtcdStorage) -> None:
        writes = (store.write(f"{name}/a/1", b"x", expected=0) for name in ("pods", "events"))
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(outcome, StorageError) for outcome in outcomes)
        assert len(cluster.transactions) == 1

    refuse, cluster.refuse = cluster.refuse, lambda _: None

    async def full(store: EtcdStorage) -> None:
        cluster.refuse = refuse
        await test(store)

    virtual(cluster, full)


def test_large_values_do_not_share_a_transaction() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        values = {"pods": b"x" * 400_000, "events": b"x" * 400_000, "nodes": b"x"}
        await asyncio.gather(*(store.write(f"{name}/a/1", value, expected=0) for name, value in values.items()))
        assert sorted(len(request.success) for request in cluster.transactions) == [1, 2]

    virtual(cluster, test)


def test_of_a_group_whose_answer_was_lost_only_proven_creations_succeed() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        first = await store.write("nodes/n", b"1", expected=0)
        carried_out, cluster.transact = cluster.transact, lost  # type: ignore[method-assign]
        outcomes = await asyncio.gather(
            store.write("pods/a/1", b"x", expected=0),
            store.write("nodes/n", b"2", expected=first),
            return_exceptions=True,
        )
        cluster.transact = carried_out  # type: ignore[method-assign]
        assert outcomes[0] == cluster.revision
        assert isinstance(outcomes[1], StoreUnavailable)
        assert outcomes[1].unknown

    async def lost(request: object) -> object:
        await Cluster.transact(cluster, request)
        raise refused("recvmsg: Connection reset by peer", grpc.StatusCode.UNAVAILABLE)

    virtual(cluster, test)


def test_kine_gets_every_write_in_a_transaction_of_its_own() -> None:
    cluster = Cluster("m0:1", member_id=0)

    async def test(store: EtcdStorage) -> None:
        await asyncio.gather(*(store.write(f"{name}/a/1", b"x", expected=0) for name in ("pods", "events")))
        assert [len(request.compare) for request in cluster.transactions] == [1, 1]

    virtual(cluster, test)


def test_writes_gather_while_groups_are_under_way() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        store.shares_revisions = True
        writes = []
        for number in range(6):
            writes.append(store.write(f"pods/a/{number}", b"x", expected=0))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.gather(*writes)
        # Two groups are under way when the third pod is written, and the others wait for the first to end.
        assert [len(request.success) for request in cluster.transactions] == [1, 1, 4]

    virtual(cluster, test)


def test_no_group_is_sent_beside_a_large_one() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        store.shares_revisions = True
        writes = [store.write(f"pods/a/{number}", b"x", expected=0) for number in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writes += [store.write(f"nodes/{number}", b"x", expected=0) for number in range(80)]
        await asyncio.gather(*writes)
        assert [len(request.success) for request in cluster.transactions] == [20, 64, 16]

    virtual(cluster, test)


def test_closing_ends_writes_that_gather() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        cluster.hanging.add("m0:1")
        writes = [store.write(f"pods/a/{number}", b"x", expected=0) for number in range(6)]
        await asyncio.sleep(0.01)
        await store.close()
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)

    virtual(cluster, test)


@pytest.mark.parametrize("length", [0, 1, 127, 128, 16383, 16384, 1_500_000])
@pytest.mark.parametrize("revision", [0, 1, 127, 128, 2**40])
def test_transactions_have_protobuf_s_wire_form(length: int, revision: int) -> None:
    key, value = b"/registry/pods/a/\xc3\xbc", b"x" * length
    written = pb.RequestOp(request_put=pb.PutRequest(key=key, value=value, lease=revision))
    removed = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
    for change, operation in ((put(key, value, revision), written), (deletion(key), removed)):
        assert pb.TxnRequest.FromString(transaction(key, revision, change)) == pb.TxnRequest(
            compare=[pb.Compare(result="EQUAL", target="MOD", key=key, mod_revision=revision)],
            success=[operation],
            failure=[pb.RequestOp(request_range=pb.RangeRequest(key=key))],
        )


def test_a_fence_is_compared_and_written_in_the_transaction_of_the_write() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        first = await store.write_fenced("claims/a", b"x", expected=0, fences={"pool": 0})
        with pytest.raises(Superseded) as late:
            await store.write_fenced("claims/b", b"x", expected=0, fences={"pool": 0})
        second = await store.write_fenced("claims/b", b"x", expected=0, fences={"pool": first})
        with pytest.raises(Superseded) as later:
            await store.write_fenced("claims/a", b"y", expected=first, fences={"pool": first})
        # The highest revision, and not that of the claim alone: the next attempt needs the other server's allocation.
        assert later.value.revision == second > first
        assert late.value.revision >= first
        assert cluster.stored[b"/registry/pool"] == (second, b"")
        assert len(cluster.transactions) == 4

    virtual(cluster, test)


def test_a_write_whose_fence_was_removed_waits_for_the_removal() -> None:
    cluster = Cluster("m0:1")

    async def test(store: EtcdStorage) -> None:
        claim = await store.write_fenced("claims/a", b"x", expected=0, fences={"pool": 0})
        removed = await store.write("pool", None, expected=claim)
        with pytest.raises(Superseded) as late:
            await store.write_fenced("claims/a", b"y", expected=claim, fences={"pool": claim})
        # The revision of the claim alone has been seen, and the same comparison would be sent again at once.
        assert late.value.revision == removed

    virtual(cluster, test)


def test_kine_compares_no_fences() -> None:
    cluster = Cluster("m0:1", member_id=0)

    async def test(store: EtcdStorage) -> None:
        await store.write_fenced("claims/a", b"x", expected=0, fences={"pool": 7})
        assert [len(one.compare) for one in cluster.transactions] == [1]

    virtual(cluster, test)
