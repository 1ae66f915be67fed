"""A server with roles, nodes and all plugins, in virtual time; and small builders of what they decide about."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cathedra.api.core.core_v1 import Container, Node, Pod, PodSpec, ServiceAccount
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from cathedra.api.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.apiserver.config import ServerConfig
from cathedra.apiserver.server import APIServer
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.clock import LoopClock, run_virtual
from cathedra.cluster.parts.generations import generation_of
from cathedra.releases import FeatureGates

RBAC_GROUP = "rbac.authorization.k8s.io"


class Guarded:
    """The server, and clients of it."""

    def __init__(self, server: APIServer, clock: LoopClock) -> None:
        self.server = server
        self.clock = clock
        self.admin = self.of("system:admin", "system:masters")

    def of(self, user: str, *groups: str, extra: Mapping[str, tuple[str, ...]] | None = None) -> Client:
        """A client of that user."""
        return Client(self.server.transport_of(UserInfo(user, groups, extra=extra or {})), clock=self.clock)

    def node(self, name: str) -> Client:
        """A client of that node's agent."""
        return self.of(f"system:node:{name}", "system:nodes")

    async def role(self, name: str, *rules: PolicyRule, namespace: str = "") -> None:
        """A role, in the cluster or in a namespace."""
        metadata = ObjectMeta(name=name, namespace=namespace)
        if namespace:
            await self.admin.resource(resources.ROLES, namespace).create(Role(metadata=metadata, rules=rules))
        else:
            await self.admin.resource(resources.CLUSTERROLES).create(ClusterRole(metadata=metadata, rules=rules))

    async def bind(self, role: str, subject: Subject, *, namespace: str = "", kind: str = "ClusterRole") -> None:
        """A binding, in the cluster or in a namespace, named like the role."""
        ref = RoleRef(api_group=RBAC_GROUP, kind=kind, name=role)
        metadata = ObjectMeta(name=role, namespace=namespace)
        if namespace:
            binding = RoleBinding(metadata=metadata, subjects=(subject,), role_ref=ref)
            await self.admin.resource(resources.ROLEBINDINGS, namespace).create(binding)
        else:
            whole = ClusterRoleBinding(metadata=metadata, subjects=(subject,), role_ref=ref)
            await self.admin.resource(resources.CLUSTERROLEBINDINGS).create(whole)


def guarded(
    body: Callable[[Guarded], Awaitable[Any]],
    *,
    gates: Mapping[str, bool] | None = None,
    serve: tuple[str, ...] = (),
    audit_log: Path | None = None,
    release: str = "1.37",
) -> Any:
    """Run ``body`` with a server of its own; ``serve`` are versions served besides the usual."""
    opened = FeatureGates.for_release(release, gates or {})

    async def main() -> Any:
        clock = LoopClock(asyncio.get_running_loop())
        config = ServerConfig(
            release=release,
            gates=opened,
            definitions=generation_of(opened).definitions,
            authorization=True,
            runtime_config=dict.fromkeys(serve, True),
            audit_log=audit_log,
        )
        server = await APIServer.open(config, clock=clock, random=random.Random(1))
        try:
            return await body(Guarded(server, clock))
        finally:
            await server.close()

    return run_virtual(main())


async def refused(attempt: Awaitable[Any], code: int = 403) -> str:
    """The message with which an attempt was refused."""
    with pytest.raises(StatusError) as caught:
        await attempt
    assert caught.value.code == code, caught.value
    return caught.value.status.message


def rule(verbs: str, resources_: str, group: str = "", names: str = "") -> PolicyRule:
    """A rule from words."""
    return PolicyRule(
        verbs=tuple(verbs.split()),
        api_groups=(group,),
        resources=tuple(resources_.split()),
        resource_names=tuple(names.split()),
    )


def user(name: str) -> Subject:
    """A user as a binding names him."""
    return Subject(kind="User", api_group=RBAC_GROUP, name=name)


def account(name: str, namespace: str = "") -> Subject:
    """A service account as a binding names it."""
    return Subject(kind="ServiceAccount", name=name, namespace=namespace)


def service_account(name: str, namespace: str = "default") -> ServiceAccount:
    """A service account."""
    return ServiceAccount(metadata=ObjectMeta(name=name, namespace=namespace))


def node(name: str) -> Node:
    """A node."""
    return Node(metadata=ObjectMeta(name=name))


def pod(name: str, on: str = "", **spec: Any) -> Pod:
    """A pod, on a node if one is given."""
    container = Container(name="c", image="i")
    return Pod(metadata=ObjectMeta(name=name), spec=PodSpec(containers=(container,), node_name=on, **spec))


def claim(name: str, device_class: str = "gpu", count: int = 1, **metadata: Any) -> ResourceClaim:
    """A claim of some devices of a class."""
    exact = ExactDeviceRequest(device_class_name=device_class, count=count)
    devices = DeviceClaim(requests=(DeviceRequest(name="r", exactly=exact),))
    return ResourceClaim(metadata=ObjectMeta(name=name, **metadata), spec=ResourceClaimSpec(devices=devices))


def resource_slice(name: str, on: str = "", **spec: Any) -> ResourceSlice:
    """A slice of a node's devices, or of all nodes'."""
    pool = ResourcePool(name=on or "everywhere", generation=1, resource_slice_count=1)
    where: dict[str, Any] = {"node_name": on} if on else {"all_nodes": True}
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(driver="gpu.example.com", pool=pool, **where, **spec),
    )
