"""Rules of a pod's spec, alone and in a workload's template."""

from __future__ import annotations

from typing import Final

from cathedra.api import formats
from cathedra.api.core import core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import check
from cathedra.kinds.core.pods.patterns import SPECS
from cathedra.kinds.core.pods.validation.claims import (
    MIRROR_ANNOTATION,
    claim_names,
    validate_mirror,
    validate_pod_claims,
)
from cathedra.kinds.core.pods.validation.containers import (
    PodReferences,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from cathedra.kinds.core.pods.validation.dns import validate_dns_config
from cathedra.kinds.core.pods.validation.resources import validate_pod_resources
from cathedra.kinds.core.pods.validation.scheduling import (
    validate_affinity,
    validate_gates,
    validate_spread,
    validate_tolerations,
)
from cathedra.kinds.core.pods.validation.security import validate_pod_security
from cathedra.kinds.core.pods.validation.systems import validate_system
from cathedra.kinds.core.pods.validation.volumes import validate_volumes
from cathedra.kinds.identity import KnownObjects
from cathedra.kinds.metadata import validate_annotations, validate_labels

__all__ = ["SPEC", "validate_any_pod", "validate_pod", "validate_pod_template"]

SPEC: Final = FieldPath("spec")
_CLAIMS: Final = "spec.resourceClaims"
"""Of a static pod it matters that there are claims, not what they are."""
_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES: Final = ("Never", "PreemptLowerPriority")
_MAX_INT32: Final = 2**31 - 1


def validate_pod(pod: core_v1.Pod) -> ErrorList:
    """What is wrong with a new pod."""
    errors = validate_any_pod(pod)
    if pod.spec.ephemeral_containers:
        errors.forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create")
    if pod.spec.node_name and pod.spec.scheduling_gates:
        errors.forbidden(SPEC.child("nodeName"), "cannot be set until all schedulingGates have been cleared")
    return errors


def validate_any_pod(pod: core_v1.Pod) -> ErrorList:
    """What is wrong with a pod, new or changed."""
    errors = ErrorList()
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        validate_mirror(errors, pod)
    pattern = SPECS.pattern(pod.spec)
    if not _SOUND.knows(pattern):
        found = ErrorList()
        _validate_spec(found, SPEC, pod.spec)
        _validate_images(found, pod.spec)
        if not found:
            _SOUND.add(pattern)
        errors.extend(found)
    if MIRROR_ANNOTATION in pod.metadata.annotations:
        return ErrorList(error for error in errors if not str(error.field).startswith(_CLAIMS))
    return errors


_SOUND: Final = KnownObjects()
"""Patterns of specs in which nothing was found wrong."""


def _validate_images(errors: ErrorList, spec: core_v1.PodSpec) -> None:
    for name, group in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for position, container in enumerate(group):
            if container.image != container.image.strip():
                where = SPEC.child(name).index(position).child("image")
                errors.invalid(where, container.image, "must not have leading or trailing whitespace")


def validate_pod_template(template: core_v1.PodTemplateSpec, path: FieldPath) -> ErrorList:
    """What is wrong with the pods that a template would make."""
    errors = ErrorList()
    validate_labels(errors, path.child("labels"), template.metadata.labels)
    validate_annotations(errors, path.child("annotations"), template.metadata.annotations)
    _validate_spec(errors, path.child("spec"), template.spec)
    if template.spec.ephemeral_containers:
        errors.forbidden(path.child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template")
    return errors


def _validate_spec(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    volumes = validate_volumes(errors, path.child("volumes"), spec.volumes)
    validate_pod_claims(errors, path.child("resourceClaims"), spec.resource_claims)
    own_users = spec.host_users is False
    grace = spec.termination_grace_period_seconds
    around = PodReferences(volumes, claim_names(spec), own_users, grace, spec.restart_policy)
    validate_containers(errors, path.child("containers"), spec.containers, around)
    validate_init_containers(errors, path.child("initContainers"), spec, around)
    validate_ephemeral_containers(errors, path.child("ephemeralContainers"), spec, around)
    validate_pod_resources(errors, path.child("resources"), spec, around.claims)
    _policy(errors, path.child("restartPolicy"), spec.restart_policy, _RESTART_POLICIES)
    _policy(errors, path.child("dnsPolicy"), spec.dns_policy, _DNS_POLICIES)
    validate_labels(errors, path.child("nodeSelector"), spec.node_selector)
    validate_pod_security(errors, path.child("securityContext"), spec)
    validate_affinity(errors, path.child("affinity"), spec.affinity)
    validate_dns_config(errors, path.child("dnsConfig"), spec)
    validate_gates(errors, path.child("schedulingGates"), spec.scheduling_gates)
    validate_spread(errors, path.child("topologySpreadConstraints"), spec.topology_spread_constraints)
    _names(errors, path, spec)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = f"must be between 1 and {_MAX_INT32}, inclusive"
        errors.invalid(path.child("activeDeadlineSeconds"), deadline, text)
    validate_tolerations(errors, path.child("tolerations"), spec.tolerations)
    if spec.preemption_policy is not None:
        _policy(errors, path.child("preemptionPolicy"), spec.preemption_policy, _PREEMPTION_POLICIES)
    validate_system(errors, path, spec)
    if spec.scheduling_group is not None:
        _scheduling_group(errors, path.child("schedulingGroup"), spec.scheduling_group)


def _names(errors: ErrorList, path: FieldPath, spec: core_v1.PodSpec) -> None:
    for name, value, form in (
        ("serviceAccountName", spec.service_account_name, formats.dns_subdomain),
        ("nodeName", spec.node_name, formats.dns_subdomain),
        ("hostname", spec.hostname, formats.dns_label),
        ("subdomain", spec.subdomain, formats.dns_label),
        ("priorityClassName", spec.priority_class_name, formats.dns_subdomain),
        ("runtimeClassName", spec.runtime_class_name, formats.dns_subdomain),
    ):
        if value:
            check(errors, path.child(name), value, form)


def _scheduling_group(errors: ErrorList, path: FieldPath, group: core_v1.PodSchedulingGroup) -> None:
    if group.pod_group_name is None:
        errors.invalid(path, "", "must specify one of: `podGroupName`")
    else:
        check(errors, path.child("podGroupName"), group.pod_group_name, formats.dns_subdomain)


def _policy(errors: ErrorList, path: FieldPath, value: str, known: tuple[str, ...]) -> None:
    if not value:
        errors.required(path)
    elif value not in known:
        errors.not_among(path, value, known)
