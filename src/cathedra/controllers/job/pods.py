"""The pods of a job: how they are made, and what their status says to the job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cathedra.api.core.batch_v1 import Job
from cathedra.api.core.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod
from cathedra.api.core.meta_v1 import ObjectMeta
from cathedra.api.struct import replace
from cathedra.controllers.job.failurepolicy import judge
from cathedra.semantics.conditions import find_condition
from cathedra.semantics.owners import controller_reference

__all__ = [
    "FAILURE_COUNT",
    "INDEX",
    "TRACKING",
    "all_failures",
    "completion_index",
    "failure_count",
    "finish_time",
    "has_failed",
    "has_valid_index",
    "is_indexed",
    "is_tracked",
    "new_pod",
    "replaces_only_failed",
]

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def is_indexed(job: Job) -> bool:
    """Whether each completion has a number of its own."""
    return job.spec.completion_mode == "Indexed"


def replaces_only_failed(job: Job) -> bool:
    """Whether a terminating pod is replaced (and counted) only once it has ended."""
    return job.spec.pod_replacement_policy == "Failed" or job.spec.pod_failure_policy is not None


def is_tracked(pod: Pod) -> bool:
    """Whether the pod still has to be counted."""
    return TRACKING in pod.metadata.finalizers


def completion_index(pod: Pod) -> int | None:
    """The pod's completion index, None if it has none."""
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdigit() else None


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Whether the pod stands for one of the job's completions; in an indexed job only those do that have its index."""
    if not is_indexed(job):
        return True
    index = completion_index(pod)
    return index is not None and index < (job.spec.completions or 0)


def failure_count(pod: Pod) -> int:
    """How many pods of the same index failed before this one."""
    text = pod.metadata.annotations.get(FAILURE_COUNT, "0")
    return int(text) if text.isdigit() else 0


def has_failed(pod: Pod, job: Job) -> bool:
    """Whether the pod counts as failed; one that is being deleted does too unless the job waits for its end."""
    if pod.status.phase == "Failed":
        return True
    if replaces_only_failed(job):
        return False
    return pod.metadata.deletion_timestamp is not None and pod.status.phase != "Succeeded"


def all_failures(pod: Pod) -> int:
    """How many pods of the same index failed before this one, those that the failure policy ignored included."""
    text = pod.metadata.annotations.get(IGNORED_FAILURE_COUNT, "0")
    return failure_count(pod) + (int(text) if text.isdigit() else 0)


def finish_time(pod: Pod, now: float) -> float:
    """When the pod ended (epoch seconds), as well as its status tells."""
    ends = [
        status.state.terminated.finished_at.timestamp
        for status in pod.status.container_statuses
        if status.state.terminated and status.state.terminated.finished_at
    ]
    if ends and len(ends) == len(pod.status.container_statuses):
        return max(ends)
    ready = find_condition(pod.status.conditions, "Ready")
    if ready is not None and ready.status == "False" and ready.last_transition_time is not None:
        return ready.last_transition_time.timestamp
    if pod.metadata.deletion_timestamp is not None:
        grace = pod.metadata.deletion_grace_period_seconds or 0
        return pod.metadata.deletion_timestamp.timestamp - grace
    return pod.metadata.creation_timestamp.timestamp if pod.metadata.creation_timestamp else now


def new_pod(job: Job, index: int | None, replaced: Pod | None = None) -> Pod:
    """The next pod of ``job``; with an index for indexed jobs, and the failures of that index up to ``replaced``."""
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
