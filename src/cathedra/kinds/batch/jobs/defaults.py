"""Defaults of jobs (docs/spec/controllers.md §7)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import batch_v1
from cathedra.api.struct import replace
from cathedra.kinds.core.pods.defaults import default_pod_template
from cathedra.kinds.core.pods.templates import with_template_labels
from cathedra.kinds.defaults import absent

__all__ = ["default_job", "default_job_spec"]


def default_job(job: batch_v1.Job) -> batch_v1.Job:
    """A job that says how often, how parallel and how stubborn it is."""
    return with_template_labels(replace(job, spec=default_job_spec(job.spec)), job.spec.template)


def default_job_spec(spec: batch_v1.JobSpec) -> batch_v1.JobSpec:
    """The same for the job of a CronJob."""
    changes: dict[str, Any] = {"template": default_pod_template(spec.template)}
    if spec.completions is None and spec.parallelism is None:
        changes["completions"] = 1
    changes |= absent(
        spec,
        parallelism=1,
        backoff_limit=2**31 - 1 if spec.backoff_limit_per_index is not None else 6,
        completion_mode="NonIndexed",
        suspend=False,
        manual_selector=False,
        pod_replacement_policy="Failed" if spec.pod_failure_policy is not None else "TerminatingOrFailed",
    )
    return replace(spec, **changes)
