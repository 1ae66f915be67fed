"""Default roles of the controllers, each bound to a service account of its name in kube-system
(docs/spec/api.md §B.2)."""

from __future__ import annotations

from typing import Final

from cathedra.apiserver.authorization.bootstrap.rulebook import EVENTS, RESOURCE, DefaultRole, GatedRule, rule, when
from cathedra.releases import behaviours, classic

CONTROLLER_PREFIX: Final = "system:controller:"
_STORAGE: Final = "storage.k8s.io"
_CERTIFICATES: Final = "certificates.k8s.io"
_SIGNERS: Final = (
    "kubernetes.io/kube-apiserver-client kubernetes.io/kube-apiserver-client-kubelet kubernetes.io/kubelet-serving "
    "kubernetes.io/legacy-unknown"
)
_OWN_PODS: Final = rule("create delete list patch watch", "core", "pods")
"""Rules of a controller that creates, adopts and deletes pods."""


def _controller(name: str, *rules: GatedRule, gates: str = "") -> DefaultRole:
    return DefaultRole(f"{CONTROLLER_PREFIX}{name}", rules, gates=tuple(gates.split()))


CONTROLLER_ROLES: Final = (
    _controller(
        "attachdetach-controller",
        rule("list watch", "core", "persistentvolumeclaims persistentvolumes"),
        rule("read", "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("list watch", "core", "pods"),
        EVENTS,
        rule("read create delete", _STORAGE, "volumeattachments"),
        rule("read", _STORAGE, "csidrivers"),
        rule("read", _STORAGE, "csinodes"),
    ),
    _controller(
        "clusterrole-aggregation-controller",
        rule("escalate read patch update", "rbac.authorization.k8s.io", "clusterroles"),
    ),
    _controller(
        "cronjob-controller",
        rule("read update", "batch", "cronjobs"),
        rule("read create delete patch update", "batch", "jobs"),
        rule("update", "batch", "cronjobs/status"),
        rule("update", "batch", "cronjobs/finalizers"),
        rule("delete list watch", "core", "pods"),
        EVENTS,
    ),
    _controller(
        "daemon-set-controller",
        rule("read", "apps extensions", "daemonsets"),
        rule("update", "apps extensions", "daemonsets/status"),
        rule("update", "apps extensions", "daemonsets/finalizers"),
        rule("list watch", "core", "nodes"),
        _OWN_PODS,
        rule("create", "core", "pods/binding"),
        rule("read create delete patch update", "apps", "controllerrevisions"),
        EVENTS,
    ),
    _controller(
        "deployment-controller",
        rule("read update", "apps extensions", "deployments"),
        rule("update", "apps extensions", "deployments/status"),
        rule("update", "apps extensions", "deployments/finalizers"),
        rule("read create delete patch update", "apps extensions", "replicasets"),
        rule("read update", "core", "pods"),
        EVENTS,
    ),
    _controller(
        "disruption-controller",
        rule("read", "apps extensions", "deployments"),
        rule("read", "apps extensions", "replicasets"),
        rule("read", "core", "replicationcontrollers"),
        rule("read", "policy", "poddisruptionbudgets"),
        rule("read", "apps", "statefulsets"),
        rule("update", "policy", "poddisruptionbudgets/status"),
        rule("patch update", "core", "pods/status"),
        rule("get", "*", "*/scale"),
        EVENTS,
    ),
    _controller(
        "endpoint-controller",
        rule("read", "core", "pods services"),
        rule("read create delete update", "core", "endpoints"),
        rule("create", "core", "endpoints/restricted"),
        EVENTS,
    ),
    _controller(
        "endpointslice-controller",
        rule("read", "core", "nodes pods services"),
        rule("update", "core", "services/finalizers"),
        rule("read create delete update", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    _controller(
        "endpointslicemirroring-controller",
        rule("read", "core", "endpoints services"),
        rule("update", "core", "services/finalizers"),
        rule("update", "core", "endpoints/finalizers"),
        rule("read create delete update", "discovery.k8s.io", "endpointslices"),
        EVENTS,
    ),
    _controller(
        "expand-controller",
        rule("read patch update", "core", "persistentvolumes"),
        rule("patch update", "core", "persistentvolumeclaims/status"),
        rule("read", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    _controller(
        "ephemeral-volume-controller",
        rule("read", "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule("read create", "core", "persistentvolumeclaims"),
        EVENTS,
    ),
    _controller(
        "resource-claim-controller",
        rule("read", "core", "pods"),
        rule("update", "core", "pods/finalizers"),
        rule("read create delete", RESOURCE, "resourceclaims"),
        rule("patch update", RESOURCE, "resourceclaims resourceclaims/status"),
        rule("patch update", "core", "pods/status"),
        EVENTS,
        when(
            "DynamicResourceAllocation",
            rule("read create patch update", RESOURCE, "podschedulingcontexts"),
            classic.CONTROLLER_WRITES_CONTEXTS,
        ),
        when("DRAWorkloadResourceClaims", rule("read", "scheduling.k8s.io", "podgroups")),
        when("DRAWorkloadResourceClaims", rule("patch update", "scheduling.k8s.io", "podgroups/status")),
        when(
            "DRAResourceClaimGranularStatusAuthorization",
            rule("patch update", RESOURCE, "resourceclaims/binding"),
        ),
    ),
    _controller(
        "device-taint-eviction-controller",
        rule("read delete", "core", "pods"),
        rule("patch update", "core", "pods/status"),
        rule("read", RESOURCE, "resourceclaims"),
        rule("read", RESOURCE, "resourceslices"),
        rule("read", RESOURCE, "deviceclasses"),
        EVENTS,
        when("DRADeviceTaintRules", rule("patch update", RESOURCE, "devicetaintrules/status")),
        when("DRADeviceTaintRules", rule("read", RESOURCE, "devicetaintrules")),
        when("DRADeviceTaints", rule("read", RESOURCE, "devicetaintrules"), behaviours.TAINT_RULES_MERGED),
        gates="DRADeviceTaints",
    ),
    _controller(
        "resourcepoolstatusrequest-controller",
        rule("read delete", RESOURCE, "resourcepoolstatusrequests"),
        rule("patch update", RESOURCE, "resourcepoolstatusrequests/status"),
        rule("read", RESOURCE, "resourceslices"),
        rule("read", RESOURCE, "resourceclaims"),
        when("DRADeviceTaintRules", rule("read", RESOURCE, "devicetaintrules"), behaviours.POOL_STATUS_COMPLETE),
        EVENTS,
        gates="DRAResourcePoolStatus",
    ),
    _controller("generic-garbage-collector", rule("read delete patch update", "*", "*"), EVENTS),
    _controller(
        "horizontal-pod-autoscaler",
        rule("read", "autoscaling", "horizontalpodautoscalers"),
        rule("update", "autoscaling", "horizontalpodautoscalers/status"),
        rule("get update", "*", "*/scale"),
        rule("list watch", "core", "pods"),
        rule("list watch", "metrics.k8s.io", "pods"),
        rule("read", "custom.metrics.k8s.io", "*"),
        rule("read", "external.metrics.k8s.io", "*"),
        EVENTS,
    ),
    _controller(
        "job-controller",
        rule("read patch update", "batch", "jobs"),
        rule("update", "batch", "jobs/status"),
        rule("update", "batch", "jobs/finalizers"),
        _OWN_PODS,
        EVENTS,
        when("WorkloadWithJob", rule("read create patch update", "scheduling.k8s.io", "podgroups workloads")),
    ),
    _controller(
        "namespace-controller",
        rule("read delete", "core", "namespaces"),
        rule("update", "core", "namespaces/finalize namespaces/status"),
        rule("read delete deletecollection", "*", "*"),
    ),
    _controller(
        "node-controller",
        rule("read delete patch update", "core", "nodes"),
        rule("patch update", "core", "nodes/status"),
        rule("patch update", "core", "pods/status"),
        rule("read delete", "core", "pods"),
        rule("read", "coordination.k8s.io", "leases"),
        EVENTS,
    ),
    _controller(
        "persistent-volume-binder",
        rule("read create delete update", "core", "persistentvolumes"),
        rule("update", "core", "persistentvolumes/status"),
        rule("read update", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule("read create delete", "core", "pods"),
        rule("read", _STORAGE, "storageclasses"),
        rule("list watch", "core", "nodes"),
        EVENTS,
        rule("watch", "core", "events"),
    ),
    _controller(
        "pod-garbage-collector",
        rule("delete list watch", "core", "pods"),
        rule("read", "core", "nodes"),
        rule("patch", "core", "pods/status"),
    ),
    _controller(
        "replicaset-controller",
        rule("read update", "apps extensions", "replicasets"),
        rule("update", "apps extensions", "replicasets/status"),
        rule("update", "apps extensions", "replicasets/finalizers"),
        _OWN_PODS,
        EVENTS,
    ),
    _controller(
        "replication-controller",
        rule("read update", "core", "replicationcontrollers"),
        rule("update", "core", "replicationcontrollers/status"),
        rule("update", "core", "replicationcontrollers/finalizers"),
        _OWN_PODS,
        EVENTS,
    ),
    _controller(
        "resourcequota-controller",
        rule("list watch", "*", "*"),
        rule("update", "core", "resourcequotas/status"),
        EVENTS,
    ),
    _controller("route-controller", rule("list watch", "core", "nodes"), rule("patch", "core", "nodes/status"), EVENTS),
    _controller("service-account-controller", rule("create", "core", "serviceaccounts"), EVENTS),
    _controller(
        "service-controller",
        rule("read", "core", "services"),
        rule("patch update", "core", "services/status"),
        rule("list watch", "core", "nodes"),
        EVENTS,
    ),
    _controller(
        "statefulset-controller",
        rule("list watch", "core", "pods"),
        rule("read", "apps", "statefulsets"),
        rule("update", "apps", "statefulsets/status"),
        rule("update", "apps", "statefulsets/finalizers"),
        rule("create delete get patch update", "core", "pods"),
        rule("read create delete patch update", "apps", "controllerrevisions"),
        rule("read create", "core", "persistentvolumeclaims"),
        rule("delete update", "core", "persistentvolumeclaims"),
        rule("update", "core", "pods/finalizers"),
        EVENTS,
    ),
    _controller("ttl-controller", rule("list patch update watch", "core", "nodes"), EVENTS),
    _controller(
        "certificate-controller",
        rule("read delete", _CERTIFICATES, "certificatesigningrequests"),
        rule("update", _CERTIFICATES, "certificatesigningrequests/approval certificatesigningrequests/status"),
        rule("approve", _CERTIFICATES, "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
        rule("sign", _CERTIFICATES, "signers", _SIGNERS),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        EVENTS,
    ),
    _controller(
        "pvc-protection-controller",
        rule("read update", "core", "persistentvolumeclaims"),
        rule("update", "core", "persistentvolumeclaims/status"),
        rule("read", "core", "pods"),
        EVENTS,
    ),
    _controller(
        "podgroup-protection-controller",
        rule("read update", "scheduling.k8s.io", "podgroups"),
        when("CompositePodGroup", rule("read update", "scheduling.k8s.io", "compositepodgroups")),
        rule("read", "core", "pods"),
        gates="GenericWorkload",
    ),
    _controller("pv-protection-controller", rule("read update", "core", "persistentvolumes"), EVENTS),
    _controller("ttl-after-finished-controller", rule("read delete", "batch", "jobs"), EVENTS),
    _controller("root-ca-cert-publisher", rule("create update", "core", "configmaps"), EVENTS),
    _controller(
        "validatingadmissionpolicy-status-controller",
        rule("read", "admissionregistration.k8s.io", "validatingadmissionpolicies"),
        rule("get patch update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
        EVENTS,
    ),
    _controller(
        "legacy-service-account-token-cleaner",
        rule("get", "core", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
        rule("delete patch", "core", "secrets"),
    ),
)
"""In the order in which a stock server lists them."""
