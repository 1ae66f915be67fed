"""Kinds that servers have in different versions (docs/spec/api.md §1.3)."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Namespace, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.scheduling_v1alpha3 import PodGroup
from cathedra.api.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
from cathedra.api.scheme import GroupResource, GroupVersionKind
from cathedra.api.status import StatusError, not_found
from cathedra.api.struct import from_dict, replace
from cathedra.api.undecodable import UndecodableObject
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client.client import Client
from cathedra.client.informer import Informer
from cathedra.client.negotiation import NegotiatedTransport, OlderVersion
from cathedra.client.resources import DEVICETAINTRULES, NAMESPACES, PODGROUPS, PODS, RESOURCECLAIMS, RESOURCESLICES
from cathedra.client.transport import APICall, EventType
from cathedra.clock import LoopClock, run_virtual
from cathedra.kinds.served import all_definitions
from cathedra.releases import FeatureGates
from tests.running import run_with
from tests.unit.client.fake_transport import FakeTransport

GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True, "DRADeviceTaintRules": True}
OLD = ("scheduling.k8s.io/v1alpha2", "resource.k8s.io/v1beta2")


def on_old_server(
    body: Callable[[Client], Awaitable[None]],
    *versions: str,
    release: str = "1.36",
    overrides: Mapping[str, bool] = GATES,
) -> None:
    """A server of that release that also serves ``versions``."""

    async def main() -> None:
        clock = LoopClock(asyncio.get_running_loop())
        gates = FeatureGates.for_release(release, overrides)
        config = ServerConfig(
            release=release,
            gates=gates,
            definitions=all_definitions(gates),
            runtime_config=dict.fromkeys(versions, True),
        )
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        try:
            client = Client(server.transport(), clock=clock)
            await client.resource(NAMESPACES).create(Namespace(metadata=ObjectMeta(name="ns")))
            await body(client)
        finally:
            await server.close()

    run_virtual(main())


def group(name: str) -> PodGroup:
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "disruptionMode": {"single": {}},
        "resourceClaims": [{"name": "c", "resourceClaimName": "x"}],
    }
    return from_dict(PodGroup, {"metadata": {"name": name, "namespace": "ns"}, "spec": spec})


def rule(name: str) -> DeviceTaintRule:
    spec = {"deviceSelector": {"driver": "d"}, "taint": {"key": "k", "effect": "NoSchedule"}}
    return from_dict(DeviceTaintRule, {"metadata": {"name": name}, "spec": spec})


@run_with(lambda test: on_old_server(test, *OLD))
async def test_objects_of_an_older_version_are_read_and_written_as_the_newest(client: Client) -> None:
    groups = client.resource(PODGROUPS, "ns")
    made = await groups.create(group("g"))
    assert made.spec == group("g").spec
    assert (await groups.get("g")).spec == made.spec
    assert [one.spec for one in (await groups.list()).items] == [made.spec]
    status = {"resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}]}
    applied = await groups.apply("g", {"status": status}, "status")
    assert isinstance(applied, PodGroup)
    assert applied.status.resource_claim_statuses[0].resource_claim_name == "x"
    async with groups.watch(resource_version=made.metadata.resource_version) as events:
        event = await anext(aiter(events))
        assert (event.type, event.object.spec) == (EventType.MODIFIED, made.spec)
    assert isinstance(await groups.update(applied), PodGroup)
    await groups.delete("g")


@run_with(lambda test: on_old_server(test, *OLD))
async def test_a_kind_is_called_as_the_server_calls_it_once_that_is_known(client: Client) -> None:
    newest = GroupVersionKind("resource.k8s.io", "v1", "DeviceTaintRule")
    assert client.served_kind(newest) == newest
    await client.resource(DEVICETAINTRULES).create(rule("r"))
    assert client.served_kind(newest) == GroupVersionKind("resource.k8s.io", "v1beta2", "DeviceTaintRule")
    pods = GroupVersionKind("", "v1", "Pod")
    assert client.as_manager("m").served_kind(pods) == pods


@run_with(lambda test: on_old_server(test, "scheduling.k8s.io/v1alpha2"))
async def test_what_the_server_has_in_the_newest_version_is_not_converted_any_more(client: Client) -> None:
    negotiated = NegotiatedTransport(client.transport)
    assert negotiated.transport_of(NAMESPACES) is client.transport, "there is one version only"
    assert negotiated.transport_of(RESOURCECLAIMS) is negotiated, "not known yet"
    for ref in (RESOURCECLAIMS, PODGROUPS):
        await Client(negotiated, clock=client.clock).resource(ref, "ns").list()
    assert negotiated.transport_of(RESOURCECLAIMS) is client.transport
    assert negotiated.transport_of(PODGROUPS) is negotiated, "the server has an older version"


@run_with(lambda test: on_old_server(test, *OLD))
async def test_an_informer_follows_rules_in_the_version_that_there_is(client: Client) -> None:
    await client.resource(DEVICETAINTRULES).create(rule("r"))
    informer = Informer(client, DEVICETAINTRULES, clock=client.clock)
    running = asyncio.ensure_future(informer.run())
    await informer.wait_synced()
    assert informer.store.get("", "r") is not None
    running.cancel()


def test_a_kind_that_is_not_served_is_said_so_once(caplog: pytest.LogCaptureFixture) -> None:
    async def body(client: Client) -> None:
        informer = Informer(client, PODGROUPS, clock=client.clock)
        running = asyncio.ensure_future(informer.run())
        await informer.wait_synced()
        await client.clock.sleep(60)
        running.cancel()

    with caplog.at_level(logging.INFO):
        on_old_server(body)
    told = [record for record in caplog.records if "served in none" in record.getMessage()]
    assert [(record.levelno, record.getMessage()) for record in told] == [
        (
            logging.INFO,
            "podgroups.scheduling.k8s.io is served in none of v1beta1, v1alpha3, v1alpha2, and counted as empty until "
            "the API server is given one of them by --runtime-config scheduling.k8s.io/VERSION=true",
        )
    ]


def test_a_client_of_older_releases_around_another_client_asks_and_says_once(caplog: pytest.LogCaptureFixture) -> None:
    special = OlderVersion("v1alpha9", ResourceClaim)

    async def body(client: Client) -> None:
        outer = NegotiatedTransport(
            NegotiatedTransport(client.as_manager("m").transport),
            {("resource.k8s.io", "v1", "resourceclaims"): (special,)},
        )
        claims = Client(outer, clock=client.clock).as_manager("n").resource(RESOURCECLAIMS, "ns")
        for _ in range(2):
            with pytest.raises(StatusError):
                await claims.list()

    with caplog.at_level(logging.INFO):
        on_old_server(body, release="1.32", overrides={})
    (told,) = [record.getMessage() for record in caplog.records if "served in none" in record.getMessage()]
    assert told.startswith("resourceclaims.resource.k8s.io is served in none of v1, v1alpha9, v1beta2, v1beta1, ")


@pytest.mark.parametrize(
    ("release", "version"), [("1.32", "v1alpha3"), ("1.32", "v1beta1"), ("1.33", "v1beta2"), ("1.33", "v1beta1")]
)
def test_claims_and_slices_of_132_and_133_are_those_of_v1_here(release: str, version: str) -> None:
    exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 2}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}}
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": "d", "capacity": {"memory": {"value": "80Gi"}}, "attributes": {"model": {"string": "x"}}}]
    piece = {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, "nodeName": "n", "devices": devices}}

    async def body(client: Client) -> None:
        claims, slices = client.resource(RESOURCECLAIMS, "ns"), client.resource(RESOURCESLICES)
        made = await claims.create(from_dict(ResourceClaim, claim))
        assert made.spec == from_dict(ResourceClaim, claim).spec
        assert [one.spec for one in (await claims.list()).items] == [made.spec]
        await slices.create(from_dict(ResourceSlice, piece))
        assert (await slices.get("s")).spec == from_dict(ResourceSlice, piece).spec

    on_old_server(
        body,
        f"resource.k8s.io/{version}",
        release=release,
        overrides={"DynamicResourceAllocation": True},
    )


async def test_an_object_that_does_not_convert_is_left_out_alone() -> None:
    """As one that cannot be decoded: in a list, in a watch, and as an error where it is requested by name."""

    def upgrade(obj: Any) -> Any:
        if obj.metadata.name == "odd":
            raise KeyError("no such annotation")
        return replace(obj, metadata=replace(obj.metadata, labels={"converted": "yes"}))

    inner = FakeTransport()
    older = {("", "v1", "pods"): (OlderVersion("v0", Pod, upgrade),)}
    inner.failures.append(not_found(GroupResource("", "pods"), ""))  # v1 is not served
    transport = NegotiatedTransport(inner, older)
    for name in ("odd", "plain"):
        inner.objects["pods", "", name] = Pod(metadata=ObjectMeta(name=name, uid=name, resource_version="1"))
    page = await transport.call(APICall("list", PODS, ""))
    assert [pod.metadata.labels for pod in page.items] == [{"converted": "yes"}]
    assert [str(what) for what in page.undecodable] == ["Pod odd cannot be decoded: from v0: 'no such annotation'"]
    with pytest.raises(UndecodableObject, match="Pod odd cannot be decoded"):
        await transport.call(APICall("get", PODS, "", "odd"))
    async with transport.watch(APICall("watch", PODS, "")) as events:
        await inner._record(PODS, EventType.MODIFIED, inner.objects["pods", "", "odd"])
        event = await anext(events)
    assert (event.type, event.undecodable and event.undecodable.name) == (EventType.BOOKMARK, "odd")
