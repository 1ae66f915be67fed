"""Defaults, strategy, columns and definition of jobs. A job's pods carry its UID (docs/spec/controllers.md §7)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from cathedra.api.core import batch_v1
from cathedra.api.core.meta_v1 import DeleteOptions, LabelSelector
from cathedra.api.field import OMITTED, ErrorList, FieldPath
from cathedra.api.struct import replace
from cathedra.kinds.batch.jobs.validation import BadIndexes, count_indexes, validate_job, validate_job_update
from cathedra.kinds.builtin import BuiltinKind
from cathedra.kinds.columns import AGE, NAME, age, human_duration
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.disabled_fields import enabled_template
from cathedra.kinds.core.pods.templates import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    container_cells,
    selector_text,
)
from cathedra.kinds.core.pods.warnings import named_workload_warnings
from cathedra.kinds.declarative import (
    FieldTags,
    TypeTags,
    declared_errors,
    label_key,
    long_name,
    minimum,
    short_name,
)
from cathedra.kinds.defaults import absent
from cathedra.kinds.definition import Column, RequestContext, ResourceDefinition
from cathedra.kinds.deletion import DeletionRules, states_propagation
from cathedra.kinds.strategies import GenerationStrategy, ObjectRules
from cathedra.releases import FeatureGates
from cathedra.semantics.conditions import is_true

ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class JobStrategy(GenerationStrategy[batch_v1.Job]):
    """Jobs mark their pods with the job's own uid, so that two jobs never take each other's pods."""

    metadata_checks = 2

    def prepare_create(self, obj: batch_v1.Job, context: RequestContext) -> batch_v1.Job:
        """Generate the selector and the template's labels, unless the author chose to do that himself."""
        # The gate is applied before the selector is generated, so that a dropped field has no effect on what is stored.
        job = _enabled(super().prepare_create(obj, context), None, context)
        if job.spec.manual_selector:
            return job
        # Kubernetes' default for the labels is the very map of the template, into which the generated labels go.
        shared = job.metadata.labels is job.spec.template.metadata.labels
        job = with_selector(job)
        labels = job.spec.template.metadata.labels
        return replace(job, metadata=replace(job.metadata, labels=labels)) if shared or not job.metadata.labels else job

    def prepare_update(self, new: batch_v1.Job, old: batch_v1.Job, context: RequestContext) -> batch_v1.Job:
        """Drop the fields of disabled gates."""
        return super().prepare_update(_enabled(new, old, context), old, context)

    def validate_create(self, obj: batch_v1.Job, context: RequestContext) -> ErrorList:
        """Return a job's own rules and those of its template."""
        errors = validate_job(obj, context.gates)
        errors += validate_job_scheduling(obj, None, context.gates)
        return errors

    def validate_update(self, new: batch_v1.Job, old: batch_v1.Job, context: RequestContext) -> ErrorList:
        """Require that immutable fields are unchanged."""
        errors = validate_job_update(new, old, context.gates)
        errors += validate_job_scheduling(new, old, context.gates)
        return errors


def _enabled(job: batch_v1.Job, old: batch_v1.Job | None, context: RequestContext) -> batch_v1.Job:
    """Return the job without ``scheduling`` if its gate is closed, unless the stored job uses the field."""
    if job.spec.scheduling is None or context.gates["WorkloadWithJob"]:
        return job
    # A stored job keeps the field when the gate is closed later. Otherwise the first unrelated update after a downgrade
    # would remove it, and the job would run on without its pod group.
    if old is not None and old.spec.scheduling is not None:
        return job
    return replace(job, spec=replace(job.spec, scheduling=None))


def with_selector(job: batch_v1.Job) -> batch_v1.Job:
    """Return the job with labels of its own on the template, and a selector for them."""
    uid, name = job.metadata.uid, job.metadata.name
    template = job.spec.template
    own = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    labelled = replace(template, metadata=replace(template.metadata, labels={**template.metadata.labels, **own}))
    selector = job.spec.selector or LabelSelector()
    wanted = {**selector.match_labels, "batch.kubernetes.io/controller-uid": uid}
    spec = replace(job.spec, template=labelled, selector=replace(selector, match_labels=wanted))
    return replace(job, spec=spec)


