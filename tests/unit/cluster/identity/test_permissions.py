"""The rights of the API server's user at nodes."""

from __future__ import annotations

import asyncio
import random

import pytest

from cathedra.api.core.authorization_v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from cathedra.api.core.core_v1 import ResourceQuota
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.resource import DeviceClass
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.pki import KUBELET_CLIENT
from cathedra.client.client import Client
from cathedra.client.leaderelection import make_elector
from cathedra.client.resources import DEVICECLASSES, PODS, RESOURCEQUOTAS, RESOURCESLICES, SECRETS
from cathedra.client.transport import ResourceRef
from cathedra.cluster.identity.permissions import (
    SCHEDULER,
    controller_account,
    fabric_objects,
    install_driver_permissions,
    install_kubelet_permissions,
    install_scheduler_permissions,
)
from cathedra.driver import FabricController
from tests.running import beside, run_with
from tests.unit.apiserver.guarded import Guarded, guarded, refused
from tests.unit.driver.fabric.switched import NAME, Switch, allocate, bound, deallocate, told
from tests.unit.driver.world import World

REVIEWS = ResourceRef(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False, SubjectAccessReview
)


async def may(api: Guarded, verb: str, resource: str, subresource: str = "", node: str = "n1") -> bool:
    """Return the reviews of the API server's user by a node."""
    attributes = ResourceAttributes(verb=verb, version="v1", resource=resource, subresource=subresource, name=node)
    spec = SubjectAccessReviewSpec(user=KUBELET_CLIENT, resource_attributes=attributes)
    return (await api.node("n1").resource(REVIEWS).create(SubjectAccessReview(spec=spec))).status.allowed


@run_with(guarded)
async def test_a_node_is_told_that_the_api_server_may_do_everything_at_nodes(api: Guarded) -> None:
    assert not await may(api, "get", "nodes", "proxy")
    for _ in range(2):  # the second start finds it there
        await install_kubelet_permissions(api.admin)
    for subresource in ("proxy", "log", "metrics", "stats", "pods", "healthz", "configz"):
        for verb in ("get", "create"):
            assert await may(api, verb, "nodes", subresource), (verb, subresource)


@run_with(guarded)
async def test_beyond_nodes_it_may_nothing(api: Guarded) -> None:
    await install_kubelet_permissions(api.admin)
    for verb, resource, subresource in (
        ("list", "pods", ""),
        ("create", "pods", "exec"),
        ("get", "secrets", ""),
        ("update", "nodes", "status"),
        ("delete", "nodes", ""),
        ("impersonate", "users", ""),
    ):
        assert not await may(api, verb, resource, subresource), (verb, resource)
    await refused(api.of(KUBELET_CLIENT).resource(PODS, "default").list())


@run_with(guarded)
async def test_the_scheduler_may_read_quotas_and_nothing_more_of_them(api: Guarded) -> None:
    quotas = api.of(SCHEDULER.name).resource(RESOURCEQUOTAS)
    await refused(quotas.list())
    for _ in range(2):  # the second start finds it there
        await install_scheduler_permissions(api.admin)
    assert (await quotas.list()).items == ()
    quota = ResourceQuota(metadata=ObjectMeta(name="q", namespace="default"))
    await refused(api.of(SCHEDULER.name).resource(RESOURCEQUOTAS, "default").create(quota))


async def driver_may(api: Guarded, verb: str, driver: str) -> bool:
    """Return True if a driver may do that with all claims."""
    attributes = ResourceAttributes(verb=verb, group="resource.k8s.io", version="v1", resource="resourceclaims")
    user = f"system:serviceaccount:kube-system:{driver}"
    spec = SubjectAccessReviewSpec(user=user, resource_attributes=attributes)
    return (await api.admin.resource(REVIEWS).create(SubjectAccessReview(spec=spec))).status.allowed


@run_with(guarded)
async def test_only_a_driver_with_binding_conditions_watches_claims(api: Guarded) -> None:
    await install_driver_permissions(api.admin, "plain.example.com")
    await install_driver_permissions(api.admin, "binds.example.com", binds=True)
    for verb, plain in (("get", True), ("list", False), ("watch", False)):
        assert await driver_may(api, verb, "plain.example.com") is plain, verb
        assert await driver_may(api, verb, "binds.example.com"), verb


NAMESPACE = "kube-system"


async def granted(api: Guarded) -> Client:
    """The controller's client, after its permissions have been installed."""
    for ref, obj in fabric_objects(NAME, NAMESPACE):
        await api.admin.resource(ref, NAMESPACE if ref.namespaced else "").create(obj)
    await api.admin.resource(DEVICECLASSES).create(DeviceClass(metadata=ObjectMeta(name=NAME)))
    user = f"system:serviceaccount:{NAMESPACE}:{controller_account(NAME)}"
    return api.of(user, "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated")


@run_with(guarded)
async def test_its_account_may_do_all_that_it_does(api: Guarded) -> None:
    client = await granted(api)
    elector = make_elector(client, NAME, clock=api.clock, random=random.Random(1), namespace=NAMESPACE)
    switch = Switch()
    controller = FabricController(switch, client, elector=elector, owner_class=NAME)
    async with beside(controller.run()):
        world = World(api.server, api.clock)
        await asyncio.sleep(1)
        assert len((await api.admin.resource(RESOURCESLICES).list()).items) == 1
        await allocate(world, "c", "node-a", bound("gpu-0"))
        await asyncio.sleep(1)
        assert await told(world, "c", "gpu-0") == {"Attached": "True"}
        await deallocate(world, "c")
        await asyncio.sleep(1)
        assert (switch.ports, (await world.claim("c")).metadata.finalizers, switch.errors) == ({}, (), [])


@run_with(guarded)
async def test_it_reads_no_secrets_and_no_leases_of_others(api: Guarded) -> None:
    client = await granted(api)
    with pytest.raises(StatusError, match="forbidden"):
        await client.resource(SECRETS, NAMESPACE).list()
    elector = make_elector(client, "other", clock=api.clock, random=random.Random(1), namespace=NAMESPACE)
    async with beside(elector.run(asyncio.Event().wait)):
        await asyncio.sleep(60)
        assert not elector.leading
