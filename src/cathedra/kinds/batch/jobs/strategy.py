"""Strategy and definition of the job: its pods carry its own uid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cathedra.api.core import batch_v1
from cathedra.api.core.meta_v1 import DeleteOptions, LabelSelector
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.kinds.batch.jobs.columns import JOB_COLUMNS, job_cells
from cathedra.kinds.batch.jobs.defaults import default_job
from cathedra.kinds.batch.jobs.validation import validate_job, validate_job_update
from cathedra.kinds.builtin import builtin
from cathedra.kinds.core.pods.templates import with_template_labels
from cathedra.kinds.core.pods.warnings import named_workload_warnings
from cathedra.kinds.definition import RequestContext, ResourceDefinition
from cathedra.kinds.deletion import DeletionRules, states_propagation
from cathedra.kinds.strategies import GenerationStrategy, ObjectRules

__all__ = ["JobStrategy", "job_definition", "with_selector"]

ORPHAN_WARNING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


class JobStrategy(GenerationStrategy[batch_v1.Job]):
    """Jobs mark their pods with the job's own uid, so that two jobs never take each other's pods."""

    def prepare_create(self, obj: batch_v1.Job, context: RequestContext) -> batch_v1.Job:
        """Generate the selector and the template's labels, unless the author chose to do that himself."""
        job = super().prepare_create(obj, context)
        if job.spec.manual_selector:
            return job
        job = with_selector(job)
        return with_template_labels(job, job.spec.template)

    def validate_create(self, obj: batch_v1.Job, context: RequestContext) -> ErrorList:
        """A job's own rules and those of its template."""
        return validate_job(obj, context.gates)

    def validate_update(self, new: batch_v1.Job, old: batch_v1.Job, context: RequestContext) -> ErrorList:
        """What a job may not change once it is there."""
        return validate_job_update(new, old, context.gates)


def with_selector(job: batch_v1.Job) -> batch_v1.Job:
    """The job with labels of its own on the template, and a selector for them."""
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
        """The default surprises: a request that leaves it to that is told."""
        return () if states_propagation(options) else (ORPHAN_WARNING,)


def job_definition() -> ResourceDefinition[batch_v1.Job]:
    """The definition of jobs."""
    return builtin(
        batch_v1.Job,
        "jobs",
        namespaced=True,
        default=default_job,
        strategy=JobStrategy(default_job, ObjectRules(warnings=named_workload_warnings)),
        table=(JOB_COLUMNS, job_cells),
        categories=("all",),
        deletion=JobDeletion(),
        field_selectors={"status.successful": lambda job: str(job.status.succeeded)},
    )
