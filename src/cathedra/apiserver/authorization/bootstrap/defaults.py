"""The default roles and bindings as objects, under given feature gates (docs/spec/apimachinery.md §15.2;
docs/spec/api.md §B.2), and the rules of those for users: cluster-admin, admin, edit, view.
"""

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
from cathedra.apiserver.authorization.bootstrap.rulebook import RESOURCE, DefaultRole, GatedRule, rule, urls, when
from cathedra.apiserver.authorization.bootstrap.systemroles import (
    NAMESPACED_BINDINGS,
    NAMESPACED_ROLES,
    NODE_RULES,
    SYSTEM_ROLES,
)
from cathedra.releases import FeatureGates, classic

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
    """Return every default cluster role; aggregated ones without the rules that they gather."""
    return (_role(role, gates) for role in _present(gates))


def cluster_role_bindings(gates: FeatureGates) -> Iterator[ClusterRoleBinding]:
    """Yield every default cluster role binding."""
    for role, subjects in _BOUND:
        yield _binding(role, tuple(_subject(kind, name) for kind, name in subjects))
    for present in _present(gates):
        if present.name.startswith(CONTROLLER_PREFIX):
            account = present.name.removeprefix(CONTROLLER_PREFIX)
            yield _binding(present.name, (_subject("ServiceAccount", account),))


def roles(gates: FeatureGates) -> Iterator[Role]:
    """Yield every default role in a namespace."""
    for role in NAMESPACED_ROLES:
        metadata = ObjectMeta(name=role.name, namespace=role.namespace, labels=_LABELS, annotations=_ANNOTATIONS)
        yield Role(metadata=metadata, rules=_rules(role.rules, gates))


def role_bindings() -> Iterator[RoleBinding]:
    """Yield every default role binding in a namespace."""
    for binding in NAMESPACED_BINDINGS:
        yield RoleBinding(
            metadata=ObjectMeta(
                name=binding.name, namespace=binding.namespace, labels=_LABELS, annotations=_ANNOTATIONS
            ),
            subjects=tuple(_subject(kind, name) for kind, name in binding.subjects),
            role_ref=RoleRef(api_group=_RBAC, kind="Role", name=binding.role),
        )


def node_rules(gates: FeatureGates) -> tuple[PolicyRule, ...]:
    """Return the rules that the node authorizer applies to what it does not know more closely."""
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


# Default roles for people: cluster-admin, admin, edit, view and those of every authenticated user
# (docs/spec/apimachinery.md §15.2).

_LABEL: Final = "rbac.authorization.k8s.io/aggregate-to-"

_WORKLOADS: Final = (
    "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale "
    "statefulsets statefulsets/scale"
)
_WORKLOADS_SHOWN: Final = (
    "controllerrevisions daemonsets daemonsets/status deployments deployments/scale deployments/status replicasets "
    "replicasets/scale replicasets/status statefulsets statefulsets/scale statefulsets/status"
)
_LEGACY: Final = (
    "daemonsets deployments deployments/rollback deployments/scale ingresses networkpolicies replicasets "
    "replicasets/scale replicationcontrollers/scale"
)
_LEGACY_SHOWN: Final = (
    "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses ingresses/status "
    "networkpolicies replicasets replicasets/scale replicasets/status replicationcontrollers/scale"
)
_DOORS: Final = "pods/attach pods/exec pods/portforward pods/proxy"