class JobDeletion(DeletionRules[batch_v1.Job]):
    """Pods of a deleted job stay by default, as the first version of the API had it."""

    orphans_dependents = True

    def warnings(self, options: DeleteOptions) -> Sequence[str]:
        """Warn of defaults that surprise, if the request relies on them."""
        return () if states_propagation(options) else (ORPHAN_WARNING,)


def job_definition() -> ResourceDefinition[batch_v1.Job]:
    """Return the definition of jobs."""
    return BuiltinKind(
        batch_v1.Job,
        "jobs",
        namespaced=True,
        drop_disabled=enabled_template,
        default=default_job,
        strategy=JobStrategy(default_job, ObjectRules(warnings=named_workload_warnings)),
        status_rules=validate_job_status,
        table=(JOB_COLUMNS, job_cells),
        categories=("all",),
        deletion=JobDeletion(),
        field_selectors={"status.successful": lambda job: str(job.status.succeeded)},
    ).definition()


JOB_COLUMNS: Final = (
    NAME,
    Column("Status", description="How the job is doing."),
    Column("Completions", description="Pods that succeeded, of those wanted."),
    Column("Duration", description="How long the job has run."),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
)


def job_cells(job: batch_v1.Job, now: float) -> list[Any]:
    """Return the cells of a Job."""
    return [
        job.metadata.name,
        _job_status(job),
        _completions(job),
        _job_duration(job, now),
        age(job.metadata.creation_timestamp, now),
        *container_cells(job.spec.template),
        selector_text(job.spec.selector),
    ]


def _job_status(job: batch_v1.Job) -> str:
    true = {condition.type for condition in job.status.conditions if condition.status == "True"}
    # A terminal condition outranks deletion, and deletion outranks suspension: kubectl prints one word, and finished
    # jobs with a finalizer would otherwise show as Terminating.
    for word in ("Complete", "Failed"):
        if word in true:
            return word
    if job.metadata.deletion_timestamp is not None:
        return "Terminating"
    for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if word in true:
            return word
    return "Running"


def _completions(job: batch_v1.Job) -> str:
    if job.spec.completions is not None:
        return f"{job.status.succeeded}/{job.spec.completions}"
    parallelism = job.spec.parallelism or 0
    # A job without completions is a work queue. It is complete as soon as one pod has succeeded and the others have
    # ended, therefore "1 of N".
    return f"{job.status.succeeded}/1 of {parallelism}" if parallelism > 1 else f"{job.status.succeeded}/1"


def _job_duration(job: batch_v1.Job, now: float) -> str:
    if job.status.start_time is None:
        return ""
    # Only successful jobs have a completion time. For failed ones the column goes on counting, as it does in
    # Kubernetes.
    end = job.status.completion_time.timestamp if job.status.completion_time else now
    return human_duration(end - job.status.start_time.timestamp)


def default_job(job: batch_v1.Job) -> batch_v1.Job:
    """Return a job with its completions, parallelism and back-off limit."""
    labels = job.spec.template.metadata.labels
    # The labels are shared by identity, not copied: `JobStrategy.prepare_create` recognizes the default by it.
    if not job.metadata.labels and labels:
        job = replace(job, metadata=replace(job.metadata, labels=labels))
    return replace(job, spec=default_job_spec(job.spec))


def default_job_spec(spec: batch_v1.JobSpec) -> batch_v1.JobSpec:
    """Return the same for the job of a CronJob."""
    changes: dict[str, Any] = {"template": default_pod_template(spec.template)}
    if spec.completions is None and spec.parallelism is None:
        changes["completions"] = 1
    if spec.pod_failure_policy is not None:
        changes["pod_failure_policy"] = _default_policy(spec.pod_failure_policy)
    changes |= absent(
        spec,
        parallelism=1,
        # With a limit per index the limit of the whole job must never be reached first, so its default is the largest
        # int32.
        backoff_limit=2**31 - 1 if spec.backoff_limit_per_index is not None else 6,
        completion_mode="NonIndexed",
        suspend=False,
        manual_selector=False,
        # A failure policy counts pods by how they ended. A replacement that starts while its predecessor still
        # terminates would run before the policy has judged that pod.
        pod_replacement_policy="Failed" if spec.pod_failure_policy is not None else "TerminatingOrFailed",
    )
    return replace(spec, **changes)


