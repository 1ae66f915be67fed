"""Users of a cluster's parts and their permissions.

Scheduler, controllers and nodes have the users and roles of every Kubernetes cluster. A driver has an account, a role,
and a policy that restricts each instance to slices of its own node and driver name. Both ``cathedra up`` and ``cathedra
driver-manifest`` create them (docs/spec/driver-sdk.md §14; docs/spec/api.md §B.1). The controller of a fabric driver
may write all slices of the cluster, the status of any claim, and its own lease. Its account is another one than that of
the driver's nodes, which may write only slices of their own node (docs/spec/driver-sdk.md §14 and §15).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final

from cathedra.api.core.admissionregistration_v1 import (
    MatchCondition,
    MatchResources,
    NamedRuleWithOperations,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicyBindingSpec,
    ValidatingAdmissionPolicySpec,
    Validation,
    Variable,
)
from cathedra.api.core.core_v1 import ServiceAccount
from cathedra.api.core.meta_v1 import KubeObject, ObjectMeta
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.pki import KUBELET_CLIENT
from cathedra.apiserver.authentication.serviceaccounts import service_account_user
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef

CONTROLLER_MANAGER: Final = UserInfo("system:kube-controller-manager")
SCHEDULER: Final = UserInfo("system:kube-scheduler")


_RBAC: Final = "rbac.authorization.k8s.io"


def node_user(node: str) -> UserInfo:
    """Return the user that a node's agent is."""
    return UserInfo(f"system:node:{node}", ("system:nodes",))


def controller_user(account: str) -> UserInfo:
    """Return the user that a controller is: a service account of its own."""
    return service_account_user(SYSTEM, account, "")


def driver_user(driver: str, node: str) -> UserInfo:
    """Return the user that a driver's instance on a node is, as if it had the token of a pod there."""
    return service_account_user(SYSTEM, driver, "", {NODE_NAME_EXTRA: (node,)})


async def install_kubelet_permissions(client: Client) -> None:
    """Create permissions of the API server's user at nodes, of nodes to renew their client certificates, and of pod
    readers to see resource usage.

    Existing objects stay as they are. The API server's user has no credentials at the API itself: only nodes review its
    permissions. Requests of nodes are approved as in clusters of kubeadm.
    """
    wanted: tuple[tuple[ResourceRef[Any], Any], ...] = (
        (resources.CLUSTERROLEBINDINGS, _kubelet_client_binding()),
        (resources.CLUSTERROLEBINDINGS, _rotation_binding()),
        (resources.CLUSTERROLES, _metrics_reader()),
    )
    await install(client, wanted)


async def install_scheduler_permissions(client: Client) -> None:
    """Create the permission that the scheduler's plugin DeviceQuota needs, and that kube-scheduler's role lacks: to
    read quotas. Existing objects stay as they are."""
    name = "cathedra:device-quota"
    rule = PolicyRule(verbs=("list", "watch"), api_groups=("",), resources=("resourcequotas",))
    binding = ClusterRoleBinding(
        metadata=ObjectMeta(name=name),
        subjects=(Subject(kind="User", api_group=_RBAC, name=SCHEDULER.name),),
        role_ref=RoleRef(api_group=_RBAC, kind="ClusterRole", name=name),
    )
    role = ClusterRole(metadata=ObjectMeta(name=name), rules=(rule,))
    await install(client, ((resources.CLUSTERROLES, role), (resources.CLUSTERROLEBINDINGS, binding)))


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


async def install(client: Client, wanted: Iterable[tuple[ResourceRef[Any], Any]]) -> None:
    """Create objects concurrently, so that they share a commit. Existing objects stay as they are.

    Raises:
        StatusError: one of them was refused.
    """
    await asyncio.gather(*(_create(client, ref, obj) for ref, obj in wanted))


async def _create(client: Client, ref: ResourceRef[Any], obj: Any) -> None:
    try:
        await client.resource(ref, obj.metadata.namespace).create(obj)
    except StatusError as error:
        if not error.is_already_exists:
            raise


SYSTEM: Final = "kube-system"
"""Namespace of the parts' accounts."""
NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
"""Extra key in a pod's token that has the name of its node."""

_DRA: Final = "resource.k8s.io"
_WRONG_NODE: Final = (
    """"this user running on node '" + variables.userNodeName + "' may not modify " + """
    """(variables.objectNodeName == '' ? 'cluster resourceslices' : """
    """"resourceslices on node '" + variables.objectNodeName + "'")"""
)
_WRONG_DRIVER: Final = (
    """"this user may only modify resourceslices of driver '{driver}', not of driver '" """
    """+ variables.objectDriver + "'\""""
)


async def install_driver_permissions(client: Client, driver: str, *, binds: bool = False) -> None:
    """Create a driver's account, role, binding and policy; existing objects stay as they are.

    Args: binds: True if the driver satisfies binding conditions, for which it must watch claims.
    """
    await install(client, driver_objects(driver, SYSTEM, binds=binds))


