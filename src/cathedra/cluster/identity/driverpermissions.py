"""Permissions of a driver: its account, its role, and the policy that restricts each instance to its own slices.

An instance may write only ResourceSlices of its own node and under its own driver name.

Installing a driver also installs these (docs/spec/driver-sdk.md §14; docs/spec/api.md §B.1): a cluster that runs a
driver creates them, and ``cathedra driver-manifest`` prints them.
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
from cathedra.client import resources
from cathedra.client.client import Client
from cathedra.client.transport import ResourceRef
from cathedra.cluster.identity.installing import install

__all__ = ["NODE_NAME_EXTRA", "SYSTEM", "driver_objects", "install_driver_permissions"]

SYSTEM: Final = "kube-system"
"""Where the accounts of parts are."""
NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
"""What a pod's token says of the node that the pod is on."""

_RBAC: Final = "rbac.authorization.k8s.io"
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
    """Create a driver's account, role, binding and policy; what is there already stays as it is.

    Args:
        binds: whether it satisfies binding conditions, for which it has to watch claims.
    """
    await install(client, driver_objects(driver, SYSTEM, binds=binds))


def driver_objects(
    driver: str, namespace: str, *, binds: bool = False
) -> Iterator[tuple[ResourceRef[KubeObject], Any]]:
    """Account, role, binding and policy of a driver whose pods are in ``namespace``.

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
    """A role with these rules, and its binding to the driver's account."""
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
