"""Pods of a job: creation, pod failure policy, and the back-off after failures.

The back-off doubles with every failure since the last success. The failed pods may be deleted by then, so their number
and the time of the last one are remembered, as in Kubernetes (``pkg/controller/job/backoff_utils.go``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from cathedra.api.core.batch_v1 import Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule
from cathedra.api.core.core_v1 import Container, ContainerStatus, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_reference

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def is_indexed(job: Job) -> bool:
    """Return True if each completion has a number of its own."""
    return job.spec.completion_mode == "Indexed"


def replaces_only_failed(job: Job) -> bool:
    """Return True if a terminating pod is replaced (and counted) only once it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_tracked(pod: Pod) -> bool:
    """Return True if the pod still has to be counted."""
    return TRACKING in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """Return the pod's completion index, None if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Return True if the pod stands for one of the job's completions; in an indexed job only those do that have its
    index.
    """
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < (job.spec.completions or 0)


def failure_count(pod: Pod) -> int:
    """Return the number of pods of the same index that failed before this one."""
    text = pod.metadata.annotations.get(FAILURE_COUNT, "0")
    return int(text) if text.isdigit() else 0


def has_failed(pod: Pod, job: Job) -> bool:
    """Return True if the pod counts as failed; one that is being deleted does too unless the job waits for its end.

    Pods that are deleted together with their job do not count: Kubernetes takes their finalizers away, and so ends to
    count them, before its garbage collector deletes them.
    """
    if pod.status.phase == "Failed":
        return True
    if replaces_only_failed(job) or job.metadata.deletion_timestamp is not None:
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def all_failures(pod: Pod) -> int:
    """Return the number of pods of the same index that failed before this one, including those that the
    policy ignores.
    """
    text = pod.metadata.annotations.get(IGNORED_FAILURE_COUNT, "0")
    return failure_count(pod) + (int(text) if text.isdigit() else 0)


def finish_time(pod: Pod, now: float) -> float:
    """Return the time at which the pod ended (epoch seconds), as exactly as its status has it."""
    ends = [
        status.state.terminated.finished_at.timestamp
        for status in pod.status.container_statuses
        if status.state.terminated and status.state.terminated.finished_at
    ]
    # Only if all have ended; otherwise the pod went on after the last of these times.
    if ends and len(ends) == len(pod.status.container_statuses):
        return max(ends)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time.timestamp
    if pod.metadata.deletion_timestamp is not None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        # The deletion timestamp is when the grace period ends.
        return pod.metadata.deletion_timestamp.timestamp - grace
    return pod.metadata.creation_timestamp.timestamp if pod.metadata.creation_timestamp else now


