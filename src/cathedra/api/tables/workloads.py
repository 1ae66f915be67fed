"""Tables of what makes pods: Job, CronJob and the kinds of apps (spec: apimachinery.md, section 10)."""

from __future__ import annotations

from typing import Any, Final

from cathedra.api.core import apps_v1, batch_v1, core_v1, meta_v1
from cathedra.api.definition import Column
from cathedra.api.tables.ages import AGE, NAME, age, human_duration

_CONTAINERS: Final = Column("Containers", priority=1, description="Names of the containers.")
_IMAGES: Final = Column("Images", priority=1, description="Images of the containers.")
_SELECTOR: Final = Column("Selector", priority=1, description="The pods that belong to it.")

JOB_COLUMNS: Final = (
    NAME,
    Column("Status", description="How the job is doing."),
    Column("Completions", description="Pods that succeeded, of those wanted."),
    Column("Duration", description="How long the job has run."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
CRONJOB_COLUMNS: Final = (
    NAME,
    Column("Schedule", description="When jobs are made, in cron's form."),
    Column("Timezone", description="The time zone of the schedule."),
    Column("Suspend", type="boolean", description="Whether no jobs are made."),
    Column("Active", type="integer", description="Jobs that run now."),
    Column("Last Schedule", description="How long ago the last job was made."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
DEPLOYMENT_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Ready pods, of those wanted."),
    Column("Up-to-date", type="string", description="Pods of the newest template."),
    Column("Available", type="string", description="Pods that have been ready long enough."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
REPLICASET_COLUMNS: Final = (
    NAME,
    Column("Desired", type="integer", description="Pods wanted."),
    Column("Current", type="integer", description="Pods that exist."),
    Column("Ready", type="integer", description="Pods that are ready."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
STATEFULSET_COLUMNS: Final = (
    NAME,
    Column("Ready", description="Ready pods, of those wanted."),
    AGE,
    _CONTAINERS,
    _IMAGES,
)
DAEMONSET_COLUMNS: Final = (
    NAME,
    Column("Desired", type="integer", description="Nodes that should run a pod."),
    Column("Current", type="integer", description="Nodes that run one."),
    Column("Ready", type="integer", description="Nodes whose pod is ready."),
    Column("Up-to-date", type="integer", description="Nodes with a pod of the newest template."),
    Column("Available", type="integer", description="Nodes whose pod has been ready long enough."),
    Column("Node Selector", description="Which nodes."),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)


def _containers(template: core_v1.PodTemplateSpec) -> list[Any]:
    containers = template.spec.containers if template.spec else ()
    return [",".join(c.name for c in containers), ",".join(c.image for c in containers)]


def selector_text(selector: meta_v1.LabelSelector | None) -> str:
    """A label selector as kubectl prints it; ``<none>`` where there is none."""
    if selector is None:
        return "<none>"
    signs = {"In": "in", "NotIn": "notin"}
    terms = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for expression in selector.match_expressions:
        if expression.operator in signs:
            terms.append(f"{expression.key} {signs[expression.operator]} ({','.join(sorted(expression.values))})")
        else:
            terms.append(expression.key if expression.operator == "Exists" else f"!{expression.key}")
    return ",".join(terms) or "<none>"


def job_cells(job: batch_v1.Job, now: float) -> list[Any]:
    """Cells of a Job."""
    return [
        job.metadata.name,
        _job_status(job),
        _completions(job),
        _job_duration(job, now),
        age(job.metadata.creation_timestamp, now),
        *_containers(job.spec.template),
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


def cronjob_cells(job: batch_v1.CronJob, now: float) -> list[Any]:
    """Cells of a CronJob."""
    last = job.status.last_schedule_time
    return [
        job.metadata.name,
        job.spec.schedule,
        job.spec.time_zone or "<none>",
        bool(job.spec.suspend),
        len(job.status.active),
        age(last, now) if last else "<none>",
        age(job.metadata.creation_timestamp, now),
        *_containers(job.spec.job_template.spec.template),
        selector_text(job.spec.job_template.spec.selector),
    ]


def deployment_cells(deployment: apps_v1.Deployment, now: float) -> list[Any]:
    """Cells of a Deployment."""
    status = deployment.status
    return [
        deployment.metadata.name,
        f"{status.ready_replicas}/{deployment.spec.replicas or 0}",
        status.updated_replicas,
        status.available_replicas,
        age(deployment.metadata.creation_timestamp, now),
        *_containers(deployment.spec.template),
        selector_text(deployment.spec.selector),
    ]


def replicaset_cells(replicas: apps_v1.ReplicaSet, now: float) -> list[Any]:
    """Cells of a ReplicaSet."""
    return [
        replicas.metadata.name,
        replicas.spec.replicas or 0,
        replicas.status.replicas,
        replicas.status.ready_replicas,
        age(replicas.metadata.creation_timestamp, now),
        *_containers(replicas.spec.template),
        selector_text(replicas.spec.selector),
    ]


def statefulset_cells(stateful: apps_v1.StatefulSet, now: float) -> list[Any]:
    """Cells of a StatefulSet."""
    return [
        stateful.metadata.name,
        f"{stateful.status.ready_replicas}/{stateful.spec.replicas or 0}",
        age(stateful.metadata.creation_timestamp, now),
        *_containers(stateful.spec.template),
    ]


def daemonset_cells(daemon: apps_v1.DaemonSet, now: float) -> list[Any]:
    """Cells of a DaemonSet."""
    status = daemon.status
    nodes = daemon.spec.template.spec.node_selector if daemon.spec.template.spec else {}
    return [
        daemon.metadata.name,
        status.desired_number_scheduled,
        status.current_number_scheduled,
        status.number_ready,
        status.updated_number_scheduled,
        status.number_available,
        ",".join(f"{key}={value}" for key, value in sorted(nodes.items())) or "<none>",
        age(daemon.metadata.creation_timestamp, now),
        *_containers(daemon.spec.template),
        selector_text(daemon.spec.selector),
    ]
