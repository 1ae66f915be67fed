"""Quotas: what is charged to them, when, and what they refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cathedra.api.core.core_v1 import (
    ConfigMap,
    Container,
    ContainerExtendedResourceRequest,
    Pod,
    PodExtendedResourceClaimStatus,
    PodSpec,
    ResourceQuota,
    ResourceQuotaSpec,
    ResourceRequirements,
    Service,
    ServicePort,
    ServiceSpec,
)
from cathedra.api.core.meta_v1 import ObjectMeta, OwnerReference
from cathedra.api.quantity import Quantity
from cathedra.api.resource import DeviceClass, DeviceClassSpec
from cathedra.api.status import StatusError
from cathedra.api.struct import replace
from cathedra.apiserver.registry.registry import Registry, WriteConflict
from cathedra.client.resources import CONFIGMAPS, DEVICECLASSES, PODS, RESOURCECLAIMS, RESOURCEQUOTAS, SERVICES
from tests.running import run_with
from tests.unit.apiserver.guarded import Guarded, claim, guarded, refused

DEVICES = "gpu.deviceclass.resource.k8s.io/devices"


async def limit(api: Guarded, limits: dict[str, Quantity], *, scopes: tuple[str, ...] = (), name: str = "q") -> None:
    """Create a quota of which nothing is used yet."""
    quotas = api.admin.resource(RESOURCEQUOTAS, "default")
    spec = ResourceQuotaSpec(hard=limits, scopes=scopes)
    made = await quotas.create(ResourceQuota(metadata=ObjectMeta(name=name), spec=spec))
    status = replace(made.status, hard=limits, used=dict.fromkeys(limits, Quantity("0")))
    await quotas.update_status(replace(made, status=status))


async def used(api: Guarded, name: str = "q") -> dict[str, str]:
    quota = await api.admin.resource(RESOURCEQUOTAS, "default").get(name)
    return {name: str(amount) for name, amount in quota.status.used.items()}


def pod_of(name: str, **requests: str) -> Pod:
    amounts = {key.replace("__", "/").replace("_", "."): Quantity(value) for key, value in requests.items()}
    resources = ResourceRequirements(requests=amounts, limits=amounts)
    container = Container(name="c", image="i", resources=resources)
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,)))


@run_with(guarded)
async def test_claims_are_charged_by_device_and_refused_beyond(api: Guarded) -> None:
    await limit(api, {DEVICES: Quantity("3")})
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    await claims.create(claim("a", count=2))
    message = await refused(claims.create(claim("b", count=2)))
    assert message == (
        'resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, '
        f"requested: {DEVICES}=2, used: {DEVICES}=2, limited: {DEVICES}=3"
    )
    assert await used(api) == {DEVICES: "2"}


@run_with(guarded)
async def test_two_at_once_cannot_both_have_the_last_device(api: Guarded) -> None:
    await limit(api, {DEVICES: Quantity("1")})
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    outcomes = await asyncio.gather(*(claims.create(claim(name)) for name in "abc"), return_exceptions=True)
    refusals = [one for one in outcomes if isinstance(one, StatusError)]
    assert len(refusals) == 2
    assert await used(api) == {DEVICES: "1"}


def test_a_quota_is_charged_once_if_another_one_has_to_be_charged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    put, conflicts = Registry.put, ["default/r"]

    async def conflicting(self: Registry, table: Any, key: str, *rest: Any, **options: Any) -> Any:
        if key in conflicts:
            conflicts.remove(key)
            raise WriteConflict
        return await put(self, table, key, *rest, **options)

    async def body(api: Guarded) -> None:
        await limit(api, {DEVICES: Quantity("2")})
        await limit(api, {DEVICES: Quantity("2")}, name="r")
        monkeypatch.setattr(Registry, "put", conflicting)
        await api.admin.resource(RESOURCECLAIMS, "default").create(claim("a"))
        assert not conflicts
        assert await used(api) == await used(api, "r") == {DEVICES: "1"}

    guarded(body)


@run_with(guarded)
async def test_a_quota_that_was_never_counted_refuses(api: Guarded) -> None:
    limits = {"count/configmaps": Quantity("5")}
    quotas = api.admin.resource(RESOURCEQUOTAS, "default")
    quota = ResourceQuota(metadata=ObjectMeta(name="q"), spec=ResourceQuotaSpec(hard=limits))
    made = await quotas.create(quota)
    await quotas.update_status(replace(made, status=replace(made.status, hard=limits)))
    maps = api.admin.resource(CONFIGMAPS, "default")
    message = await refused(maps.create(ConfigMap(metadata=ObjectMeta(name="a"))))
    assert message.endswith("status unknown for quota: q, resources: count/configmaps")


@run_with(guarded)
async def test_a_dry_run_is_refused_but_not_charged(api: Guarded) -> None:
    await limit(api, {DEVICES: Quantity("1")})
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    await claims.create(claim("a"), dry_run=True)
    assert await used(api) == {DEVICES: "0"}
    await refused(claims.create(claim("a", count=2), dry_run=True))


@run_with(guarded)
async def test_pods_must_state_what_a_quota_limits(api: Guarded) -> None:
    await limit(api, {"requests.cpu": Quantity("2")})
    pods = api.admin.resource(PODS, "default")
    message = await refused(pods.create(pod_of("a", memory="1Gi")))
    assert message == 'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: c'
    await pods.create(pod_of("a", cpu="1500m"))
    assert await used(api) == {"requests.cpu": "1500m"}
    await refused(pods.create(pod_of("b", cpu="1")))


@pytest.mark.parametrize(("scope", "charged"), [("BestEffort", "0"), ("NotBestEffort", "1"), ("Terminating", "0")])
@run_with(guarded)
async def test_scopes_choose_the_pods_that_are_charged(api: Guarded, *, scope: str, charged: str) -> None:
    await limit(api, {"pods": Quantity("5")}, scopes=(scope,))
    await api.admin.resource(PODS, "default").create(pod_of("a", cpu="1"))
    assert await used(api) == {"pods": charged}


@run_with(guarded)
async def test_a_claim_for_a_pods_extended_resource_is_not_charged_twice(api: Guarded) -> None:
    implicit = "requests.deviceclass.resource.kubernetes.io/gpu"
    await api.admin.resource(DEVICECLASSES).create(
        DeviceClass(metadata=ObjectMeta(name="gpu"), spec=DeviceClassSpec(extended_resource_name="example.com/gpu"))
    )
    limits = {implicit: Quantity("9"), "requests.example.com/gpu": Quantity("9"), DEVICES: Quantity("9")}
    await limit(api, limits)
    pods = api.admin.resource(PODS, "default")
    pod = await pods.create(pod_of("p", example_com__gpu="2"))
    owner = OwnerReference(api_version="v1", kind="Pod", name="p", uid=pod.metadata.uid, controller=True)
    special: Any = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "owner_references": (owner,),
    }
    claims = api.admin.resource(RESOURCECLAIMS, "default")
    await claims.create(claim("c", count=2, **special))
    assert await used(api) == {DEVICES: "2", implicit: "2", "requests.example.com/gpu": "2"}
    mapping = ContainerExtendedResourceRequest("c", "example.com/gpu", "container-0-request-0")
    chosen = PodExtendedResourceClaimStatus(resource_claim_name="c", request_mappings=(mapping,))
    status = replace(pod.status, extended_resource_claim_status=chosen)
    await pods.update_status(replace(pod, status=status))
    await claims.create(claim("d", count=1, **special))
    assert await used(api) == {DEVICES: "3", implicit: "3", "requests.example.com/gpu": "3"}


async def resize(api: Guarded, name: str, cpu: str) -> None:
    pods = api.admin.resource(PODS, "default")
    made = await pods.get(name)
    container = made.spec.containers[0]
    amounts = {"cpu": Quantity(cpu)}
    container = replace(container, resources=ResourceRequirements(requests=amounts, limits=amounts))
    await pods.update(replace(made, spec=replace(made.spec, containers=(container,))), subresource="resize")


@run_with(guarded)
async def test_a_pod_that_grows_in_place_is_charged_what_it_gains(api: Guarded) -> None:
    await limit(api, {"requests.cpu": Quantity("4"), "pods": Quantity("5")})
    await api.admin.resource(PODS, "default").create(pod_of("a", cpu="1"))
    await resize(api, "a", "3")
    assert await used(api) == {"pods": "1", "requests.cpu": "3"}
    message = await refused(resize(api, "a", "5"))
    assert message == (
        'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=3, '
        "limited: requests.cpu=4"
    )


@run_with(guarded)
async def test_a_pod_that_is_to_shrink_in_place_gives_nothing_back_at_once(api: Guarded) -> None:
    await limit(api, {"requests.cpu": Quantity("4")})
    await api.admin.resource(PODS, "default").create(pod_of("a", cpu="3"))
    await resize(api, "a", "1")
    assert await used(api) == {"requests.cpu": "3"}


@run_with(guarded)
async def test_a_deadline_charges_a_pod_to_the_quota_of_terminating_pods(api: Guarded) -> None:
    await limit(api, {"requests.cpu": Quantity("4")}, scopes=("Terminating",))
    pods = api.admin.resource(PODS, "default")
    made = await pods.create(pod_of("a", cpu="3"))
    assert await used(api) == {"requests.cpu": "0"}
    await pods.update(replace(made, spec=replace(made.spec, active_deadline_seconds=60)))
    assert await used(api) == {"requests.cpu": "3"}


@run_with(guarded)
async def test_a_service_whose_type_changes_is_charged_for_its_ports(api: Guarded) -> None:
    await limit(api, {"services.nodeports": Quantity("1")})
    services = api.admin.resource(SERVICES, "default")
    ports = (ServicePort(name="a", port=80), ServicePort(name="b", port=81))
    made = await services.create(Service(metadata=ObjectMeta(name="s"), spec=ServiceSpec(ports=ports)))
    message = await refused(services.update(replace(made, spec=replace(made.spec, type="NodePort"))))
    assert message == (
        'services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, '
        "used: services.nodeports=0, limited: services.nodeports=1"
    )
