"""What the controller of a fabric driver may do: all slices of the cluster, the status of any claim, its own lease.

It is another account than the one of the driver's nodes, which may write slices of their own node alone
(docs/spec/driver-sdk.md §14 and §15; docs/spec/api.md §B.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from cathedra.client import resources
from cathedra.client.transport import ResourceRef

__all__ = ["controller_account", "fabric_objects"]

_RBAC: Final = "rbac.authorization.k8s.io"
_DRA: Final = "resource.k8s.io"
_READ: Final = ("get", "list", "watch")


def controller_account(driver: str) -> str:
    """The service account of the driver's controller."""
    return f"{driver}-controller"


def fabric_objects(driver: str, namespace: str) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """Account, roles and bindings of the controller of ``driver``, whose pods are in ``namespace``."""
    name = controller_account(driver)
    metadata, local = ObjectMeta(name=name), ObjectMeta(name=name, namespace=namespace)
    account = Subject(kind="ServiceAccount", name=name, namespace=namespace)
    yield resources.SERVICEACCOUNTS, ServiceAccount(metadata=local)
    yield resources.CLUSTERROLES, ClusterRole(metadata=metadata, rules=_rules(driver))
    everywhere = RoleRef(api_group=_RBAC, kind="ClusterRole", name=name)
    yield (
        resources.CLUSTERROLEBINDINGS,
        ClusterRoleBinding(metadata=metadata, subjects=(account,), role_ref=everywhere),
    )
    yield resources.ROLES, Role(metadata=local, rules=_lease_rules(driver))
    here = RoleRef(api_group=_RBAC, kind="Role", name=name)
    yield resources.ROLEBINDINGS, RoleBinding(metadata=local, subjects=(account,), role_ref=here)


def _rules(driver: str) -> tuple[PolicyRule, ...]:
    write = ("create", "update", "patch", "delete")
    return (
        # Updating is for the record of what is attached, and its finalizer.
        PolicyRule(verbs=(*_READ, "update"), api_groups=(_DRA,), resources=("resourceclaims",)),
        PolicyRule(verbs=(*_READ, *write), api_groups=(_DRA,), resources=("resourceslices",)),
        PolicyRule(verbs=("get",), api_groups=(_DRA,), resources=("deviceclasses",), resource_names=(driver,)),
        PolicyRule(verbs=("update", "patch"), api_groups=(_DRA,), resources=("resourceclaims/status",)),
        PolicyRule(
            verbs=("arbitrary-node:update", "arbitrary-node:patch"),
            api_groups=(_DRA,),
            resources=("resourceclaims/driver",),
            resource_names=(driver,),
        ),
    )


def _lease_rules(driver: str) -> tuple[PolicyRule, ...]:
    group = "coordination.k8s.io"
    return (
        PolicyRule(verbs=("create",), api_groups=(group,), resources=("leases",)),
        PolicyRule(verbs=("get", "update"), api_groups=(group,), resources=("leases",), resource_names=(driver,)),
    )
