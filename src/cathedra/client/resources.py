"""The resources that Cathedra's parts work with, each a constant: what to hand to a client or an informer.

A constant pairs the name that goes into the URL with the struct its objects have, so that every call is typed. Kinds
without a constant (also custom resources) get theirs from `resource_ref`.
"""

from __future__ import annotations

from typing import Final, TypeVar

from cathedra.api import resource
from cathedra.api.core import (
    apps_v1,
    batch_v1,
    certificates_v1,
    coordination_v1,
    core_v1,
    discovery_v1,
    policy_v1,
    rbac_v1,
    resource_v1alpha3,
    scheduling_v1,
    scheduling_v1alpha3,
    scheduling_v1beta1,
    storage_v1,
)
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.scheme import kind_of
from cathedra.client.transport import ResourceRef

T = TypeVar("T", bound=KubeObject)


def resource_ref(kind: type[T], plural: str, *, namespaced: bool) -> ResourceRef[T]:
    """Return the resource ``plural`` whose objects are ``kind``; group, version and kind come from the struct.

    Raises:
        UnknownKind: the struct is no kind of its own.
    """
    gvk = kind_of(kind)
    return ResourceRef(gvk.group, gvk.version, plural, gvk.kind, namespaced, kind)


def _namespaced(kind: type[T], plural: str) -> ResourceRef[T]:
    return resource_ref(kind, plural, namespaced=True)


def _cluster(kind: type[T], plural: str) -> ResourceRef[T]:
    return resource_ref(kind, plural, namespaced=False)


PODS: Final = _namespaced(core_v1.Pod, "pods")
NODES: Final = _cluster(core_v1.Node, "nodes")
NAMESPACES: Final = _cluster(core_v1.Namespace, "namespaces")
EVENTS: Final = _namespaced(core_v1.Event, "events")
CONFIGMAPS: Final = _namespaced(core_v1.ConfigMap, "configmaps")
SECRETS: Final = _namespaced(core_v1.Secret, "secrets")
CERTIFICATESIGNINGREQUESTS: Final = _cluster(certificates_v1.CertificateSigningRequest, "certificatesigningrequests")
SERVICEACCOUNTS: Final = _namespaced(core_v1.ServiceAccount, "serviceaccounts")
SERVICES: Final = _namespaced(core_v1.Service, "services")
ENDPOINTSLICES: Final = _namespaced(discovery_v1.EndpointSlice, "endpointslices")
RESOURCEQUOTAS: Final = _namespaced(core_v1.ResourceQuota, "resourcequotas")
LIMITRANGES: Final = _namespaced(core_v1.LimitRange, "limitranges")
REPLICATIONCONTROLLERS: Final = _namespaced(core_v1.ReplicationController, "replicationcontrollers")
PERSISTENTVOLUMES: Final = _cluster(core_v1.PersistentVolume, "persistentvolumes")
PERSISTENTVOLUMECLAIMS: Final = _namespaced(core_v1.PersistentVolumeClaim, "persistentvolumeclaims")
CONTROLLERREVISIONS: Final = _namespaced(apps_v1.ControllerRevision, "controllerrevisions")
DEPLOYMENTS: Final = _namespaced(apps_v1.Deployment, "deployments")
REPLICASETS: Final = _namespaced(apps_v1.ReplicaSet, "replicasets")
STATEFULSETS: Final = _namespaced(apps_v1.StatefulSet, "statefulsets")
DAEMONSETS: Final = _namespaced(apps_v1.DaemonSet, "daemonsets")
JOBS: Final = _namespaced(batch_v1.Job, "jobs")
CRONJOBS: Final = _namespaced(batch_v1.CronJob, "cronjobs")
LEASES: Final = _namespaced(coordination_v1.Lease, "leases")
PODDISRUPTIONBUDGETS: Final = _namespaced(policy_v1.PodDisruptionBudget, "poddisruptionbudgets")
ROLES: Final = _namespaced(rbac_v1.Role, "roles")
ROLEBINDINGS: Final = _namespaced(rbac_v1.RoleBinding, "rolebindings")
CLUSTERROLES: Final = _cluster(rbac_v1.ClusterRole, "clusterroles")
CLUSTERROLEBINDINGS: Final = _cluster(rbac_v1.ClusterRoleBinding, "clusterrolebindings")
RESOURCECLAIMS: Final = _namespaced(resource.ResourceClaim, "resourceclaims")
RESOURCECLAIMTEMPLATES: Final = _namespaced(resource.ResourceClaimTemplate, "resourceclaimtemplates")
RESOURCESLICES: Final = _cluster(resource.ResourceSlice, "resourceslices")
DEVICECLASSES: Final = _cluster(resource.DeviceClass, "deviceclasses")
DEVICETAINTRULES: Final = _cluster(resource.DeviceTaintRule, "devicetaintrules")
RESOURCEPOOLSTATUSREQUESTS: Final = _cluster(resource_v1alpha3.ResourcePoolStatusRequest, "resourcepoolstatusrequests")
PRIORITYCLASSES: Final = _cluster(scheduling_v1.PriorityClass, "priorityclasses")
COMPOSITEPODGROUPS: Final = _namespaced(scheduling_v1alpha3.CompositePodGroup, "compositepodgroups")
PODGROUPS: Final = _namespaced(scheduling_v1beta1.PodGroup, "podgroups")
WORKLOADS: Final = _namespaced(scheduling_v1beta1.Workload, "workloads")
STORAGECLASSES: Final = _cluster(storage_v1.StorageClass, "storageclasses")
CSINODES: Final = _cluster(storage_v1.CSINode, "csinodes")
