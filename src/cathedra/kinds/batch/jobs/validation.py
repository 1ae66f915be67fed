"""Rules of jobs (docs/spec/controllers.md §7)."""

from __future__ import annotations

from cathedra.api.core import batch_v1
from cathedra.api.field import ErrorList, FieldPath
from cathedra.api.gates import FeatureGates
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.validation import validate_pod_template

__all__ = ["validate_job", "validate_job_spec", "validate_job_update"]

_SPEC = FieldPath("spec")


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
    ):
        if value is not None and value < 0:
            errors.invalid(path.child(name), value, "must be greater than or equal to 0")
    if spec.completion_mode not in (None, "", "NonIndexed", "Indexed"):
        errors.not_supported(path.child("completionMode"), spec.completion_mode, ("NonIndexed", "Indexed"))
    if spec.completion_mode == "Indexed" and spec.completions is None:
        errors.required(path.child("completions"), "when completion mode is Indexed")
    template = path.child("template")
    errors += validate_pod_template(spec.template, template)
    policy = template.child("spec", "restartPolicy")
    if spec.template.spec.restart_policy in ("", "Always"):
        errors.required(policy, 'valid values: "OnFailure", "Never"')
    elif spec.template.spec.restart_policy not in ("OnFailure", "Never"):
        errors.not_supported(policy, spec.template.spec.restart_policy, ("OnFailure", "Never"))
    _validate_failure_policy(errors, path.child("podFailurePolicy", "rules"), spec)


def _validate_failure_policy(errors: ErrorList, path: FieldPath, spec: batch_v1.JobSpec) -> None:
    """Rules about exit codes name containers that there are."""
    pod = spec.template.spec
    names = {container.name for container in (*(pod.containers or ()), *pod.init_containers)}
    for number, rule in enumerate(spec.pod_failure_policy.rules if spec.pod_failure_policy is not None else ()):
        name = rule.on_exit_codes.container_name if rule.on_exit_codes is not None else None
        if name is not None and name not in names:
            field = path.index(number).child("onExitCodes", "containerName")
            errors.invalid(field, name, "must be one of the container or initContainer names in the pod template")


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
    if old.spec.suspend and old.status.start_time is None:
        scheduling = {
            name: getattr(after.spec, name) for name in ("affinity", "node_selector", "tolerations", "scheduling_gates")
        }
        metadata = replace(before.metadata, labels=after.metadata.labels, annotations=after.metadata.annotations)
        before = replace(before, metadata=metadata, spec=replace(before.spec, **scheduling))
    if after != before:
        errors.invalid(_SPEC.child("template"), after, "field is immutable")
    return errors
