"""Columns and cells of jobs."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import batch_v1
from cathedra.kinds.columns import AGE, NAME, age, human_duration
from cathedra.kinds.core.pods.templates import CONTAINERS, IMAGES, SELECTOR, container_cells, selector_text
from cathedra.kinds.definition import Column

__all__ = ["JOB_COLUMNS", "job_cells"]

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
    """Cells of a Job."""
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
    return f"{job.status.succeeded}/1 of {parallelism}" if parallelism > 1 else f"{job.status.succeeded}/1"


def _job_duration(job: batch_v1.Job, now: float) -> str:
    if job.status.start_time is None:
        return ""
    end = job.status.completion_time.timestamp if job.status.completion_time else now
    return human_duration(end - job.status.start_time.timestamp)
