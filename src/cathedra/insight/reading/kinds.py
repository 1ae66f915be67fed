"""The kinds that tools read, and what is not known without them."""

from __future__ import annotations

from typing import Final

import msgspec

from cathedra.api.core import apps_v1, batch_v1, core_v1, policy_v1, scheduling_v1, scheduling_v1beta1
from cathedra.api.core.meta_v1 import KubeObject
from cathedra.api.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from cathedra.client.resources import resource_ref
from cathedra.client.transport import ResourceRef

__all__ = ["READ_KINDS", "ReadKind", "read_kind"]


class ReadKind(msgspec.Struct, frozen=True):
    """A kind that is read, and what is not known where it cannot be."""

    ref: ResourceRef[KubeObject]
    consequence: str = ""
    """What is not known without it; "" for kinds that few clusters have, and that are not missed."""

    @property
    def plural(self) -> str:
        """The resource's name, as in ``kubectl get``."""
        return self.ref.resource


def _kind(kind: type[KubeObject], plural: str, consequence: str = "", *, namespaced: bool = True) -> ReadKind:
    return ReadKind(resource_ref(kind, plural, namespaced=namespaced), consequence)


READ_KINDS: Final = (
    _kind(
        core_v1.Node,
        "nodes",
        "every node that a slice names is taken for one without labels, taints and limits",
        namespaced=False,
    ),
    _kind(
        core_v1.Pod,
        "pods",
        "which pods use claims, and how much CPU and memory is in use, is not known",
    ),
    _kind(ResourceSlice, "resourceslices", "no device is known", namespaced=False),
    _kind(DeviceClass, "deviceclasses", "which device classes exist is not known", namespaced=False),
    _kind(ResourceClaim, "resourceclaims", "all devices are taken to be free"),
    _kind(ResourceClaimTemplate, "resourceclaimtemplates"),
    _kind(DeviceTaintRule, "devicetaintrules", namespaced=False),
    _kind(core_v1.Namespace, "namespaces", namespaced=False),
    _kind(core_v1.ResourceQuota, "resourcequotas"),
    _kind(core_v1.Event, "events"),
    _kind(apps_v1.Deployment, "deployments"),
    _kind(apps_v1.ReplicaSet, "replicasets"),
    _kind(apps_v1.StatefulSet, "statefulsets"),
    _kind(apps_v1.DaemonSet, "daemonsets"),
    _kind(batch_v1.Job, "jobs"),
    _kind(batch_v1.CronJob, "cronjobs"),
    _kind(core_v1.ReplicationController, "replicationcontrollers"),
    _kind(policy_v1.PodDisruptionBudget, "poddisruptionbudgets"),
    _kind(scheduling_v1.PriorityClass, "priorityclasses", namespaced=False),
    _kind(scheduling_v1beta1.PodGroup, "podgroups"),
)
"""In the order in which notes speak of them."""


def read_kind(kind: type[KubeObject]) -> ReadKind:
    """The entry of a kind.

    Raises:
        KeyError: it is not read.
    """
    for one in READ_KINDS:
        if one.ref.type is kind:
            return one
    raise KeyError(kind.__name__)
