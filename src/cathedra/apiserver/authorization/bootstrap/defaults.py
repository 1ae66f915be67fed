"""The default roles and bindings as objects, under given feature gates (docs/spec/apimachinery.md §15.2;
docs/spec/api.md §B.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cathedra.api.core.meta_v1 import LabelSelector, ObjectMeta
from cathedra.api.core.rbac_v1 import (
    AggregationRule,
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from cathedra.apiserver.authorization.bootstrap.controllerroles import CONTROLLER_PREFIX, CONTROLLER_ROLES
from cathedra.apiserver.authorization.bootstrap.rulebook import DefaultRole, GatedRule
from cathedra.apiserver.authorization.bootstrap.systemroles import (
    NAMESPACED_BINDINGS,
    NAMESPACED_ROLES,
    NODE_RULES,
    SYSTEM_ROLES,
)
from cathedra.apiserver.authorization.bootstrap.userroles import USER_ROLES
from cathedra.releases import FeatureGates

AUTO_UPDATE: Final = "rbac.authorization.kubernetes.io/autoupdate"
"""Annotation; unless ``"true"``, the object is left as it is when the server starts."""
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS: Final = {AUTO_UPDATE: "true"}
_RBAC: Final = "rbac.authorization.k8s.io"
_AUTHENTICATED: Final = "system:authenticated"

_BOUND: Final[tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = (
    ("cluster-admin", (("Group", "system:masters"),)),
    ("system:monitoring", (("Group", "system:monitoring"),)),
    ("system:discovery", (("Group", _AUTHENTICATED),)),
    ("system:basic-user", (("Group", _AUTHENTICATED),)),
    ("system:public-info-viewer", (("Group", _AUTHENTICATED), ("Group", "system:unauthenticated"))),
    ("system:node-proxier", (("User", "system:kube-proxy"),)),
    ("system:kube-controller-manager", (("User", "system:kube-controller-manager"),)),
    ("system:kube-dns", (("ServiceAccount", "kube-dns"),)),
    ("system:kube-scheduler", (("User", "system:kube-scheduler"),)),
    ("system:volume-scheduler", (("User", "system:kube-scheduler"),)),
    ("system:node", ()),
    ("system:service-account-issuer-discovery", (("Group", "system:serviceaccounts"),)),
)
"""Role → its subjects. The node authorizer authorizes nodes; Kubernetes keeps the empty binding of their role."""


def cluster_roles(gates: FeatureGates) -> Iterator[ClusterRole]:
    """Every default cluster role; aggregated ones without the rules that they gather."""
    return (_role(role, gates) for role in _present(gates))


def cluster_role_bindings(gates: FeatureGates) -> Iterator[ClusterRoleBinding]:
    """Every default cluster role binding."""
    for role, subjects in _BOUND:
        yield _binding(role, tuple(_subject(kind, name) for kind, name in subjects))
    for present in _present(gates):
        if present.name.startswith(CONTROLLER_PREFIX):
            account = present.name.removeprefix(CONTROLLER_PREFIX)
            yield _binding(present.name, (_subject("ServiceAccount", account),))


def roles(gates: FeatureGates) -> Iterator[Role]:
    """Every default role in a namespace."""
    for role in NAMESPACED_ROLES:
        metadata = ObjectMeta(name=role.name, namespace=role.namespace, labels=_LABELS, annotations=_ANNOTATIONS)
        yield Role(metadata=metadata, rules=_rules(role.rules, gates))


def role_bindings() -> Iterator[RoleBinding]:
    """Every default role binding in a namespace."""
    for binding in NAMESPACED_BINDINGS:
        yield RoleBinding(
            metadata=ObjectMeta(
                name=binding.name, namespace=binding.namespace, labels=_LABELS, annotations=_ANNOTATIONS
            ),
            subjects=tuple(_subject(kind, name) for kind, name in binding.subjects),
            role_ref=RoleRef(api_group=_RBAC, kind="Role", name=binding.role),
        )


def node_rules(gates: FeatureGates) -> tuple[PolicyRule, ...]:
    """The rules that the node authorizer applies to what it does not know more closely."""
    return _rules(NODE_RULES, gates)


def _present(gates: FeatureGates) -> Iterator[DefaultRole]:
    for role in (*USER_ROLES, *SYSTEM_ROLES, *CONTROLLER_ROLES):
        if _open(role.gates, gates):
            yield role


def _open(needed: tuple[str, ...], gates: FeatureGates) -> bool:
    return all(gates.get(gate, False) for gate in needed)


def _rules(rules: tuple[GatedRule, ...], gates: FeatureGates) -> tuple[PolicyRule, ...]:
    return tuple(gated.rule for gated in rules if _applies(gated, gates))


def _applies(gated: GatedRule, gates: FeatureGates) -> bool:
    return _open(gated.gates, gates) and (gated.behaviour is None or gates.has(gated.behaviour))


def _role(role: DefaultRole, gates: FeatureGates) -> ClusterRole:
    metadata = ObjectMeta(
        name=role.name, labels={**_LABELS, **dict.fromkeys(role.labels, "true")}, annotations=_ANNOTATIONS
    )
    if not role.aggregates:
        return ClusterRole(metadata=metadata, rules=_rules(role.rules, gates))
    selector = LabelSelector(match_labels={role.aggregates: "true"})
    return ClusterRole(
        metadata=metadata, rules=None, aggregation_rule=AggregationRule(cluster_role_selectors=(selector,))
    )


def _binding(role: str, subjects: tuple[Subject, ...]) -> ClusterRoleBinding:
    return ClusterRoleBinding(
        metadata=ObjectMeta(name=role, labels=_LABELS, annotations=_ANNOTATIONS),
        subjects=subjects,
        role_ref=RoleRef(api_group=_RBAC, kind="ClusterRole", name=role),
    )


def _subject(kind: str, name: str) -> Subject:
    if kind == "ServiceAccount":
        return Subject(kind=kind, name=name, namespace="kube-system")
    return Subject(kind=kind, api_group=_RBAC, name=name)