def driver_objects(
    driver: str, namespace: str, *, binds: bool = False
) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """Return account, role, binding and policy of a driver whose pods are in ``namespace``.

    ``binds``: whether it satisfies binding conditions, for which it has to watch claims.
    """
    metadata = ObjectMeta(name=driver)
    account = Subject(kind="ServiceAccount", name=driver, namespace=namespace)
    yield resources.SERVICEACCOUNTS, ServiceAccount(metadata=ObjectMeta(name=driver, namespace=namespace))
    yield from _granted(driver, account, _rules(driver))
    if binds:
        watch = PolicyRule(verbs=("list", "watch"), api_groups=(_DRA,), resources=("resourceclaims",))
        yield from _granted(f"{driver}:binding-conditions", account, (watch,))
    registration = "admissionregistration.k8s.io"
    yield _ref(ValidatingAdmissionPolicy, registration, "validatingadmissionpolicies"), _policy(driver, namespace)
    yield (
        _ref(ValidatingAdmissionPolicyBinding, registration, "validatingadmissionpolicybindings"),
        ValidatingAdmissionPolicyBinding(
            metadata=metadata,
            spec=ValidatingAdmissionPolicyBindingSpec(policy_name=driver, validation_actions=("Deny",)),
        ),
    )


def _granted(
    name: str, account: Subject, rules: tuple[PolicyRule, ...]
) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """Yield a role with these rules, and its binding to the driver's account."""
    metadata = ObjectMeta(name=name)
    yield resources.CLUSTERROLES, ClusterRole(metadata=metadata, rules=rules)
    role = RoleRef(api_group=_RBAC, kind="ClusterRole", name=name)
    yield (
        resources.CLUSTERROLEBINDINGS,
        ClusterRoleBinding(metadata=metadata, subjects=(account,), role_ref=role),
    )


def _ref(kind: type[Any], group: str, plural: str) -> ResourceRef[KubeObject]:
    return ResourceRef(group, "v1", plural, kind.__name__, False, kind)


def _rules(driver: str) -> tuple[PolicyRule, ...]:
    write = ("create", "update", "patch", "delete")
    return (
        PolicyRule(verbs=("get",), api_groups=(_DRA,), resources=("resourceclaims",)),
        PolicyRule(verbs=("get",), api_groups=("",), resources=("nodes",)),
        PolicyRule(verbs=("get", "list", "watch", *write), api_groups=(_DRA,), resources=("resourceslices",)),
        PolicyRule(verbs=("update", "patch"), api_groups=(_DRA,), resources=("resourceclaims/status",)),
        PolicyRule(
            verbs=("associated-node:update", "associated-node:patch"),
            api_groups=(_DRA,),
            resources=("resourceclaims/driver",),
            resource_names=(driver,),
        ),
    )


def _policy(driver: str, namespace: str) -> ValidatingAdmissionPolicy:
    user = f"system:serviceaccount:{namespace}:{driver}"
    slices = NamedRuleWithOperations(
        api_groups=(_DRA,),
        api_versions=("*",),
        operations=("CREATE", "UPDATE", "DELETE"),
        resources=("resourceslices",),
    )
    return ValidatingAdmissionPolicy(
        metadata=ObjectMeta(name=driver),
        spec=ValidatingAdmissionPolicySpec(
            failure_policy="Fail",
            match_constraints=MatchResources(resource_rules=(slices,)),
            match_conditions=(MatchCondition("is-the-driver", f"request.userInfo.username == '{user}'"),),
            variables=(
                Variable(
                    "userNodeName",
                    f"request.userInfo.extra[?'{NODE_NAME_EXTRA}'][0].orValue('')",
                ),
                Variable(
                    "objectNodeName",
                    "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')",
                ),
                Variable("objectDriver", "(request.operation == 'DELETE' ? oldObject : object).spec.driver"),
            ),
            validations=(
                Validation(
                    expression="variables.userNodeName != ''",
                    message="no node association found for user, this user must run in a pod on a node and "
                    "ServiceAccountTokenPodNodeInfo must be enabled",
                ),
                Validation(
                    expression="variables.userNodeName == variables.objectNodeName",
                    message_expression=_WRONG_NODE,
                ),
                # Without this rule, the account of one driver could publish devices under the name of another one, and
                # pods would be scheduled to devices that do not exist.
                Validation(
                    expression=f"variables.objectDriver == '{driver}'",
                    message_expression=_WRONG_DRIVER.format(driver=driver),
                ),
            ),
        ),
    )


_READ: Final = ("get", "list", "watch")


def controller_account(driver: str) -> str:
    """Return the service account of the driver's controller."""
    return f"{driver}-controller"


def fabric_objects(driver: str, namespace: str) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """Return account, roles and bindings of the controller of ``driver``, whose pods are in ``namespace``."""
    name = controller_account(driver)
    metadata, local = ObjectMeta(name=name), ObjectMeta(name=name, namespace=namespace)
    account = Subject(kind="ServiceAccount", name=name, namespace=namespace)
    yield resources.SERVICEACCOUNTS, ServiceAccount(metadata=local)
    yield resources.CLUSTERROLES, ClusterRole(metadata=metadata, rules=_fabric_rules(driver))
    everywhere = RoleRef(api_group=_RBAC, kind="ClusterRole", name=name)
    yield (
        resources.CLUSTERROLEBINDINGS,
        ClusterRoleBinding(metadata=metadata, subjects=(account,), role_ref=everywhere),
    )
    yield resources.ROLES, Role(metadata=local, rules=_lease_rules(driver))
    here = RoleRef(api_group=_RBAC, kind="Role", name=name)
    yield resources.ROLEBINDINGS, RoleBinding(metadata=local, subjects=(account,), role_ref=here)


def _fabric_rules(driver: str) -> tuple[PolicyRule, ...]:
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
