"""The server shows where it is and whose certificates it accepts, and keeps that true."""

from __future__ import annotations

from typing import Any

from cathedra.api.scheme import GroupResource
from cathedra.apiserver.bootstrap.clusterobjects import (
    Address,
    authentication_info,
    kubernetes_endpoints,
    kubernetes_service,
)
from cathedra.apiserver.bootstrap.keeping import INTERVAL, KeptObject, ObjectKeeper
from cathedra.client.resources import CONFIGMAPS
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, guarded

AUTHORITY = b"-----BEGIN CERTIFICATE-----\n"


def kept() -> list[KeptObject]:
    return [
        kubernetes_service(6443),
        *kubernetes_endpoints([Address("192.0.2.7", 6443)]),
        authentication_info(AUTHORITY, b"front"),
    ]


def found(api: Guarded, resource: str, key: str, group: str = "") -> Any:
    return api.server.context.registry.find(GroupResource(group, resource), key)


@run_with(guarded)
async def test_service_endpoints_and_slice_lead_to_the_server(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, kept()).reconcile()
    service = found(api, "services", "default/kubernetes")
    assert service.spec.cluster_ip == "10.0.0.1"
    assert [(port.name, port.port, port.target_port) for port in service.spec.ports] == [("https", 443, 6443)]
    assert service.metadata.labels == {"component": "apiserver", "provider": "kubernetes"}
    subset = found(api, "endpoints", "default/kubernetes").subsets[0]
    assert (subset.addresses[0].ip, subset.ports[0].port) == ("192.0.2.7", 6443)
    piece = found(api, "endpointslices", "default/kubernetes", "discovery.k8s.io")
    assert piece.endpoints[0].addresses == ("192.0.2.7",)
    assert piece.metadata.labels["kubernetes.io/service-name"] == "kubernetes"


@run_with(guarded)
async def test_what_was_deleted_or_changed_is_back_at_the_next_look(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, kept())
    await keeper.reconcile()
    maps = api.admin.resource(CONFIGMAPS, "kube-system")
    await maps.delete("extension-apiserver-authentication")
    await keeper.reconcile()
    first = await maps.get("extension-apiserver-authentication")
    assert first.data["client-ca-file"] == AUTHORITY.decode()
    assert first.data["requestheader-client-ca-file"] == "front"
    assert first.data["requestheader-allowed-names"] == '["front-proxy-client"]'
    await ObjectKeeper(api.server.context, [authentication_info(b"another", b"front")]).reconcile()
    assert (await maps.get("extension-apiserver-authentication")).data["client-ca-file"] == "another"


@run_with(guarded)
async def test_looks_come_every_ten_seconds_and_write_nothing_that_is_right(api: Guarded) -> None:
    keeper = ObjectKeeper(api.server.context, kept())
    await keeper.reconcile()
    before = api.server.revision
    await keeper.reconcile()
    assert api.server.revision == before
    assert INTERVAL == 10.0


@run_with(guarded)
async def test_scheduler_and_controller_manager_may_read_the_authentication_info(api: Guarded) -> None:
    await ObjectKeeper(api.server.context, kept()).reconcile()
    for user in ("system:kube-scheduler", "system:kube-controller-manager"):
        seen = await api.of(user).resource(CONFIGMAPS, "kube-system").get("extension-apiserver-authentication")
        assert seen.data["client-ca-file"] == AUTHORITY.decode()
