"""Each server has a lease, and the Service leads to all that run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.coordination_v1 import Lease, LeaseSpec
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.scheme import GroupResource
from cathedra.api.struct import MicroTime
from cathedra.apiserver.bootstrap.clusterobjects import Address, check_authority, cluster_info
from cathedra.apiserver.bootstrap.keeping import ObjectKeeper
from cathedra.apiserver.bootstrap.serverleases import IDENTITY, LEASES, RevisionSharing, ServerLeases
from cathedra.apiserver.storage.protocol import StorageError
from cathedra.client.resources import LEASES as LEASES_REF
from tests.unit.apiserver.guarded import Guarded, guarded


def leases_of(api: Guarded, host: str, port: int = 6443) -> ServerLeases:
    return ServerLeases(api.server.context, Address(host, port))


def found(api: Guarded, resource: str, group: str = "") -> Any:
    return api.server.context.registry.find(GroupResource(group, resource), "default/kubernetes")


def names(api: Guarded) -> set[str]:
    return {entry.object.metadata.name for entry in api.server.context.registry.table(LEASES).entries()}


def test_the_addresses_of_all_servers_are_in_one_object_and_none_overwrites_another() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


def test_a_server_that_renews_no_more_is_no_address_after_half_a_minute() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


def test_a_server_that_stops_takes_its_lease_along() -> None:
    async def body(api: Guarded) -> None:
        one, other = leases_of(api, "192.0.2.1"), leases_of(api, "192.0.2.1", 7443)
        await one.reconcile()
        await other.reconcile()
        assert [subset.ports[0].port for subset in found(api, "endpoints").subsets] == [6443, 7443]
        await other.end()
        await one.reconcile()
        assert [subset.ports[0].port for subset in found(api, "endpoints").subsets] == [6443]

    guarded(body)


def test_a_lease_is_kubernetes_own_and_has_the_address() -> None:
    async def body(api: Guarded) -> None:
        one = leases_of(api, "2001:db8::1")
        await one.reconcile()
        lease = await api.admin.resource(LEASES_REF, "kube-system").get(one.name)
        assert lease.metadata.labels["apiserver.kubernetes.io/identity"] == "kube-apiserver"
        assert lease.metadata.annotations == {"cathedra.dev/api-server": "[2001:db8::1]:6443"}
        assert lease.spec.lease_duration_seconds == 3600
        assert str(lease.spec.holder_identity).startswith(f"{one.name}_")
        assert one.addresses() == [Address("2001:db8::1", 6443)]

    guarded(body)


def test_the_public_address_is_that_of_any_server_that_runs() -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)


def test_another_authority_is_refused_on_a_shared_store() -> None:
    async def body(api: Guarded) -> None:
        registry = api.server.context.registry
        check_authority(registry, b"PEM", Path("pki"))
        await ObjectKeeper(api.server.context, list(cluster_info("https://192.0.2.1:6443", b"PEM"))).reconcile()
        check_authority(registry, b"another", Path("pki"))
        registry.shared = True
        check_authority(registry, b"PEM", Path("pki"))
        with pytest.raises(StorageError, match="another certificate authority than pki: copy the folder pki"):
            check_authority(registry, b"another", Path("pki"))

    guarded(body)


def test_beside_a_kube_apiserver_no_writes_of_a_resource_share_a_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(api: Guarded) -> None:
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

    guarded(body)
