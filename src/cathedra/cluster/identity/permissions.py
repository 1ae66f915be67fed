"""Who the parts of a cluster are, and what the API server may do at nodes.

Scheduler, controllers and nodes have the users and roles that every Kubernetes cluster has; what a driver may do is in
`driverpermissions`.
"""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from cathedra.apiserver.authentication.pki import KUBELET_CLIENT
from cathedra.apiserver.authentication.serviceaccounts import service_account_user
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.cluster.identity.driverpermissions import NODE_NAME_EXTRA, SYSTEM
from cathedra.cluster.identity.installing import install

__all__ = [
    "CONTROLLER_MANAGER",
    "SCHEDULER",
    "controller_user",
    "driver_user",
    "install_kubelet_permissions",
    "node_user",
]

CONTROLLER_MANAGER: Final = UserInfo("system:kube-controller-manager")
SCHEDULER: Final = UserInfo("system:kube-scheduler")


_RBAC: Final = "rbac.authorization.k8s.io"


def node_user(node: str) -> UserInfo:
    """The user that a node's agent is."""
    return UserInfo(f"system:node:{node}", ("system:nodes",))


def controller_user(account: str) -> UserInfo:
    """The user that a controller is: a service account of its own."""
    return service_account_user(SYSTEM, account, "")


def driver_user(driver: str, node: str) -> UserInfo:
    """The user that a driver's instance on a node is, as if it had the token of a pod there."""
    return service_account_user(SYSTEM, driver, "", {NODE_NAME_EXTRA: (node,)})


async def install_kubelet_permissions(client: Client) -> None:
    """Let the API server's user at nodes do there what it is asked for, nodes renew their client certificates, and who
    may look at pods see what they use.

    What is there already stays as it is. The user has no credentials at the API itself: nodes ask about it, and nothing
    else ever does. Nodes' requests are approved as in clusters of kubeadm.
    """
    wanted: tuple[tuple[ResourceRef[Any], Any], ...] = (
        (resources.CLUSTERROLEBINDINGS, _kubelet_client_binding()),
        (resources.CLUSTERROLEBINDINGS, _rotation_binding()),
        (resources.CLUSTERROLES, _metrics_reader()),
    )
    await install(client, wanted)


def _metrics_reader() -> ClusterRole:
    """As a metrics server brings it: part of the roles ``view``, ``edit`` and ``admin``."""
    labels = {f"{_RBAC}/aggregate-to-{role}": "true" for role in ("view", "edit", "admin")}
    return ClusterRole(
        metadata=ObjectMeta(name="system:aggregated-metrics-reader", labels=labels),
        rules=(
            PolicyRule(verbs=("get", "list", "watch"), api_groups=("metrics.k8s.io",), resources=("pods", "nodes")),
        ),
    )


def _rotation_binding() -> ClusterRoleBinding:
    role = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    return ClusterRoleBinding(
        metadata=ObjectMeta(name="cathedra:node-autoapprove-certificate-rotation"),
        subjects=(Subject(kind="Group", api_group=_RBAC, name="system:nodes"),),
        role_ref=RoleRef(api_group=_RBAC, kind="ClusterRole", name=role),
    )


def _kubelet_client_binding() -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=ObjectMeta(name=f"cathedra:{KUBELET_CLIENT}"),
        subjects=(Subject(kind="User", api_group=_RBAC, name=KUBELET_CLIENT),),
        role_ref=RoleRef(api_group=_RBAC, kind="ClusterRole", name="system:kubelet-api-admin"),
    )