_VIEW: Final = (
    rule(
        "read",
        "core",
        "configmaps endpoints persistentvolumeclaims persistentvolumeclaims/status pods replicationcontrollers "
        "replicationcontrollers/scale serviceaccounts services services/status",
    ),
    rule(
        "read",
        "core",
        "bindings limitranges namespaces/status pods/log pods/status replicationcontrollers/status resourcequotas "
        "resourcequotas/status",
    ),
    rule("read", "core", "namespaces"),
    rule("read", "core events.k8s.io", "events"),
    rule("read", "discovery.k8s.io", "endpointslices"),
    rule("read", "apps", _WORKLOADS_SHOWN),
    rule("read", "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    rule("read", "batch", "cronjobs cronjobs/status jobs jobs/status"),
    rule("read", "extensions", _LEGACY_SHOWN),
    rule("read", "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    rule("read", "networking.k8s.io", "ingresses ingresses/status networkpolicies"),
    rule("read", RESOURCE, "resourceclaims resourceclaims/status resourceclaimtemplates"),
    when(
        "DynamicResourceAllocation",
        rule("read", RESOURCE, "podschedulingcontexts podschedulingcontexts/status"),
        classic.SCHEDULING_CONTEXTS,
    ),
    when("GenericWorkload", rule("read", "scheduling.k8s.io", "podgroups podgroups/status workloads")),
    when(
        "CompositePodGroup",
        rule("read", "scheduling.k8s.io", "compositepodgroups compositepodgroups/status"),
    ),
)

_EDIT: Final = (
    rule("read", "core", f"{_DOORS} secrets services/proxy"),
    rule("impersonate", "core", "serviceaccounts"),
    rule("write", "core", f"pods {_DOORS}"),
    rule("create", "core", "pods/eviction"),
    rule(
        "write",
        "core",
        "configmaps persistentvolumeclaims replicationcontrollers replicationcontrollers/scale secrets "
        "serviceaccounts services services/proxy",
    ),
    rule("create", "core", "serviceaccounts/token"),
    rule("write", "core events.k8s.io", "events"),
    rule("write", "apps", _WORKLOADS),
    rule("write", "autoscaling", "horizontalpodautoscalers"),
    rule("write", "batch", "cronjobs jobs"),
    rule("write", "extensions", _LEGACY),
    rule("write", "policy", "poddisruptionbudgets"),
    rule("write", "networking.k8s.io", "ingresses networkpolicies"),
    rule("read write", "coordination.k8s.io", "leases"),
    rule("write", RESOURCE, "resourceclaims resourceclaimtemplates"),
    when("GenericWorkload", rule("write", "scheduling.k8s.io", "podgroups workloads")),
    when("CompositePodGroup", rule("write", "scheduling.k8s.io", "compositepodgroups")),
)

_ADMIN: Final = (
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews"),
    rule("read write", "rbac.authorization.k8s.io", "rolebindings roles"),
)

USER_ROLES: Final = (
    DefaultRole("cluster-admin", (rule("*", "*", "*"), urls("*", verbs="*"))),
    DefaultRole(
        "system:discovery",
        (urls("/api /api/* /apis /apis/* /healthz /livez /openapi /openapi/* /readyz /version /version/"),),
    ),
    DefaultRole(
        "system:monitoring",
        (
            urls("/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"),
            urls("/flagz"),
            urls("/statusz"),
        ),
    ),
    DefaultRole(
        "system:basic-user",
        (
            rule("create", "authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews"),
            rule("create", "authentication.k8s.io", "selfsubjectreviews"),
        ),
    ),
    DefaultRole("system:public-info-viewer", (urls("/healthz /livez /readyz /version /version/"),)),
    DefaultRole("admin", aggregates=f"{_LABEL}admin"),
    DefaultRole("edit", labels=(f"{_LABEL}admin",), aggregates=f"{_LABEL}edit"),
    DefaultRole("view", labels=(f"{_LABEL}edit",), aggregates=f"{_LABEL}view"),
    DefaultRole("system:aggregate-to-admin", _ADMIN, (f"{_LABEL}admin",)),
    DefaultRole("system:aggregate-to-edit", _EDIT, (f"{_LABEL}edit",)),
    DefaultRole("system:aggregate-to-view", _VIEW, (f"{_LABEL}view",)),
    DefaultRole(
        "system:service-account-issuer-discovery",
        (
            urls(
                "/.well-known/openid-configuration /.well-known/openid-configuration/ /openid/v1/jwks /openid/v1/jwks/"
            ),
        ),
    ),
)
"""In the order in which a stock server lists them."""
