"""Who the parts of a cluster are, and what its driver may do.

Scheduler, controllers and nodes have the users and roles that every Kubernetes cluster has. A driver has none by
default: installing one also installs its service account, its role, and the policy that keeps each of its
instances to the slices of its own node (docs/spec/driver-sdk.md §14; docs/spec/api.md §B.1).
"""

from __future__ import annotations

from collections.abc import Iterator
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
from cathedra.api.core.rbac_v1 import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from cathedra.api.status import StatusError
from cathedra.apiserver.authentication.pki import KUBELET_CLIENT
from cathedra.apiserver.authentication.serviceaccounts import service_account_user
from cathedra.apiserver.authentication.user import UserInfo
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef

__all__ = [
    "CONTROLLER_MANAGER",
    "SCHEDULER",
    "controller_user",
    "driver_user",
    "install_driver_permissions",
    "install_kubelet_permissions",
    "node_user",
]

CONTROLLER_MANAGER: Final = UserInfo("system:kube-controller-manager")
SCHEDULER: Final = UserInfo("system:kube-scheduler")

_SYSTEM: Final = "kube-system"
_RBAC: Final = "rbac.authorization.k8s.io"
_DRA: Final = "resource.k8s.io"
_NODE_NAME: Final = "authentication.kubernetes.io/node-name"
_WRONG_NODE: Final = (
    """"this user running on node '" + variables.userNodeName + "' may not modify " + """
    """(variables.objectNodeName == '' ? 'cluster resourceslices' : """
    """"resourceslices on node '" + variables.objectNodeName + "'")"""
)


def node_user(node: str) -> UserInfo:
    """The user that a node's agent is."""
    return UserInfo(f"system:node:{node}", ("system:nodes",))


def controller_user(account: str) -> UserInfo:
    """The user that a controller is: a service account of its own."""
    return service_account_user(_SYSTEM, account, "")


def driver_user(driver: str, node: str) -> UserInfo:
    """The user that a driver's instance on a node is, as if it had the token of a pod there."""
    return service_account_user(_SYSTEM, driver, "", {_NODE_NAME: (node,)})


async def install_driver_permissions(client: Client, driver: str, *, binds: bool = False) -> None:
    """Create a driver's account, role, binding and policy; what is there already stays as it is.

    Args:
        binds: whether it satisfies binding conditions, for which it has to watch claims.
    """
    for ref, obj in (*_objects(driver), *(_watching_claims(driver) if binds else ())):
        namespace = _SYSTEM if ref.namespaced else ""
        try:
            await client.resource(ref, namespace).create(obj)
        except StatusError as error:
            if not error.is_already_exists:
                raise


async def install_kubelet_permissions(client: Client) -> None:
    """Let the API server's user at nodes do there what it is asked for, and nodes renew their client certificates.

    What is there already stays as it is. The user has no credentials at the API itself: nodes ask about it, and nothing
    else ever does. Nodes' requests are approved as in clusters of kubeadm.
    """
    bindings = _ref(ClusterRoleBinding, _RBAC, "clusterrolebindings")
    for binding in (_kubelet_client_binding(), _rotation_binding()):
        try:
            await client.resource(bindings).create(binding)
        except StatusError as error:
            if not error.is_already_exists:
                raise


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


def _objects(driver: str) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    metadata = ObjectMeta(name=driver)
    yield resources.SERVICEACCOUNTS, ServiceAccount(metadata=ObjectMeta(name=driver, namespace=_SYSTEM))
    yield from _granted(driver, driver, _rules(driver))
    registration = "admissionregistration.k8s.io"
    yield _ref(ValidatingAdmissionPolicy, registration, "validatingadmissionpolicies"), _policy(driver)
    yield (
        _ref(ValidatingAdmissionPolicyBinding, registration, "validatingadmissionpolicybindings"),
        ValidatingAdmissionPolicyBinding(
            metadata=metadata,
            spec=ValidatingAdmissionPolicyBindingSpec(policy_name=driver, validation_actions=("Deny",)),
        ),
    )


def _watching_claims(driver: str) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    watch = PolicyRule(verbs=("list", "watch"), api_groups=(_DRA,), resources=("resourceclaims",))
    return _granted(f"{driver}:binding-conditions", driver, (watch,))


def _granted(name: str, driver: str, rules: tuple[PolicyRule, ...]) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """A role with these rules, and its binding to the driver's account."""
    metadata = ObjectMeta(name=name)
    yield _ref(ClusterRole, _RBAC, "clusterroles"), ClusterRole(metadata=metadata, rules=rules)
    subject = Subject(kind="ServiceAccount", name=driver, namespace=_SYSTEM)
    role = RoleRef(api_group=_RBAC, kind="ClusterRole", name=name)
    yield (
        _ref(ClusterRoleBinding, _RBAC, "clusterrolebindings"),
        ClusterRoleBinding(metadata=metadata, subjects=(subject,), role_ref=role),
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


def _policy(driver: str) -> ValidatingAdmissionPolicy:
    user = f"system:serviceaccount:{_SYSTEM}:{driver}"
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
                    f"request.userInfo.extra[?'{_NODE_NAME}'][0].orValue('')",
                ),
                Variable(
                    "objectNodeName",
                    "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')",
                ),
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
            ),
        ),
    )