def _default_policy(policy: batch_v1.PodFailurePolicy) -> batch_v1.PodFailurePolicy:
    """Return the policy with the status "True" in rules about a condition that name none."""

    def pattern(
        given: batch_v1.PodFailurePolicyOnPodConditionsPattern,
    ) -> batch_v1.PodFailurePolicyOnPodConditionsPattern:
        return given if given.status else replace(given, status="True")

    rules = tuple(
        replace(rule, on_pod_conditions=tuple(pattern(one) for one in rule.on_pod_conditions)) for rule in policy.rules
    )
    return policy if rules == policy.rules else replace(policy, rules=rules)


# Rules of a job's ``spec.scheduling``, which states how its pods are scheduled together (KEP-5547).
#
# The rules of single fields are tags of the building blocks. Two rules need more than one field: a gang that is larger
# than the parallelism could never be scheduled, and the policy may change its size but not its kind.

MAX_CLAIMS: Final = 4
_CLAIM: Final = TypeTags(
    {
        "name": FieldTags(required=True, checks=(short_name,)),
        "resourceClaimName": FieldTags(checks=(long_name,)),
        "resourceClaimTemplateName": FieldTags(checks=(long_name,)),
    },
    union=("resourceClaimName", "resourceClaimTemplateName"),
)
_POLICY: Final = TypeTags(
    {
        "basic": FieldTags(immutable=True),
        "gang": FieldTags(settled=True, of=TypeTags({"minCount": FieldTags(checks=(minimum(1),))})),
    },
    union=("basic", "gang"),
)
_TOPOLOGY: Final = TypeTags({"key": FieldTags(required=True, checks=(label_key,))})
_SCHEDULING: Final = TypeTags(
    {
        "schedulingPolicy": FieldTags(settled=True, of=_POLICY),
        "schedulingConstraints": FieldTags(
            immutable=True, of=TypeTags({"topology": FieldTags(max_items=1, of=_TOPOLOGY)})
        ),
        "disruptionMode": FieldTags(immutable=True, of=TypeTags(union=("single", "all"))),
        "resourceClaims": FieldTags(immutable=True, max_items=MAX_CLAIMS, unique=("name",), of=_CLAIM),
    }
)
_JOB: Final = TypeTags({"spec": FieldTags(of=TypeTags({"scheduling": FieldTags(settled=True, of=_SCHEDULING)}))})


def validate_job_scheduling(job: batch_v1.Job, old: batch_v1.Job | None, gates: FeatureGates) -> ErrorList:
    """Return the errors of ``spec.scheduling``; none while the gate is off, which keeps a stored field as it is."""
    # Without the field no gate is read: earlier releases have neither.
    stated = job.spec.scheduling is not None or (old is not None and old.spec.scheduling is not None)
    if not stated or not gates["WorkloadWithJob"]:
        return ErrorList()
    errors = declared_errors(_JOB, job, old, beta=True)
    policy = job.spec.scheduling.scheduling_policy if job.spec.scheduling is not None else None
    count = policy.gang.min_count if policy is not None and policy.gang is not None else None
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if count is not None and count > parallelism:
        path = FieldPath("spec").child("scheduling", "schedulingPolicy", "gang", "minCount")
        errors.invalid(path, count, "must be less than or equal to spec.parallelism")
    return errors


# Rules of the status of jobs, which other controllers than Kubernetes' own may write (``spec.managedBy``).
#
# Most rules concern a change: an object that was stored with another combination stays writable.

_STATUS: Final = FieldPath("status")
_CONDITIONS: Final = _STATUS.child("conditions")
_COUNTERS: Final = ("active", "succeeded", "failed", "ready", "terminating")
_TERMINAL: Final = ("Failed", "Complete", "FailureTarget")


class _StatusChange:
    """The status of a job before and after a write."""

    def __init__(self, new: batch_v1.Job, old: batch_v1.Job) -> None:
        self.job, self.new, self.old = new, new.status, old.status
        self.complete = self.has("Complete")
        self.failed = self.has("Failed")
        self.finished = self.complete or self.failed

    def has(self, condition: str) -> bool:
        """Return True if the condition is true after the write."""
        return is_true(self.new.conditions, condition)

    def had(self, condition: str) -> bool:
        """Return True if the condition was true before the write."""
        return is_true(self.old.conditions, condition)

    def turns(self, *conditions: str) -> bool:
        """Return True if one of the conditions changes."""
        return any(self.has(condition) is not self.had(condition) for condition in conditions)

    def sets(self, *fields: str) -> bool:
        """Return True if one of the fields changes."""
        return any(getattr(self.new, field) != getattr(self.old, field) for field in fields)

    @property
    def finishes(self) -> bool:
        """True if the job becomes finished, or becomes unfinished."""
        return self.finished is not (self.had("Complete") or self.had("Failed"))


