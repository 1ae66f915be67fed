"""Default roles of the system's parts: scheduler, controller manager, nodes and the like
(docs/spec/api.md §B.2)."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.apiserver.authorization.bootstrap.rulebook import EVENTS, RESOURCE, DefaultRole, GatedRule, rule, when
from cathedra.releases import behaviours, classic

_STORAGE: Final = "storage.k8s.io"
_CERTIFICATES: Final = "certificates.k8s.io"
_REVIEWS: Final = (
    rule("create", "authentication.k8s.io", "tokenreviews"),
    rule("create", "authorization.k8s.io", "subjectaccessreviews"),
)

NODE_RULES: Final[tuple[GatedRule, ...]] = (
    _REVIEWS[0],
    rule("create", "authorization.k8s.io", "localsubjectaccessreviews subjectaccessreviews"),
    rule("read", "core", "services"),
    rule("create read", "core", "nodes"),
    rule("patch update", "core", "nodes/status"),
    rule("patch update", "core", "nodes"),
    EVENTS,
    rule("read", "core", "pods"),
    rule("create delete", "core", "pods"),
    rule("patch update", "core", "pods/status"),
    rule("create", "core", "pods/eviction"),
    rule("read", "core", "configmaps secrets"),
    rule("get", "core", "persistentvolumeclaims persistentvolumes"),
    rule("get", "core", "endpoints"),
    rule("create read", _CERTIFICATES, "certificatesigningrequests"),
    rule("create delete get patch update", "coordination.k8s.io", "leases"),
    rule("get", _STORAGE, "volumeattachments"),
    rule("create", "core", "serviceaccounts/token"),
    rule("get patch update", "core", "persistentvolumeclaims/status"),
    rule("read", _STORAGE, "csidrivers"),
    rule("create delete get patch update", _STORAGE, "csinodes"),
    rule("read", "node.k8s.io", "runtimeclasses"),
    rule("get", RESOURCE, "resourceclaims"),
    rule("deletecollection", RESOURCE, "resourceslices"),
    rule("get", "core", "serviceaccounts"),
)
"""Rules of node agents; the node authorizer restricts some of them to the node's own objects. The role ``system:node``
has them, too."""

_DRA: Final = "DynamicResourceAllocation"
_SCHEDULER: Final = (
    EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("read update", "coordination.k8s.io", "leases", "kube-scheduler"),
    rule("read write", "coordination.k8s.io", "leasecandidates"),
    rule("read", "core", "nodes"),
    rule("read delete", "core", "pods"),
    rule("create", "core", "bindings pods/binding"),
    rule("patch update", "core", "pods/status"),
    rule("read", "core", "replicationcontrollers services"),
    rule("read", "apps extensions", "replicasets"),
    rule("read", "apps", "statefulsets"),
    rule("read", "policy", "poddisruptionbudgets"),
    rule("read", "core", "persistentvolumeclaims persistentvolumes"),
    *_REVIEWS,
    rule("read", _STORAGE, "csinodes"),
    rule("read", _STORAGE, "volumeattachments"),
    rule("read", "core", "namespaces"),
    rule("read", _STORAGE, "csidrivers"),
    rule("read", _STORAGE, "csistoragecapacities"),
    rule("read", RESOURCE, "deviceclasses"),
    rule("read patch update", RESOURCE, "resourceclaims"),
    rule("read patch update", RESOURCE, "resourceclaims/status"),
    rule("update", "core", "pods/finalizers"),
    rule("read", RESOURCE, "resourceslices"),
    when("DRAExtendedResource", rule("create delete", RESOURCE, "resourceclaims")),
    when("DRADeviceTaintRules", rule("read", RESOURCE, "devicetaintrules")),
    when("DRADeviceTaints", rule("read", RESOURCE, "devicetaintrules"), behaviours.TAINT_RULES_MERGED),
    when(
        "DRAResourceClaimGranularStatusAuthorization",
        rule("patch update", RESOURCE, "resourceclaims/binding"),
    ),
    when(_DRA, rule("read", RESOURCE, "resourceclasses"), classic.RESOURCE_CLASSES),
    when(_DRA, rule("read write", RESOURCE, "podschedulings podschedulings/status"), classic.V1ALPHA1),
    when(
        _DRA,
        rule("read write", RESOURCE, "podschedulingcontexts podschedulingcontexts/status"),
        classic.SCHEDULING_CONTEXTS,
    ),
    when(_DRA, rule("read", RESOURCE, "resourceclaimparameters resourceclassparameters"), classic.STRUCTURED_MODEL),
    when("GenericWorkload", rule("read", "scheduling.k8s.io", "podgroups")),
    when("GenericWorkload", rule("patch update", "scheduling.k8s.io", "podgroups/status")),
    when("CompositePodGroup", rule("read", "scheduling.k8s.io", "compositepodgroups")),
    when("CompositePodGroup", rule("patch update", "scheduling.k8s.io", "compositepodgroups/status")),
)

_CONTROLLER_MANAGER: Final = (
    EVENTS,
    rule("create", "coordination.k8s.io", "leases"),
    rule("get update", "coordination.k8s.io", "leases", "kube-controller-manager"),
    rule("create", "core", "secrets serviceaccounts"),
    rule("delete", "core", "secrets"),
    rule("get", "core", "configmaps namespaces secrets serviceaccounts"),
    rule("update", "core", "secrets serviceaccounts"),
    *_REVIEWS,
    rule("list watch", "*", "*"),
    rule("create", "core", "serviceaccounts/token"),
)

SYSTEM_ROLES: Final = (
    DefaultRole(
        "system:heapster",
        (rule("read", "core", "events namespaces nodes pods"), rule("read", "extensions", "deployments")),
    ),
    DefaultRole("system:node", NODE_RULES),
    DefaultRole(
        "system:node-problem-detector", (rule("get", "core", "nodes"), rule("patch", "core", "nodes/status"), EVENTS)
    ),
    DefaultRole(
        "system:kubelet-api-admin",
        (
            rule("read", "core", "nodes"),
            rule("proxy", "core", "nodes"),
            rule("*", "core", "nodes/log nodes/metrics nodes/proxy nodes/stats"),
            rule("*", "core", "nodes/configz nodes/healthz nodes/pods"),
        ),
    ),
    DefaultRole("system:node-bootstrapper", (rule("create read", _CERTIFICATES, "certificatesigningrequests"),)),
    DefaultRole("system:auth-delegator", _REVIEWS),
    DefaultRole("system:kube-aggregator", (rule("read", "core", "endpoints services"),)),
    DefaultRole("system:kube-controller-manager", _CONTROLLER_MANAGER),
    DefaultRole("system:kube-dns", (rule("list watch", "core", "endpoints services"),)),
    DefaultRole(
        "system:persistent-volume-provisioner",
        (
            rule("read create delete", "core", "persistentvolumes"),
            rule("read update", "core", "persistentvolumeclaims"),
            rule("read", _STORAGE, "storageclasses"),
            rule("watch", "core", "events"),
            EVENTS,
        ),
    ),
    DefaultRole(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        (rule("create", _CERTIFICATES, "certificatesigningrequests/nodeclient"),),
    ),
    DefaultRole(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        (rule("create", _CERTIFICATES, "certificatesigningrequests/selfnodeclient"),),
    ),
    DefaultRole(
        "system:volume-scheduler",
        (
            rule("read patch update", "core", "persistentvolumes"),
            rule("read", _STORAGE, "storageclasses"),
            rule("read patch update", "core", "persistentvolumeclaims"),
        ),
    ),
    *(
        DefaultRole(
            f"system:certificates.k8s.io:{name}-approver",
            (rule("approve", _CERTIFICATES, "signers", f"kubernetes.io/{name}"),),
        )
        for name in ("legacy-unknown", "kubelet-serving", "kube-apiserver-client", "kube-apiserver-client-kubelet")
    ),
    DefaultRole("system:kube-scheduler", _SCHEDULER),
    DefaultRole(
        "system:node-proxier",
        (
            rule("list watch", "core", "endpoints services"),
            rule("read", "core", "nodes"),
            EVENTS,
            rule("list watch", "networking.k8s.io", "servicecidrs"),
            rule("list watch", "discovery.k8s.io", "endpointslices"),
        ),
    ),
)
"""In the order in which a stock server lists them."""


# --- roles in namespaces --------------------------------------------------------------------------------------------


_SYSTEM: Final = "kube-system"
_PUBLIC: Final = "kube-public"
_READER: Final = "extension-apiserver-authentication-reader"
_MANAGER: Final = "kube-controller-manager"
_KUBE_SCHEDULER: Final = "kube-scheduler"


class NamespacedRole(msgspec.Struct, frozen=True):
    """A role that every cluster has."""

    namespace: str
    name: str
    rules: tuple[GatedRule, ...]


class NamespacedBinding(msgspec.Struct, frozen=True):
    """The binding of a role to subjects, (kind, name) each; service accounts are those of kube-system."""

    namespace: str
    name: str
    role: str
    subjects: tuple[tuple[str, str], ...]


def _leader_locking(component: str) -> NamespacedRole:
    rules = (rule("watch", "core", "configmaps"), rule("get update", "core", "configmaps", component))
    return NamespacedRole(_SYSTEM, f"system::leader-locking-{component}", rules)


NAMESPACED_ROLES: Final = (
    NamespacedRole(_SYSTEM, _READER, (rule("read", "core", "configmaps", "extension-apiserver-authentication"),)),
    NamespacedRole(_SYSTEM, "system:controller:bootstrap-signer", (rule("read", "core", "secrets"),)),
    NamespacedRole(_SYSTEM, "system:controller:cloud-provider", (rule("create read", "core", "configmaps"),)),
    NamespacedRole(_SYSTEM, "system:controller:token-cleaner", (rule("read delete", "core", "secrets"), EVENTS)),
    _leader_locking(_MANAGER),
    _leader_locking(_KUBE_SCHEDULER),
    NamespacedRole(
        _PUBLIC,
        "system:controller:bootstrap-signer",
        (rule("read", "core", "configmaps"), rule("update", "core", "configmaps", "cluster-info"), EVENTS),
    ),
)


def _own(namespace: str, role: str, *subjects: tuple[str, str]) -> NamespacedBinding:
    return NamespacedBinding(namespace, role, role, subjects)


def _component(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("User", f"system:{name}"), ("ServiceAccount", name)


NAMESPACED_BINDINGS: Final = (
    NamespacedBinding(
        _SYSTEM, f"system::{_READER}", _READER, (("User", f"system:{_MANAGER}"), ("User", f"system:{_KUBE_SCHEDULER}"))
    ),
    _own(_SYSTEM, f"system::leader-locking-{_MANAGER}", *_component(_MANAGER)),
    _own(_SYSTEM, f"system::leader-locking-{_KUBE_SCHEDULER}", *_component(_KUBE_SCHEDULER)),
    _own(_SYSTEM, "system:controller:bootstrap-signer", ("ServiceAccount", "bootstrap-signer")),
    _own(_SYSTEM, "system:controller:cloud-provider", ("ServiceAccount", "cloud-provider")),
    _own(_SYSTEM, "system:controller:token-cleaner", ("ServiceAccount", "token-cleaner")),
    _own(_PUBLIC, "system:controller:bootstrap-signer", ("ServiceAccount", "bootstrap-signer")),
)
