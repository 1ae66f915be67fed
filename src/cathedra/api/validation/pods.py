"""Rules of pods and pod templates: the claims they use, and what every pod must be like (spec: api.md, section 6)."""

from __future__ import annotations

from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.gates import FeatureGates

__all__ = ["validate_pod", "validate_pod_template"]


def validate_pod(pod: core_v1.Pod, gates: FeatureGates) -> ErrorList:
    """What is wrong with a new pod."""
    return validate_pod_spec(pod.spec, FieldPath("spec"), gates)


def validate_pod_template(template: core_v1.PodTemplateSpec, path: FieldPath, gates: FeatureGates) -> ErrorList:
    """What is wrong with the pods that a template would make."""
    return validate_pod_spec(template.spec, path.child("spec"), gates)


def validate_pod_spec(spec: core_v1.PodSpec, path: FieldPath, gates: FeatureGates) -> ErrorList:
    """What is wrong with a pod's spec."""
    errors = ErrorList()
    if not spec.containers:
        errors.required(path.child("containers"))
    return errors
