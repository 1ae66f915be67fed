"""The pods in objects: a pod itself, or the template of a workload, and where its spec stands."""

from __future__ import annotations

from cathedra.api.core.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from cathedra.api.core.batch_v1 import CronJob, Job
from cathedra.api.core.core_v1 import Pod, PodSpec, PodTemplate, ReplicationController
from cathedra.api.core.meta_v1 import KubeObject

__all__ = ["POD_SPECS", "pod_spec_of"]

POD_SPECS = {
    "Pod": "spec",
    "PodTemplate": "template.spec",
    "CronJob": "spec.jobTemplate.spec.template.spec",
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job"), "spec.template.spec"
    ),
}
"""Kind → the path of its pod's spec."""


def pod_spec_of(obj: KubeObject) -> PodSpec | None:
    """The spec of the object's pods; None if it makes none."""
    if isinstance(obj, Pod):
        return obj.spec
    if isinstance(obj, PodTemplate):
        return obj.template.spec
    if isinstance(obj, CronJob):
        return obj.spec.job_template.spec.template.spec
    if isinstance(obj, (Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, Job)):
        template = obj.spec.template
        return template.spec if template is not None else None
    return None