def new_pod(job: Job, index: int | None, replaced: Pod | None = None) -> Pod:
    """Return the next pod of ``job``; with an index for indexed jobs, and the failures of that index up to
    ``replaced``."""
    template = job.spec.template
    metadata = ObjectMeta(
        generate_name=f"{job.metadata.name}-" if index is None else f"{job.metadata.name}-{index}-",
        namespace=job.metadata.namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
        finalizers=(*template.metadata.finalizers, TRACKING),
        owner_references=(controller_reference(job),),
    )
    spec = template.spec
    if index is None:
        return Pod(metadata=metadata, spec=spec)
    annotations = {**metadata.annotations, INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        annotations.update(_failure_counts(job, replaced))
    metadata = replace(metadata, annotations=annotations, labels={**metadata.labels, INDEX: str(index)})
    spec = replace(
        spec,
        hostname=f"{job.metadata.name}-{index}",
        containers=_with_index_variable(spec.containers or ()),
        init_containers=_with_index_variable(spec.init_containers),
    )
    return Pod(metadata=metadata, spec=spec)


def _failure_counts(job: Job, replaced: Pod | None) -> dict[str, str]:
    if replaced is None:
        return {FAILURE_COUNT: "0"}
    # Both counts are in annotations, because the failed pod may be deleted before its replacement fails.
    counted = judge(job, replaced).action != "Ignore"
    before = failure_count(replaced)
    ignored = all_failures(replaced) - before + (not counted)
    counts = {FAILURE_COUNT: str(before + counted)}
    return {**counts, IGNORED_FAILURE_COUNT: str(ignored)} if ignored else counts


def _with_index_variable(containers: Iterable[Container]) -> tuple[Container, ...]:
    field = ObjectFieldSelector(field_path=f"metadata.labels['{INDEX}']")
    variable = EnvVar(name=_INDEX_VARIABLE, value_from=EnvVarSource(field_ref=field))
    return tuple(
        container
        if any(known.name == _INDEX_VARIABLE for known in container.env)
        else replace(container, env=(*container.env, variable))
        for container in containers
    )


class PolicyMatch(msgspec.Struct, frozen=True):
    """``action`` is Count, Ignore, FailJob or FailIndex; ``message`` is the reason if the job fails."""

    action: str
    message: str = ""


def judge(job: Job, pod: Pod) -> PolicyMatch:
    """Return the verdict of the first rule that fits; without one the failure counts."""
    policy = job.spec.pod_failure_policy
    if policy is None:
        return PolicyMatch("Count")
    for number, rule in enumerate(policy.rules):
        message = _match(rule, number, pod)
        if message is not None:
            return PolicyMatch(rule.action, message)
    return PolicyMatch("Count")


def _match(rule: PodFailurePolicyRule, number: int, pod: Pod) -> str | None:
    where = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if rule.on_exit_codes is not None:
        container = next(_matching_containers(rule.on_exit_codes, pod), None)
        if container is None or container.state.terminated is None:
            return None
        return (
            f"Container {container.name} for pod {where} failed with exit code "
            f"{container.state.terminated.exit_code} matching {rule.action} rule at index {number}"
        )
    for pattern in rule.on_pod_conditions:
        for condition in pod.status.conditions:
            if (condition.type, condition.status) == (pattern.type, pattern.status or "True"):
                return f"Pod {where} has condition {condition.type} matching {rule.action} rule at index {number}"
    return None


def _matching_containers(rule: PodFailurePolicyOnExitCodesRequirement, pod: Pod) -> Iterator[ContainerStatus]:
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        # Without a name the rule is about any container.
        if rule.container_name is not None and status.name != rule.container_name:
            continue
        ended = status.state.terminated
        if ended is None or ended.exit_code == 0:
            continue
        if (ended.exit_code in rule.values) == (rule.operator == "In"):
            yield status


FIRST_FAILURE_DELAY: Final = 10.0
LONGEST_FAILURE_DELAY: Final = 600.0


class PodFailures(msgspec.Struct, frozen=True):
    """Failures in a row, and when the last one ended (epoch seconds)."""

    count: int = 0
    last: float = 0.0

    def after(self, succeeded: Iterable[Pod], failed: Iterable[Pod], now: float) -> PodFailures:
        """With the pods that have ended since; a success forgives what failed before it."""
        successes = sorted(finish_time(pod, now) for pod in succeeded)
        failures = sorted(finish_time(pod, now) for pod in failed)
        if not successes:
            return PodFailures(self.count + len(failures), failures[-1]) if failures else self
        # Only failures after the last success count for the back-off.
        failures = [end for end in failures if end > successes[-1]]
        return PodFailures(len(failures), failures[-1]) if failures else PodFailures()

    def pause(self, now: float) -> float:
        """Return the seconds until a pod may be created again."""
        return pause_after(self.count, self.last, now)


def pause_after(failures: int, last: float, now: float) -> float:
    """Return the seconds to wait after ``failures``, of which the last one ended at ``last`` (epoch seconds)."""
    if failures == 0:
        return 0.0
    # The exponent is limited: a job with thousands of failures would overflow.
    delay = min(FIRST_FAILURE_DELAY * 2.0 ** min(failures - 1, 10), LONGEST_FAILURE_DELAY)
    return max(0.0, last + delay - now)
