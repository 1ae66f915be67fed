"""Rules of jobs (docs/spec/controllers.md §7)."""

from __future__ import annotations

import re
from typing import Final

from cathedra.api.core import batch_v1, core_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.formats import dns_subdomain
from cathedra.api.struct import replace
from cathedra.kinds.batch.jobs.policies import (
    validate_failure_policy,
    validate_limits_per_index,
    validate_replacement,
    validate_success_policy,
)
from cathedra.kinds.core.pods.validation import validate_pod_template
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import is_true

__all__ = ["validate_job", "validate_job_spec", "validate_job_update"]

LONGEST_MANAGER: Final = 63
_SPEC = FieldPath("spec")
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


def validate_job(job: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """What is wrong with a new job."""
    errors = ErrorList()
    validate_job_spec(errors, _SPEC, job.spec)
    return errors


def validate_job_spec(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    for name, value in (
        ("parallelism", spec.parallelism),
        ("completions", spec.completions),
        ("activeDeadlineSeconds", spec.active_deadline_seconds),
        ("backoffLimit", spec.backoff_limit),
        ("ttlSecondsAfterFinished", spec.ttl_seconds_after_finished),
        ("backoffLimitPerIndex", spec.backoff_limit_per_index),
        ("maxFailedIndexes", spec.max_failed_indexes),
    ):
        if value is not None and value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    if spec.max_failed_indexes is not None and spec.backoff_limit_per_index is None:
        errors.required(path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
    _validate_manager(errors, path.child("managedBy"), spec.managed_by)
    if spec.completion_mode not in (None, "", "NonIndexed", "Indexed"):
        errors.not_among(path.child("completionMode"), spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        errors.required(path.child("completions"), "when completion mode is Indexed")
    validate_limits_per_index(errors, path, spec)
    validate_failure_policy(errors, path.child("podFailurePolicy"), spec)
    validate_success_policy(errors, path.child("successPolicy"), spec)
    validate_replacement(errors, path.child("podReplacementPolicy"), spec)
    template = path.child("template")
    errors += validate_pod_template(spec.template, template)
    policy, restarts = template.child("spec", "restartPolicy"), spec.template.spec.restart_policy
    if restarts in ("", "Always"):
        errors.required(policy, 'valid values: "OnFailure", "Never"')
    elif restarts not in ("OnFailure", "Never"):
        errors.not_among(policy, restarts, ("OnFailure", "Never"))
    elif spec.pod_failure_policy is not None and restarts != "Never":
        errors.invalid(policy, restarts, 'only "Never" is supported when podFailurePolicy is specified')


def _validate_manager(errors: ErrorList, path: FieldPath, manager: str | None) -> None:
    if manager is None:
        return
    if not manager:
        errors.required(path)
        return
    domain, _, rest = manager.partition("/")
    if not domain or not rest:
        errors.invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")')
        return
    for problem in dns_subdomain(domain):
        errors.invalid(path, domain, problem)
    if not _PATH.fullmatch(rest):
        errors.invalid(path, rest, f"Invalid path (regex used for validation is '{_PATH.pattern}')")
    if len(manager) > LONGEST_MANAGER:
        errors.too_long(path, LONGEST_MANAGER)


def validate_job_update(new: batch_v1.Job, old: batch_v1.Job, gates: FeatureGates) -> ErrorList:
    """What a job may not change: selector, template (unless suspended), completion mode and completions."""
    errors = validate_job(new, gates)
    indexed = new.spec.completion_mode == "Indexed"
    follows = new.spec.completions == new.spec.parallelism
    if new.spec.completions != old.spec.completions and not (indexed and follows):
        errors.invalid(_SPEC.child("completions"), new.spec.completions, "field is immutable")
    for name, attribute in (("selector", "selector"), ("completionMode", "completion_mode")):
        value = getattr(new.spec, attribute)
        if value != getattr(old.spec, attribute):
            errors.invalid(_SPEC.child(name), value, "field is immutable")
    before, after = old.spec.template, new.spec.template
    if _may_move(old, gates):
        before = _moved(before, after)
    if _is_on(gates, "MutablePodResourcesForSuspendedJobs") and _has_stopped(old):
        before = _resized(before, after)
    if after != before:
        errors.invalid(_SPEC.child("template"), after, "field is immutable")
    for name, attribute in (
        ("podFailurePolicy", "pod_failure_policy"),
        ("backoffLimitPerIndex", "backoff_limit_per_index"),
        ("managedBy", "managed_by"),
        ("successPolicy", "success_policy"),
    ):
        value = getattr(new.spec, attribute)
        if value != getattr(old.spec, attribute):
            errors.invalid(_SPEC.child(name), value, "field is immutable")
    return errors


def _is_on(gates: FeatureGates, gate: str) -> bool:
    """Whether a gate is on; one that the release does not know is off."""
    return gate in frozenset(gates) and gates[gate]


def _may_move(old: batch_v1.Job, gates: FeatureGates) -> bool:
    """Whether the pods that the job will make may be sent elsewhere: none has been made since it was suspended."""
    if _is_on(gates, "MutableSchedulingDirectivesForSuspendedJobs"):
        return _has_stopped(old)
    return bool(old.spec.suspend) and old.status.start_time is None


def _has_stopped(old: batch_v1.Job) -> bool:
    never_ran = old.status.start_time is None or is_true(old.status.conditions, "Suspended")
    return bool(old.spec.suspend) and not old.status.active and never_ran


def _moved(before: core_v1.PodTemplateSpec, after: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """The old template with what the new one says of nodes; affinity between pods stays."""
    old, new = before.spec.affinity, after.spec.affinity
    nodes = new.node_affinity if new is not None else None
    affinity: core_v1.Affinity | None = replace(old or core_v1.Affinity(), node_affinity=nodes)
    if new is None and affinity == core_v1.Affinity():
        affinity = None
    names = ("node_selector", "tolerations", "scheduling_gates")
    spec = replace(before.spec, affinity=affinity, **{name: getattr(after.spec, name) for name in names})
    metadata = replace(before.metadata, labels=after.metadata.labels, annotations=after.metadata.annotations)
    return replace(before, metadata=metadata, spec=spec)


def _resized(before: core_v1.PodTemplateSpec, after: core_v1.PodTemplateSpec) -> core_v1.PodTemplateSpec:
    """The old template with the resources that the new one has for each container."""
    resized: dict[str, tuple[core_v1.Container, ...]] = {}
    for name in ("containers", "init_containers"):
        old, new = getattr(before.spec, name) or (), getattr(after.spec, name) or ()
        if old and len(old) == len(new):
            pairs = zip(old, new, strict=True)
            resized[name] = tuple(replace(one, resources=other.resources) for one, other in pairs)
    return replace(before, spec=replace(before.spec, **resized))
