"""Defaults of what makes pods: Job, CronJob and the kinds of apps (spec: controllers.md, section 7)."""

from __future__ import annotations

from typing import Any, TypeVar

from cathedra.api.core import apps_v1, batch_v1, core_v1, meta_v1
from cathedra.api.defaulting.pods import default_pod_template
from cathedra.api.struct import KubeStruct, replace

T = TypeVar("T", bound=KubeStruct)


def _absent(obj: Any, **defaults: Any) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if getattr(obj, name) in ("", None)}


def default_job(job: batch_v1.Job) -> batch_v1.Job:
    """A job that says how often, how parallel and how stubborn it is."""
    return with_template_labels(replace(job, spec=default_job_spec(job.spec)), job.spec.template)


def default_job_spec(spec: batch_v1.JobSpec) -> batch_v1.JobSpec:
    """The same for the job of a CronJob."""
    changes: dict[str, Any] = {"template": default_pod_template(spec.template)}
    if spec.completions is None and spec.parallelism is None:
        changes["completions"] = 1
    changes |= _absent(
        spec,
        parallelism=1,
        backoff_limit=2**31 - 1 if spec.backoff_limit_per_index is not None else 6,
        completion_mode="NonIndexed",
        suspend=False,
        manual_selector=False,
        pod_replacement_policy="Failed" if spec.pod_failure_policy is not None else "TerminatingOrFailed",
    )
    return replace(spec, **changes)


def default_cronjob(job: batch_v1.CronJob) -> batch_v1.CronJob:
    """A cron job with its history limits."""
    spec = job.spec
    template = replace(spec.job_template, spec=_without_counts(spec.job_template.spec))
    changes = _absent(
        spec,
        concurrency_policy="Allow",
        suspend=False,
        successful_jobs_history_limit=3,
        failed_jobs_history_limit=1,
    )
    return replace(job, spec=replace(spec, job_template=template, **changes))


def _without_counts(spec: batch_v1.JobSpec) -> batch_v1.JobSpec:
    """The job of a CronJob gets its own defaults only when it is made."""
    return replace(spec, template=default_pod_template(spec.template))


def with_template_labels(obj: T, template: core_v1.PodTemplateSpec) -> T:
    """An object without labels gets those of its template."""
    metadata: meta_v1.ObjectMeta = obj.metadata  # type: ignore[attr-defined]  # every kind has it
    if metadata.labels or not template.metadata.labels:
        return obj
    return replace(obj, metadata=replace(metadata, labels=dict(template.metadata.labels)))


def default_deployment(deployment: apps_v1.Deployment) -> apps_v1.Deployment:
    """A deployment that rolls a quarter at a time."""
    spec = deployment.spec
    strategy = spec.strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateDeployment()
        rolling = replace(rolling, **_absent(rolling, max_unavailable="25%", max_surge="25%"))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    changes = _absent(spec, replicas=1, revision_history_limit=10, progress_deadline_seconds=600)
    template = default_pod_template(spec.template)
    return replace(deployment, spec=replace(spec, template=template, strategy=strategy, **changes))


def default_replicaset(replicas: apps_v1.ReplicaSet) -> apps_v1.ReplicaSet:
    """A replica set of one."""
    spec = replicas.spec
    filled = replace(spec, template=default_pod_template(spec.template), **_absent(spec, replicas=1))
    return with_template_labels(replace(replicas, spec=filled), spec.template)


def default_replication_controller(replicas: core_v1.ReplicationController) -> core_v1.ReplicationController:
    """A replication controller of one, selecting its template's labels."""
    spec = replicas.spec
    changes: dict[str, Any] = _absent(spec, replicas=1)
    if spec.template is not None:
        changes["template"] = default_pod_template(spec.template)
        if not spec.selector:
            changes["selector"] = dict(spec.template.metadata.labels)
    filled = replace(replicas, spec=replace(spec, **changes))
    return with_template_labels(filled, spec.template) if spec.template is not None else filled


def default_statefulset(stateful: apps_v1.StatefulSet) -> apps_v1.StatefulSet:
    """A stateful set of one that starts and rolls in order."""
    spec = stateful.spec
    strategy = spec.update_strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateStatefulSetStrategy()
        rolling = replace(rolling, **_absent(rolling, partition=0))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    retention = spec.persistent_volume_claim_retention_policy
    retention = retention or apps_v1.StatefulSetPersistentVolumeClaimRetentionPolicy()
    retention = replace(retention, **_absent(retention, when_deleted="Retain", when_scaled="Retain"))
    changes = _absent(spec, replicas=1, pod_management_policy="OrderedReady", revision_history_limit=10)
    filled = replace(
        spec,
        template=default_pod_template(spec.template),
        update_strategy=strategy,
        persistent_volume_claim_retention_policy=retention,
        **changes,
    )
    return with_template_labels(replace(stateful, spec=filled), spec.template)


def default_daemonset(daemon: apps_v1.DaemonSet) -> apps_v1.DaemonSet:
    """A daemon set that rolls one node at a time."""
    spec = daemon.spec
    strategy = spec.update_strategy
    if strategy.type in ("", "RollingUpdate"):
        rolling = strategy.rolling_update or apps_v1.RollingUpdateDaemonSet()
        rolling = replace(rolling, **_absent(rolling, max_unavailable=1, max_surge=0))
        strategy = replace(strategy, type="RollingUpdate", rolling_update=rolling)
    filled = replace(
        spec,
        template=default_pod_template(spec.template),
        update_strategy=strategy,
        **_absent(spec, revision_history_limit=10),
    )
    return with_template_labels(replace(daemon, spec=filled), spec.template)