def validate_job_status(new: batch_v1.Job, old: batch_v1.Job) -> ErrorList:
    """Return the errors of a changed status, in Kubernetes' order."""
    errors, change = ErrorList(), _StatusChange(new, old)
    for name in _COUNTERS:
        value = getattr(change.new, name)
        if value is not None and value < 0:
            errors.invalid(_STATUS.child(name), value, "must be greater than or equal to 0")
    _uncounted(errors, change.new)
    _conditions(errors, change)
    _finished(errors, change)
    _indexes(errors, change)
    if change.finished and (change.finishes or change.sets("terminating")) and (change.new.terminating or 0) > 0:
        errors.invalid(
            _STATUS.child("terminating"), change.new.terminating, "terminating>0 is invalid for finished job"
        )
    ready = change.new.ready
    if change.sets("ready", "active") and ready is not None and ready > change.new.active:
        errors.invalid(_STATUS.child("ready"), ready, "cannot set more ready pods than active")
    _success(errors, change)
    _progress(errors, change)
    return errors


def _uncounted(errors: ErrorList, status: batch_v1.JobStatus) -> None:
    uncounted = status.uncounted_terminated_pods
    if uncounted is None:
        return
    seen: set[str] = set()
    for name, uids in (("succeeded", uncounted.succeeded), ("failed", uncounted.failed)):
        for position, uid in enumerate(uids):
            path = _STATUS.child("uncountedTerminatedPods", name).index(position)
            if not uid:
                errors.invalid(path, uid, "must not be empty")
            elif uid in seen:
                errors.duplicate(path, uid)
            seen.add(uid)


def _refuse(errors: ErrorList, words: str) -> None:
    errors.invalid(_CONDITIONS, OMITTED, words)


