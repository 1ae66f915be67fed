"""Each server has a lease, and the Service leads to all that run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import MicroTime
from cathedra.apiserver.bootstrap.clusterobjects import Address, check_authority, cluster_info
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.apiserver.bootstrap.serverleases import (
    IDENTITY,
    LEASES,
    SECONDS,
    MasterLeases,
    RevisionSharing,
    ServerLeases,
    lease_value,
)
from cathedra.apiserver.storage.protocol import StorageError, Superseded
from cathedra.client.resources import LEASES as LEASES_REF
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded


def leases_of(api: Guarded, host: str, port: int = 6443) -> ServerLeases:
    return ServerLeases(api.server.context, Address(host, port))


def found(api: Guarded, resource: str, group: str = "") -> Any:
    return api.server.context.registry.find(GroupResource(group, resource), "default/kubernetes")


def names(api: Guarded) -> set[str]:
    return {entry.object.metadata.name for entry in api.server.context.registry.table(LEASES).entries()}


@run_with(guarded)
async def test_the_addresses_of_all_servers_are_in_one_object_and_none_overwrites_another(api: Guarded) -> None:
    one, other = leases_of(api, "192.0.2.1"), leases_of(api, "192.0.2.2")
    for _ in range(2):
        await one.reconcile()
        await other.reconcile()
    subset = found(api, "endpoints").subsets[0]
    assert [address.ip for address in subset.addresses] == ["192.0.2.1", "192.0.2.2"]
    piece = found(api, "endpointslices", "discovery.k8s.io")
    assert [endpoint.addresses for endpoint in piece.endpoints] == [("192.0.2.1",), ("192.0.2.2",)]
    version = found(api, "endpoints").metadata.resource_version
    await asyncio.sleep(10)
    await one.reconcile()
    await other.reconcile()
    assert found(api, "endpoints").metadata.resource_version == version


@run_with(guarded)
async def test_a_server_that_renews_no_more_is_no_address_after_half_a_minute(api: Guarded) -> None:
    one, other = leases_of(api, "192.0.2.1"), leases_of(api, "192.0.2.2")
    await other.reconcile()
    task = asyncio.create_task(one.run())
    await asyncio.sleep(25)
    assert len(one.addresses()) == 2
    await asyncio.sleep(20)
    assert [address.ip for address in found(api, "endpoints").subsets[0].addresses] == ["192.0.2.1"]
    assert other.name in names(api)
    await asyncio.sleep(3700)
    assert names(api) == {one.name}
    task.cancel()


@run_with(guarded)
async def test_a_server_that_stops_takes_its_lease_along(api: Guarded) -> None:
    one, other = leases_of(api, "192.0.2.1"), leases_of(api, "192.0.2.1", 7443)
    await one.reconcile()
    await other.reconcile()
    assert [subset.ports[0].port for subset in found(api, "endpoints").subsets] == [6443, 7443]
    await other.end()
    await one.reconcile()
    assert [subset.ports[0].port for subset in found(api, "endpoints").subsets] == [6443]


@run_with(guarded)
async def test_a_lease_is_kubernetes_own_and_has_the_address(api: Guarded) -> None:
    one = leases_of(api, "2001:db8::1")
    await one.reconcile()
    lease = await api.admin.resource(LEASES_REF, "kube-system").get(one.name)
    assert lease.metadata.labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
    assert lease.metadata.annotations == {"cathedra.dev/api-server": "[2001:db8::1]:6443"}
    assert lease.spec.lease_duration_seconds == 3600
    assert str(lease.spec.holder_identity).startswith(f"{one.name}_")
    assert one.addresses() == [Address("2001:db8::1", 6443)]


@run_with(guarded)
async def test_the_public_address_is_that_of_any_server_that_runs(api: Guarded) -> None:
    context = api.server.context
    one, other = leases_of(api, "192.0.2.1"), leases_of(api, "192.0.2.2")
    await one.reconcile()
    await other.reconcile()
    first, second = (
        ObjectKeeper(context, list(cluster_info(f"https://{host}:6443", b"PEM", leases.urls)))
        for host, leases in (("192.0.2.1", one), ("192.0.2.2", other))
    )
    await first.reconcile()
    await second.reconcile()
    config = context.registry.find(GroupResource("", "configmaps"), "kube-public/cluster-info")
    assert "server: https://192.0.2.1:6443" in config.data["kubeconfig"]
    await one.end()
    await second.reconcile()
    config = context.registry.find(GroupResource("", "configmaps"), "kube-public/cluster-info")
    assert "server: https://192.0.2.2:6443" in config.data["kubeconfig"]


@run_with(guarded)
async def test_another_authority_is_refused_on_a_shared_store(api: Guarded) -> None:
    registry = api.server.context.registry
    check_authority(registry, b"PEM", Path("pki"))
    await ObjectKeeper(api.server.context, list(cluster_info("https://192.0.2.1:6443", b"PEM"))).reconcile()
    check_authority(registry, b"another", Path("pki"))
    registry.shared = True
    check_authority(registry, b"PEM", Path("pki"))
    with pytest.raises(StorageError, match="another certificate authority than pki: copy the folder pki"):
        check_authority(registry, b"another", Path("pki"))


@run_with(guarded)
async def test_beside_a_kube_apiserver_no_writes_of_a_resource_share_a_revision(
    api: Guarded, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, decided = api.server.context.registry, list[bool]()
    monkeypatch.setattr(registry, "share_revisions", decided.append)
    RevisionSharing(registry, api.clock).start()
    await leases_of(api, "192.0.2.1").reconcile()
    assert decided[-1] is True
    leases = api.admin.resource(LEASES_REF, "kube-system")
    spec = LeaseSpec(renew_time=MicroTime(api.clock.now()), lease_duration_seconds=3600, holder_identity="x")
    metadata = ObjectMeta(name="apiserver-foreign", labels={IDENTITY: "kube-apiserver"})
    await leases.create(Lease(metadata=metadata, spec=spec))
    assert decided[-1] is False
    await leases.delete("apiserver-foreign")
    assert decided[-1] is True


# Keys of API servers in etcd, byte for byte as kube-apiserver writes them.

# Metadata of an object without any: Kubernetes' encoder writes empty texts and an empty creation time. Generation 7.
METADATA = bytes.fromhex("0a00 1200 1a00 2200 2a00 3200 3807 4200")
ADDRESS = b"\x0a\x09192.0.2.1\x1a\x00"
SUBSET = b"\x0a" + bytes((len(ADDRESS),)) + ADDRESS
ENDPOINTS = b"\x0a" + bytes((len(METADATA),)) + METADATA + b"\x12" + bytes((len(SUBSET),)) + SUBSET
TYPE = b"\x0a\x02v1\x12\x09Endpoints"
STORED = (
    b"k8s\x00\x0a" + bytes((len(TYPE),)) + TYPE + b"\x12" + bytes((len(ENDPOINTS),)) + ENDPOINTS + b"\x1a\x00\x22\x00"
)
"""The value of the key masterleases/192.0.2.1 after kube-apiserver has written it for the seventh time."""


class Shared:
    """A store with expiring keys."""

    def __init__(self) -> None:
        self.found: dict[str, bytes] = {}
        self.revision = 0
        self.seconds = 0
        self.problem = ""

    async def keep(self, key: str, value: bytes, seconds: int) -> int:
        self.found[key], self.seconds = value, seconds
        self.revision += 1
        return self.revision

    async def values(self, prefix: str) -> Mapping[str, bytes]:
        if self.problem:
            raise StorageError(self.problem)
        return {key: value for key, value in self.found.items() if key.startswith(prefix)}

    async def write(self, key: str, value: bytes | None, *, expected: int) -> int:
        if expected != self.revision:
            raise Superseded(self.revision)
        assert value is None
        del self.found[key]
        return self.revision + 1


def test_a_value_has_kubernetes_own_bytes() -> None:
    assert lease_value("192.0.2.1", 7) == STORED


async def test_a_key_of_a_kube_apiserver_is_read_and_renewed_in_its_form() -> None:
    store = Shared()
    store.found = {"masterleases/192.0.2.1": STORED, "masterleases/192.0.2.2": lease_value("192.0.2.2", 1)}
    leases = MasterLeases(store, "192.0.2.1")
    await leases.renew()
    assert leases.hosts == {"192.0.2.1", "192.0.2.2"}
    assert store.found["masterleases/192.0.2.1"] == lease_value("192.0.2.1", 8)
    assert store.seconds == SECONDS


async def test_a_server_that_stops_removes_its_key_unless_another_holds_it() -> None:
    store = Shared()
    leases = MasterLeases(store, "192.0.2.1")
    await leases.renew()
    await leases.end()
    assert store.found == {}
    other = MasterLeases(store, "192.0.2.1")
    await leases.renew()
    await other.renew()
    await leases.end()
    assert set(store.found) == {"masterleases/192.0.2.1"}


async def test_keys_that_cannot_be_read_and_a_store_without_leases_are_no_obstacle() -> None:
    store = Shared()
    store.found = {"masterleases/x": b"k8s\x00\xff", "masterleases/y": b"{", "masterleases/z": b'{"subsets": []}'}
    leases = MasterLeases(store, "192.0.2.1")
    await leases.renew()
    assert leases.hosts == {"192.0.2.1"}
    store.problem = "unknown service etcdserverpb.Lease"
    await leases.renew()
    assert leases.hosts == {"192.0.2.1"}


@run_with(guarded)
async def test_addresses_of_kube_apiservers_are_among_those_of_the_service(api: Guarded) -> None:
    store = Shared()
    store.found = {"masterleases/192.0.2.9": lease_value("192.0.2.9", 3)}
    api.server.context.registry.expiring = store
    leases = ServerLeases(api.server.context, Address("192.0.2.1", 6443))
    await leases.reconcile()
    assert leases.addresses() == [Address("192.0.2.1", 6443), Address("192.0.2.9", 6443)]
    await leases.end()
    assert set(store.found) == {"masterleases/192.0.2.9"}
