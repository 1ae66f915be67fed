"""Default roles for people: cluster-admin, admin, edit, view and those of every authenticated user
(docs/spec/apimachinery.md §15.2)."""

from __future__ import annotations

from typing import Final

from cathedra.apiserver.authorization.bootstrap.rulebook import RESOURCE, DefaultRole, rule, urls, when
from cathedra.releases import classic

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
