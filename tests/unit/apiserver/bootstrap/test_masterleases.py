"""Keys of API servers in etcd, byte for byte as kube-apiserver writes them."""

from __future__ import annotations

from collections.abc import Mapping

from cathedra.apiserver.bootstrap.clusterobjects import Address
from cathedra.apiserver.bootstrap.masterleases import SECONDS, MasterLeases, lease_value
from cathedra.apiserver.bootstrap.serverleases import ServerLeases
from cathedra.apiserver.storage.protocol import StorageError, Superseded
from tests.unit.apiserver.guarded import Guarded, guarded

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


def test_addresses_of_kube_apiservers_are_among_those_of_the_service() -> None:
    async def body(api: Guarded) -> None:
        store = Shared()
        store.found = {"masterleases/192.0.2.9": lease_value("192.0.2.9", 3)}
        api.server.context.registry.expiring = store
        leases = ServerLeases(api.server.context, Address("192.0.2.1", 6443))
        await leases.reconcile()
        assert leases.addresses() == [Address("192.0.2.1", 6443), Address("192.0.2.9", 6443)]
        await leases.end()
        assert set(store.found) == {"masterleases/192.0.2.9"}

    guarded(body)