def _conditions(errors: ErrorList, change: _StatusChange) -> None:
    """Check conditions that exclude or need each other, and the time of completion."""
    status, complete = change.new, change.complete
    if change.turns("Complete", "Failed") and complete and change.failed:
        _refuse(errors, "cannot set Complete=True and Failed=true conditions")
    if change.turns("Complete", "FailureTarget") and complete and change.has("FailureTarget"):
        _refuse(errors, "cannot set Complete=True and FailureTarget=true conditions")
    path, completed = _STATUS.child("completionTime"), status.completion_time
    if change.turns("Complete") or change.sets("completion_time"):
        if completed is not None and not complete:
            words = "cannot set completionTime when there is no Complete=True condition"
            errors.invalid(path, completed, words)
        if completed is None and complete:
            errors.required(path, "completionTime is required for Complete jobs")
    started = status.start_time
    if change.sets("start_time", "completion_time") and started and completed and completed < started:
        errors.invalid(path, completed, "completionTime cannot be set before startTime")
    if (change.turns("Failed") or change.sets("failed_indexes")) and change.failed and not change.has("FailureTarget"):
        _refuse(errors, "cannot set Failed=True condition without the FailureTarget=true condition")
    if change.turns("Complete", "SuccessCriteriaMet") and complete and not change.has("SuccessCriteriaMet"):
        _refuse(errors, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")


def _finished(errors: ErrorList, change: _StatusChange) -> None:
    """Check that a finished job has started and has nothing left to do."""
    if not change.finished:
        return
    status, spec = change.new, change.job.spec
    if status.active > 0 and (change.finishes or change.sets("active")):
        errors.invalid(_STATUS.child("active"), status.active, "active>0 is invalid for finished job")
    # The controller finishes a suspended job of zero completions without ever starting it, so it has no start time.
    never_starts = bool(spec.suspend) and spec.completions == 0
    if status.start_time is None and not never_starts and (change.finishes or change.sets("start_time")):
        errors.required(_STATUS.child("startTime"), "startTime is required for finished job")
    uncounted = status.uncounted_terminated_pods
    left = uncounted is not None and bool(uncounted.failed or uncounted.succeeded)
    if left and (change.finishes or change.sets("uncounted_terminated_pods")):
        words = "uncountedTerminatedPods needs to be empty for finished job"
        errors.invalid(_STATUS.child("uncountedTerminatedPods"), uncounted, words)


def _indexes(errors: ErrorList, change: _StatusChange) -> None:
    """Check the indexes that have succeeded and those that have failed."""
    spec, status = change.job.spec, change.new
    completions, failed = spec.completions, status.failed_indexes
    path, other = _STATUS.child("completedIndexes"), _STATUS.child("failedIndexes")
    new_completed, new_failed = change.sets("completed_indexes"), change.sets("failed_indexes")
    if new_completed and completions is not None:
        _format(errors, path, "completedIndexes", status.completed_indexes, completions)
    if new_failed and completions is not None and spec.backoff_limit_per_index is not None and failed is not None:
        _format(errors, other, "failedIndexes", failed, completions)
    if new_completed and status.completed_indexes and spec.completion_mode != "Indexed":
        words = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.invalid(path, status.completed_indexes, words)
    if new_failed and failed is not None and spec.backoff_limit_per_index is None:
        errors.invalid(other, failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
    if (new_completed or new_failed) and completions is not None and failed is not None:
        both = _first_common(status.completed_indexes, failed)
        if both is not None:
            errors.invalid(other, failed, f"failedIndexes and completedIndexes overlap at index: {both}")


def _format(errors: ErrorList, path: FieldPath, name: str, text: str, completions: int) -> None:
    try:
        count_indexes(text, completions)
    except BadIndexes as error:
        errors.invalid(path, text, f"error parsing {name}: {error}")


def _first_common(completed: str, failed: str) -> int | None:
    """Return the first index in both lists; None if there is none. What cannot be read is passed over."""
    common = [
        max(one[0], other[0])
        for one in _intervals(completed)
        for other in _intervals(failed)
        if one[0] <= other[1] and other[0] <= one[1]
    ]
    return min(common, default=None)


def _intervals(text: str) -> Collection[tuple[int, int]]:
    found = []
    # The format is validated elsewhere, and both lists are user input of unbounded length. Without these bounds one
    # status update could hold the server's loop for seconds: every pair of intervals is compared.
    for part in text.split(",")[:_MOST_INTERVALS]:
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(part) <= _LONGEST_INTERVAL:
            found.append((int(first), int(last or first)))
    return found


_MOST_INTERVALS: Final = 1_000
"""Intervals that are compared with each other. Controllers write a few; each pair is a comparison."""
_LONGEST_INTERVAL: Final = 32


def _success(errors: ErrorList, change: _StatusChange) -> None:
    met = change.has("SuccessCriteriaMet")
    if met and change.failed:
        _refuse(errors, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and change.has("FailureTarget"):
        _refuse(errors, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if change.job.spec.success_policy is not None and not met and change.complete:
        _refuse(errors, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")


def _progress(errors: ErrorList, change: _StatusChange) -> None:
    """Check that nothing that was reached is taken back."""
    new, old, spec = change.new, change.old, change.job.spec
    for condition in _TERMINAL:
        if change.had(condition) and not change.has(condition):
            _refuse(errors, f"cannot disable the terminal {condition}=True condition")
    if new.failed < old.failed:
        errors.invalid(_STATUS.child("failed"), new.failed, "cannot decrease the failed counter")
    # An indexed job with as many pods as completions may be scaled down, and then counts fewer successes.
    elastic = spec.completion_mode == "Indexed" and spec.completions == spec.parallelism
    if new.succeeded < old.succeeded and not elastic:
        errors.invalid(_STATUS.child("succeeded"), new.succeeded, "cannot decrease the succeeded counter")
    if _differ(new.completion_time, old.completion_time) and new.completion_time is not None:
        errors.invalid(_STATUS.child("completionTime"), new.completion_time, "completionTime cannot be mutated")
    # Suspending a job resets its start time, so that activeDeadlineSeconds counts from the time when it resumes.
    if _differ(new.start_time, old.start_time) and not spec.suspend:
        errors.required(_STATUS.child("startTime"), "startTime cannot be removed for unsuspended job")
    met, was_met = change.has("SuccessCriteriaMet"), change.had("SuccessCriteriaMet")
    if was_met and not met:
        _refuse(errors, "cannot disable the SuccessCriteriaMet=True condition")
    if change.had("Complete") and not was_met and met:
        _refuse(errors, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")


def _differ(new: Any, old: Any) -> bool:
    """Return True if a time that was set is another one now."""
    return old is not None and new != old
