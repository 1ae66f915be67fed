"""Definitions of what makes pods: batch and apps (spec: controllers.md, section 7)."""

from __future__ import annotations

from typing import Any

from cathedra.api.core import apps_v1, batch_v1
from cathedra.api.core.meta_v1 import LabelSelector
from cathedra.api.defaulting import workloads
from cathedra.api.definition import RequestContext, ResourceDefinition
from cathedra.api.definitions.names import builtin
from cathedra.api.definitions.strategies import GenerationStrategy, Rules
from cathedra.api.field import ErrorList
from cathedra.api.struct import replace
from cathedra.api.tables import workloads as tables
from cathedra.api.validation import apps
from cathedra.api.validation.workloads import (
    validate_cronjob,
    validate_cronjob_update,
    validate_job,
    validate_job_update,
)

__all__ = ["workload_definitions"]


class JobStrategy(GenerationStrategy[batch_v1.Job]):
    """Jobs mark their pods with the job's own uid, so that two jobs never take each other's pods."""

    def prepare_create(self, obj: batch_v1.Job, context: RequestContext) -> batch_v1.Job:
        """Generate the selector and the template's labels, unless the author chose to do that himself."""
        job = super().prepare_create(obj, context)
        if job.spec.manual_selector:
            return job
        job = with_selector(job)
        return workloads.with_template_labels(job, job.spec.template)

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


def workload_definitions() -> tuple[ResourceDefinition[Any], ...]:
    """Jobs, cron jobs, deployments, replica sets, stateful sets, daemon sets and their revisions."""
    return (
        builtin(
            batch_v1.Job,
            "jobs",
            namespaced=True,
            default=workloads.default_job,
            strategy=JobStrategy(workloads.default_job),
            table=(tables.JOB_COLUMNS, tables.job_cells),
            categories=("all",),
            field_selectors={"status.successful": lambda job: str(job.status.succeeded)},
        ),
        builtin(
            batch_v1.CronJob,
            "cronjobs",
            namespaced=True,
            default=workloads.default_cronjob,
            rules=Rules(validate_cronjob, validate_cronjob_update),
            counts_generation=True,
            table=(tables.CRONJOB_COLUMNS, tables.cronjob_cells),
            short_names=("cj",),
            categories=("all",),
        ),
        builtin(
            apps_v1.Deployment,
            "deployments",
            namespaced=True,
            default=workloads.default_deployment,
            rules=Rules(apps.validate_deployment, apps.validate_deployment_update),
            counts_generation=True,
            table=(tables.DEPLOYMENT_COLUMNS, tables.deployment_cells),
            short_names=("deploy",),
            categories=("all",),
        ),
        builtin(
            apps_v1.ReplicaSet,
            "replicasets",
            namespaced=True,
            default=workloads.default_replicaset,
            rules=Rules(apps.validate_replicaset, apps.validate_replicaset_update),
            counts_generation=True,
            table=(tables.REPLICASET_COLUMNS, tables.replicaset_cells),
            short_names=("rs",),
            categories=("all",),
            field_selectors={"status.replicas": lambda replicas: str(replicas.status.replicas)},
        ),
        builtin(
            apps_v1.StatefulSet,
            "statefulsets",
            namespaced=True,
            default=workloads.default_statefulset,
            rules=Rules(apps.validate_statefulset, apps.validate_statefulset_update),
            counts_generation=True,
            table=(tables.STATEFULSET_COLUMNS, tables.statefulset_cells),
            short_names=("sts",),
            categories=("all",),
        ),
        builtin(
            apps_v1.DaemonSet,
            "daemonsets",
            namespaced=True,
            default=workloads.default_daemonset,
            rules=Rules(apps.validate_daemonset, apps.validate_daemonset_update),
            counts_generation=True,
            table=(tables.DAEMONSET_COLUMNS, tables.daemonset_cells),
            short_names=("ds",),
            categories=("all",),
        ),
        builtin(apps_v1.ControllerRevision, "controllerrevisions", namespaced=True),
    )
